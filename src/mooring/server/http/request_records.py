"""What the server remembers of requests: metrics under upstream's names, and a line in the log for each.

A record is opened when a request arrives, told who asks and what for once that is known, and closed with the answer.
Watches count as long-running while they last, and not as in flight: they would hide what is. The log says who asked
for which path and what came of it; it has no bodies, no headers and no tokens. The figures themselves are
`request_series`.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, Self

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import STORED
from mooring.clock import Clock
from mooring.server.contract import Target
from mooring.server.http.request_series import Labels, RequestSeries
from mooring.server.http.routing import Verb

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
_COMPONENT: Final = "apiserver"
#: What a request outside the resources is about.
_NOTHING: Final = ("", "", "", "", "", _COMPONENT)

#: A client that went before it was answered; the number web servers use for it.
GONE: Final = 499

log: Final[FilteringBoundLogger] = structlog.get_logger("mooring.server.access")


class RequestRecord:
    """One request under way, and the context in which it is answered.

    Holds no reference to itself, callbacks included: with one, every request with all that belongs to it would stay
    until a search for cycles, which then took a twentieth of the server's time.
    """

    def __init__(self, records: "RequestRecords", request: web.BaseRequest) -> None:
        self._records = records
        self._request = request
        self._kind = "readOnly" if request.method in _READING else "mutating"
        #: What counts a watch while it lasts.
        self._watching: Labels | None = None
        self._began = records.clock.monotonic()
        #: Who asks, once that is known.
        self.user = ""
        self.verb = request.method if request.method in _METHODS else "OTHER"
        self.about: Labels = _NOTHING
        self.code = GONE
        self.size = 0

    def __enter__(self) -> Self:
        self._records.series.inflight[self._kind] += 1
        return self

    def __exit__(self, *_: object) -> None:
        series = self._records.series
        if self._watching is not None:
            series.long[self._watching] -= 1
        else:
            series.inflight[self._kind] -= 1
        self._records.close(self._request, self, self._records.clock.monotonic() - self._began)

    def names(self, verb: Verb, target: Target) -> None:
        """What is asked for."""
        self.verb = _VERBS[verb]
        if verb is Verb.PATCH and self._request.headers.get("Content-Type", "").startswith(_APPLY):
            self.verb = "APPLY"
        kind = target.kind
        self.about = (kind.group, kind.version, kind.plural, target.subresource, _scope(target, verb), _COMPONENT)
        if verb is Verb.WATCH:
            # Only now is it known to be one.
            series = self._records.series
            self._watching = (self.verb, *self.about)
            series.long[self._watching] = series.long.get(self._watching, 0) + 1
            series.inflight[self._kind] -= 1

    def answered(self, response: web.StreamResponse) -> None:
        self.code = response.status
        body = response.body if isinstance(response, web.Response) else None
        self.size = len(body) if isinstance(body, bytes) else 0


class RequestRecords:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.clock = clock
        self.series = RequestSeries()
        registry.register(self.series)

    def record(self, request: web.BaseRequest) -> RequestRecord:
        return RequestRecord(self, request)

    def close(self, request: web.BaseRequest, record: RequestRecord, seconds: float) -> None:
        dry_run = "All" if "dryRun" in request.query else ""
        self.series.answered(record.verb, dry_run, record.about, record.code, seconds, record.size)
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
