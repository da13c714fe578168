"""Health endpoints, request metrics under kube-apiserver's names, access log.

Metrics are plain integers converted at a scrape: prometheus_client's counters lock at each update, and one event loop
handles all requests and scrapes. The log contains no bodies, headers or tokens.
"""

import logging
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, Self

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from structlog.typing import FilteringBoundLogger

from mooring.api.health import Check, Health
from mooring.api.kinds import STORED
from mooring.clock import Clock
from mooring.server.contract import Target
from mooring.server.http.requests import Verb
from mooring.server.http.responses import text_response

ENDPOINTS: Final = frozenset({"healthz", "livez", "readyz"})

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Probes:
    def __init__(self, readiness: Mapping[str, Check]) -> None:
        self._endpoints = {
            "healthz": Health("healthz", {}),
            "livez": Health("livez", {}),
            "readyz": Health("readyz", readiness),
        }

    def answer(
        self, endpoint: str, below: Sequence[str], *, verbose: bool, exclude: Collection[str] = ()
    ) -> web.Response | None:
        """`below` names one check of the endpoint, or is empty for all; None if there is no such check."""
        health = self._endpoints[endpoint]
        if len(below) > 1:
            return None
        answer = health.answer_one(below[0]) if below else health.answer(verbose=verbose, exclude=exclude)
        if answer is None:
            return None
        if answer.failures:
            log.info("probe failed", endpoint=endpoint, failures=dict(answer.failures))
        return text_response(answer.text, code=200 if answer.healthy else 500)


#: Seconds; kube-apiserver's.
DURATION_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
#: Bytes; kube-apiserver's.
SIZE_BUCKETS: Final = tuple(10.0**power for power in range(3, 10))

_ABOUT: Final = ("group", "version", "resource", "subresource", "scope", "component")

Labels = tuple[str, ...]


class HistogramCounts:
    """Counts per bucket and the sum of a histogram."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def into(self, family: HistogramMetricFamily, labels: Labels) -> None:
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family.add_metric(labels, [*zip(bounds, accumulate(self._counts), strict=True)], self._sum)


class RequestSeries(Collector):
    """Request metrics; keys are label values in the order of the families below."""

    def __init__(self) -> None:
        self.total: Counter[Labels] = Counter()
        self.seconds = defaultdict[Labels, HistogramCounts](lambda: HistogramCounts(DURATION_BUCKETS))
        self.bytes = defaultdict[Labels, HistogramCounts](lambda: HistogramCounts(SIZE_BUCKETS))
        #: Open watches.
        self.long: Counter[Labels] = Counter()
        #: Other requests; watches would dominate them.
        self.inflight: dict[str, int] = {"readOnly": 0, "mutating": 0}

    def answered(self, verb: str, dry_run: str, about: Labels, code: int, seconds: float, size: int) -> None:
        labels = (verb, dry_run, *about)
        self.total[*labels, str(code)] += 1
        self.seconds[labels].add(seconds)
        if size:
            self.bytes[verb, *about].add(size)

    def collect(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            "apiserver_request_total",
            "Requests by verb, dry run, resource, scope, component and HTTP code.",
            labels=("verb", "dry_run", *_ABOUT, "code"),
        )
        yield _filled(total, self.total)
        seconds = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Duration of requests, by verb, dry run, resource, scope and component.",
            labels=("verb", "dry_run", *_ABOUT),
        )
        yield _filled_histogram(seconds, self.seconds)
        sizes = HistogramMetricFamily(
            "apiserver_response_sizes",
            "Size of responses in bytes, by verb, resource, scope and component.",
            labels=("verb", *_ABOUT),
        )
        yield _filled_histogram(sizes, self.bytes)
        long = GaugeMetricFamily(
            "apiserver_longrunning_requests",
            "Open watches, by verb, resource, scope and component.",
            labels=("verb", *_ABOUT),
        )
        yield _filled(long, self.long)
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests in flight.", labels=["request_kind"]
        )
        yield _filled(inflight, {(kind,): count for kind, count in self.inflight.items()})


def _filled(family: CounterMetricFamily | GaugeMetricFamily, counts: Mapping[Labels, int]) -> Metric:
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _filled_histogram(family: HistogramMetricFamily, spreads: Mapping[Labels, HistogramCounts]) -> Metric:
    for labels, spread in spreads.items():
        spread.into(family, labels)
    return family


#: Verbs in kube-apiserver's metrics.
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
#: Other methods are counted as OTHER: a client must not create unbounded series.
_METHODS: Final = (*_READING, "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_COMPONENT: Final = "apiserver"
#: Labels of a non-resource request.
_NOTHING: Final = ("", "", "", "", "", _COMPONENT)

#: The client disconnected before the response; nginx's code.
CLIENT_CLOSED_REQUEST: Final = 499

access_log: Final[FilteringBoundLogger] = structlog.get_logger("mooring.server.access")


class RequestRecord:
    """One request in flight.

    Without reference cycles, callbacks included: collecting them took a twentieth of the server's time.
    """

    def __init__(self, records: "RequestRecords", request: web.BaseRequest) -> None:
        self._records = records
        self._request = request
        self._kind = "readOnly" if request.method in _READING else "mutating"
        #: Labels of an open watch.
        self._watching: Labels | None = None
        self._began = records.clock.monotonic()
        #: Empty until authenticated.
        self.user = ""
        self.verb = request.method if request.method in _METHODS else "OTHER"
        self.about: Labels = _NOTHING
        self.code = CLIENT_CLOSED_REQUEST
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
        self._log(series, self._records.clock.monotonic() - self._began)

    def _log(self, series: RequestSeries, seconds: float) -> None:
        request = self._request
        dry_run = "All" if "dryRun" in request.query else ""
        series.answered(self.verb, dry_run, self.about, self.code, seconds, self.size)
        if not access_log.is_enabled_for(logging.INFO):
            return  # formatting the line costs more than the metrics
        access_log.info(
            "request",
            verb=self.verb,
            uri=request.path_qs,
            user=self.user,
            agent=request.headers.get("User-Agent", ""),
            client=request.remote,
            code=self.code,
            seconds=round(seconds, 6),
        )

    def names(self, verb: Verb, target: Target) -> None:
        """Set verb and target of the request."""
        self.verb = _VERBS[verb]
        if verb is Verb.PATCH and self._request.headers.get("Content-Type", "").startswith(_APPLY):
            self.verb = "APPLY"
        kind = target.kind
        self.about = (kind.group, kind.version, kind.plural, target.subresource, _scope(target, verb), _COMPONENT)
        if verb is Verb.WATCH:
            series = self._records.series
            self._watching = (self.verb, *self.about)
            series.long[self._watching] += 1
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


class StoredObjects(Collector):
    """Number of stored objects by kind, counted at a scrape."""

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
        names = {kind: f"{kind.plural}.{kind.group}" if kind.group else kind.plural for kind in counts}
        yield _filled(by_name, {(names[kind],): count for kind, count in counts.items()})
        yield _filled(by_group, {(kind.group, kind.plural): count for kind, count in counts.items()})


def _scope(target: Target, verb: Verb) -> str:
    if target.name or verb is Verb.CREATE:
        return "resource"
    return "namespace" if target.namespace else "cluster"
