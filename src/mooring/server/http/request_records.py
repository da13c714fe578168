"""What the server remembers of requests: metrics under upstream's names, and a line in the log for each.

A record is opened when a request arrives, told who asks and what for once that is known, and closed with the answer.
Watches count as long-running while they last, and not as in flight: they would hide what is. Labels are bound once per
combination, since looking them up costs more than counting. The log says who asked for which path and what came of
it; it has no bodies, no headers and no tokens.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import STORED
from mooring.clock import Clock
from mooring.server.contract import Target
from mooring.server.http.routing import Verb

#: Seconds; upstream's, chosen by them around the latencies they promise.
DURATION_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
#: Bytes, from a kilobyte to a gigabyte; upstream's.
SIZE_BUCKETS: Final = tuple(10.0**power for power in range(3, 10))

#: How upstream's metrics spell verbs.
_VERBS: Final = {
    Verb.GET: "GET",
    Verb.LIST: "LIST",
    Verb.WATCH: "WATCH",
    Verb.CREATE: "POST",
    Verb.UPDATE: "PUT",
    Verb.PATCH: "PATCH",
    Verb.DELETE: "DELETE",
    Verb.DELETE_COLLECTION: "DELETECOLLECTION",
}
_APPLY: Final = "application/apply-patch"
_READING: Final = ("GET", "HEAD")
#: Others are told as one: a client must not be able to make series without end.
_METHODS: Final = (*_READING, "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_RESOURCE: Final = ("group", "version", "resource", "subresource", "scope", "component")
_COMPONENT: Final = "apiserver"
#: What a request outside the resources is about.
_NOTHING: Final = ("", "", "", "", "")

#: A client that went before it was answered; the number web servers use for it.
GONE: Final = 499

log: Final[FilteringBoundLogger] = structlog.get_logger("mooring.server.access")

Labels = tuple[str, ...]


class RequestRecord:
    """One request under way."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        #: Who asks, once that is known.
        self.user = ""
        self.verb = request.method if request.method in _METHODS else "OTHER"
        self.about: Labels = _NOTHING
        self.code = GONE
        self.size = 0
        self.began: Callable[[], None] = lambda: None

    def names(self, verb: Verb, target: Target) -> None:
        """What is asked for."""
        self.verb = _VERBS[verb]
        if verb is Verb.PATCH and self._request.headers.get("Content-Type", "").startswith(_APPLY):
            self.verb = "APPLY"
        kind = target.kind
        self.about = (kind.group, kind.version, kind.plural, target.subresource, _scope(target, verb))
        self.began()

    def answered(self, response: web.StreamResponse) -> None:
        self.code = response.status
        body = response.body if isinstance(response, web.Response) else None
        self.size = len(body) if isinstance(body, bytes) else 0


class RequestRecords:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        self._total = Counter(
            "apiserver_request_total",
            "Requests by verb, dry run, resource, scope, component and HTTP code.",
            ("verb", "dry_run", *_RESOURCE, "code"),
            registry=registry,
        )
        self._duration = Histogram(
            "apiserver_request_duration_seconds",
            "How long requests took, by verb, dry run, resource, scope and component.",
            ("verb", "dry_run", *_RESOURCE),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._sizes = Histogram(
            "apiserver_response_sizes",
            "How many bytes answers had, by verb, resource, scope and component.",
            ("verb", *_RESOURCE),
            buckets=SIZE_BUCKETS,
            registry=registry,
        )
        self._long = Gauge(
            "apiserver_longrunning_requests",
            "Watches under way, by verb, resource, scope and component.",
            ("verb", *_RESOURCE),
            registry=registry,
        )
        inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests under way.", ["request_kind"], registry=registry
        )
        self._inflight = {True: inflight.labels("readOnly"), False: inflight.labels("mutating")}
        self._bound: dict[tuple[str, str, Labels, int], tuple[Counter, Histogram, Histogram]] = {}

    def record(self, request: web.BaseRequest) -> "_Recording":
        """A context in which the request is answered."""
        return _Recording(self, request)

    def began(self, record: RequestRecord) -> Gauge | None:
        """What counts a watch while it lasts; None for any other request."""
        if record.verb != "WATCH":
            return None
        return self._long.labels(record.verb, *record.about, _COMPONENT)

    def inflight(self, method: str) -> Gauge:
        return self._inflight[method in _READING]

    @property
    def clock(self) -> Clock:
        return self._clock

    def close(self, request: web.BaseRequest, record: RequestRecord, seconds: float) -> None:
        dry_run = "All" if "dryRun" in request.query else ""
        total, duration, sizes = self._series(record.verb, dry_run, record.about, record.code)
        total.inc()
        duration.observe(seconds)
        if record.size:
            sizes.observe(record.size)
        if not log.is_enabled_for(logging.INFO):
            return  # putting the line together costs more than all the counting
        log.info(
            "request",
            verb=record.verb,
            uri=request.path_qs,
            user=record.user,
            agent=request.headers.get("User-Agent", ""),
            client=request.remote,
            code=record.code,
            seconds=round(seconds, 6),
        )

    def _series(self, verb: str, dry_run: str, about: Labels, code: int) -> tuple[Counter, Histogram, Histogram]:
        key = (verb, dry_run, about, code)
        bound = self._bound.get(key)
        if bound is None:
            said = (verb, dry_run, *about, _COMPONENT)
            bound = (
                self._total.labels(*said, str(code)),
                self._duration.labels(*said),
                self._sizes.labels(verb, *about, _COMPONENT),
            )
            self._bound[key] = bound
        return bound


class _Recording:
    """The context of one request."""

    def __init__(self, records: RequestRecords, request: web.BaseRequest) -> None:
        self._records = records
        self._request = request
        self._record = RequestRecord(request)
        self._inflight = records.inflight(request.method)
        self._watching: Gauge | None = None
        self._started = records.clock.monotonic()

    def __enter__(self) -> RequestRecord:
        self._record.began = self._began
        self._inflight.inc()
        return self._record

    def __exit__(self, *_: object) -> None:
        (self._watching or self._inflight).dec()
        self._records.close(self._request, self._record, self._records.clock.monotonic() - self._started)

    def _began(self) -> None:
        self._watching = self._records.began(self._record)
        if self._watching is not None:
            self._watching.inc()
            self._inflight.dec()


class StoredObjects(Collector):
    """How many objects of each kind there are, counted when somebody asks."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        counts = {kind: self._count(kind.store_prefix()) for kind in STORED}
        by_name = GaugeMetricFamily(
            "apiserver_storage_objects", "Objects in the store, by resource.", labels=["resource"]
        )
        by_group = GaugeMetricFamily(
            "apiserver_resource_objects", "Objects in the store, by group and resource.", labels=["group", "resource"]
        )
        for kind, count in counts.items():
            by_name.add_metric([f"{kind.plural}.{kind.group}" if kind.group else kind.plural], count)
            by_group.add_metric([kind.group, kind.plural], count)
        yield by_name
        yield by_group


def _scope(target: Target, verb: Verb) -> str:
    if target.name or verb is Verb.CREATE:
        return "resource"
    return "namespace" if target.namespace else "cluster"
