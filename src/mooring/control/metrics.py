"""Prometheus metrics of one process, under upstream's names where they exist.

Each `Metrics` has a registry of its own, so that several control planes in one Python process do not add up. Labels are
bound once, when a queue or an election starts: a label lookup costs more than counting.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring import __version__
from mooring.clock import Clock
from mooring.control.invariants import Invariant, InvariantChecks
from mooring.control.object_counts import ObjectCounts
from mooring.control.workqueue import Observer

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: Seconds; upstream's buckets of work queues.
QUEUE_BUCKETS: Final = (1e-08, 1e-07, 1e-06, 1e-05, 1e-04, 1e-03, 0.01, 0.1, 1.0, 10.0)


@dataclass(eq=False)
class QueueMetrics(Observer):
    """Metrics of one work queue."""

    clock: Clock
    depth: Gauge
    adds: Counter
    waited: Histogram
    worked: Histogram
    retries: Counter
    _added: dict[Hashable, float] = field(default_factory=dict)
    _taken: dict[Hashable, float] = field(default_factory=dict)

    def added(self, key: Hashable) -> None:
        self.adds.inc()
        self.depth.inc()
        self._added[key] = self.clock.monotonic()

    def taken(self, key: Hashable) -> None:
        now = self._taken[key] = self.clock.monotonic()
        self.depth.dec()
        self.waited.observe(now - self._added.pop(key))

    def done(self, key: Hashable) -> None:
        self.worked.observe(self.clock.monotonic() - self._taken.pop(key))

    def retried(self) -> None:
        self.retries.inc()


class Metrics:
    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self.memory = ObjectCounts(self.registry)
        self._clock = clock
        self._depth = Gauge("workqueue_depth", "Current depth of workqueue", ["name"], registry=self.registry)
        self._adds = Counter(
            "workqueue_adds_total", "Total number of adds handled by workqueue", ["name"], registry=self.registry
        )
        self._waited = Histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
            ["name"],
            buckets=QUEUE_BUCKETS,
            registry=self.registry,
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            ["name"],
            buckets=QUEUE_BUCKETS,
            registry=self.registry,
        )
        self._retries = Counter(
            "workqueue_retries_total", "Total number of retries handled by workqueue", ["name"], registry=self.registry
        )
        self._internal_errors = Counter(
            "mooring_internal_errors_total",
            "Unexpected exceptions (bugs), by the work queue, loop, informer or event recorder they occurred in.",
            ["name"],
            registry=self.registry,
        )
        violations = Counter(
            "mooring_invariant_violations_total",
            "Irreversible writes not made because an invariant did not hold, by invariant.",
            ["invariant"],
            registry=self.registry,
        )
        for invariant in Invariant:
            violations.labels(invariant.value)
        self.invariants = InvariantChecks(lambda invariant: violations.labels(invariant.value).inc())
        self._leads = Gauge(
            "leader_election_master_status",
            "1 if this process holds the lease of that name, 0 if it is standby.",
            ["name"],
            registry=self.registry,
        )
        build = Gauge(
            "mooring_build_info",
            "A metric with a constant '1' value labeled by the version of Mooring.",
            ["version"],
            registry=self.registry,
        )
        build.labels(__version__).set(1)

    def queue(self, name: str) -> QueueMetrics:
        """Metrics of one work queue; its series exist from now on."""
        self._internal_errors.labels(name)
        depth, adds, waited = self._depth.labels(name), self._adds.labels(name), self._waited.labels(name)
        return QueueMetrics(self._clock, depth, adds, waited, self._worked.labels(name), self._retries.labels(name))

    def count_internal_error(self, name: str) -> None:
        """Count an unexpected exception in the work queue, loop or informer of that name."""
        self._internal_errors.labels(name).inc()

    def leader(self, name: str) -> Callable[[bool], None]:
        """The `report` function of the election on one Lease."""
        return self._leads.labels(name).set

    def expose(self) -> bytes:
        """All metrics in the format CONTENT_TYPE."""
        return generate_latest(_Undated(self.registry))


class _Undated(Collector):
    """A registry without the `_created` series: the library sets them from the system clock."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if sample.name != f"{metric.name}_created"]
            yield metric
