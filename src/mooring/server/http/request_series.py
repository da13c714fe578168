"""The figures about requests, counted by plain integers and put into Prometheus' form when somebody asks.

Every request changes half a dozen of them. The library's own counters take a lock each time, for threads this server
does not have: one event loop answers all requests and all scrapes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

#: Seconds; upstream's, chosen by them around the latencies they promise.
DURATION_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
#: Bytes, from a kilobyte to a gigabyte; upstream's.
SIZE_BUCKETS: Final = tuple(10.0**power for power in range(3, 10))

_ABOUT: Final = ("group", "version", "resource", "subresource", "scope", "component")

Labels = tuple[str, ...]


class Spread:
    """How often values fell between which bounds, and what they add up to."""

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
    """All figures; keys are label values in the order of the families below."""

    def __init__(self) -> None:
        self.total: dict[Labels, int] = {}
        self.seconds: dict[Labels, Spread] = {}
        self.bytes: dict[Labels, Spread] = {}
        #: Watches, which last.
        self.long: dict[Labels, int] = {}
        #: Anything else, by whether it only reads.
        self.inflight: dict[str, int] = {"readOnly": 0, "mutating": 0}

    def answered(self, verb: str, dry_run: str, about: Labels, code: int, seconds: float, size: int) -> None:
        told = (verb, dry_run, *about)
        counted = (*told, str(code))
        self.total[counted] = self.total.get(counted, 0) + 1
        spread = self.seconds.get(told)
        if spread is None:
            spread = self.seconds[told] = Spread(DURATION_BUCKETS)
        spread.add(seconds)
        if size:
            sized = (verb, *about)
            spread = self.bytes.get(sized)
            if spread is None:
                spread = self.bytes[sized] = Spread(SIZE_BUCKETS)
            spread.add(size)

    def collect(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            "apiserver_request_total",
            "Requests by verb, dry run, resource, scope, component and HTTP code.",
            labels=("verb", "dry_run", *_ABOUT, "code"),
        )
        for labels, count in self.total.items():
            total.add_metric(labels, count)
        yield total
        seconds = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "How long requests took, by verb, dry run, resource, scope and component.",
            labels=("verb", "dry_run", *_ABOUT),
        )
        for labels, spread in self.seconds.items():
            spread.into(seconds, labels)
        yield seconds
        sizes = HistogramMetricFamily(
            "apiserver_response_sizes",
            "How many bytes answers had, by verb, resource, scope and component.",
            labels=("verb", *_ABOUT),
        )
        for labels, spread in self.bytes.items():
            spread.into(sizes, labels)
        yield sizes
        long = GaugeMetricFamily(
            "apiserver_longrunning_requests",
            "Watches under way, by verb, resource, scope and component.",
            labels=("verb", *_ABOUT),
        )
        for labels, count in self.long.items():
            long.add_metric(labels, count)
        yield long
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests under way.", labels=["request_kind"]
        )
        for kind, count in self.inflight.items():
            inflight.add_metric([kind], count)
        yield inflight
