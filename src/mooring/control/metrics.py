"""Metrics of one process, under the names that dashboards for Kubernetes know.

Each process object has a registry of its own, so that several control planes in one Python process, as tests and the
simulated world have them, do not add up. Names that occur as labels are bound once, when a queue or an election
begins, since looking a label up costs more than counting. Components add their own metrics to `registry`.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring import __version__
from mooring.clock import Clock
from mooring.control.invariants import Invariant, InvariantChecks
from mooring.control.remembered import RememberedObjects

#: What `expose` returns: the text format every scraper reads.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: Seconds. Upstream's for work queues: ten decades from 10 ns.
QUEUE_BUCKETS: Final = (1e-08, 1e-07, 1e-06, 1e-05, 1e-04, 1e-03, 0.01, 0.1, 1.0, 10.0)


class QueueMetrics:
    """What a work queue tells about its keys. The times in between are taken here.

    `added` is for a key that was not waiting, be it new or in a worker's hands; adding a waiting key counts nothing.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        depth: Gauge,
        adds: Counter,
        waited: Histogram,
        worked: Histogram,
        retries: Counter,
        failures: Counter,
    ) -> None:
        self._clock = clock
        self._depth = depth
        self._adds = adds
        self._waited = waited
        self._worked = worked
        self._retries = retries
        self._failures = failures
        self._added: dict[Hashable, float] = {}
        self._taken: dict[Hashable, float] = {}

    def added(self, key: Hashable) -> None:
        self._adds.inc()
        self._depth.inc()
        self._added[key] = self._clock.monotonic()

    def taken(self, key: Hashable) -> None:
        """A worker begins with a key that was added."""
        now = self._taken[key] = self._clock.monotonic()
        self._depth.dec()
        self._waited.observe(now - self._added.pop(key))

    def done(self, key: Hashable) -> None:
        """The worker has finished with a key it took."""
        self._worked.observe(self._clock.monotonic() - self._taken.pop(key))

    def retried(self) -> None:
        self._retries.inc()

    def failed(self) -> None:
        self._failures.inc()


class Metrics:
    """All metrics of one process."""

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        #: To which everything that remembers is added.
        self.memory = RememberedObjects(self.registry)
        self._clock = clock
        self._depth = Gauge(
            "workqueue_depth",
            "Current depth of workqueue",
            ["name"],
            registry=self.registry,
        )
        self._adds = Counter(
            "workqueue_adds_total",
            "Total number of adds handled by workqueue",
            ["name"],
            registry=self.registry,
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
            "workqueue_retries_total",
            "Total number of retries handled by workqueue",
            ["name"],
            registry=self.registry,
        )
        self._failures = Counter(
            "mooring_internal_errors_total",
            "Number of times that handling an object of a work queue failed with a bug, after which it was retried.",
            ["name"],
            registry=self.registry,
        )
        violations = Counter(
            "mooring_invariant_violations_total",
            "Number of times that something did not hold that must hold before an irreversible write, which was then "
            "not made.",
            ["invariant"],
            registry=self.registry,
        )
        for invariant in Invariant:
            violations.labels(invariant.value)
        #: For the components of this process.
        self.invariants = InvariantChecks(lambda invariant: violations.labels(invariant.value).inc())
        self._leads = Gauge(
            "leader_election_master_status",
            "Whether this process holds the lease of that name (1) or stands by (0).",
            ["name"],
            registry=self.registry,
        )
        build = Gauge(
            "mooring_build_info",
            "A metric with a constant '1' value labeled by the version of Mooring that this process is of.",
            ["version"],
            registry=self.registry,
        )
        build.labels(__version__).set(1)

    def queue(self, name: str) -> QueueMetrics:
        """For one work queue; its series are there, at zero, from now on."""
        return QueueMetrics(
            self._clock,
            depth=self._depth.labels(name),
            adds=self._adds.labels(name),
            waited=self._waited.labels(name),
            worked=self._worked.labels(name),
            retries=self._retries.labels(name),
            failures=self._failures.labels(name),
        )

    def watch_informers(self, failures: Callable[[], Mapping[str, int]]) -> None:
        """Show how often change handlers have raised, by the resource that they were told of."""
        self.registry.register(_HandlerFailures(failures))

    def leader(self, name: str) -> Callable[[bool], None]:
        """For the election on one Lease, as its `report`; standing by from now on."""
        return self._leads.labels(name).set

    def expose(self) -> bytes:
        """Everything as a scraper reads it, in CONTENT_TYPE."""
        return generate_latest(_Undated(self.registry))


class _HandlerFailures(Collector):
    def __init__(self, failures: Callable[[], Mapping[str, int]]) -> None:
        self._failures = failures

    def describe(self) -> Iterator[Metric]:
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        family = self._family()
        for resource, count in self._failures().items():
            family.add_metric([resource], count)
        yield family

    @staticmethod
    def _family() -> CounterMetricFamily:
        text = "Number of times that a component failed with a bug to take note of a change, by the kind of object."
        return CounterMetricFamily("mooring_change_handler_failures", text, labels=["resource"])


class _Undated(Collector):
    """A registry without the `_created` series: the library dates them by the machine's clock, and few read them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if sample.name != f"{metric.name}_created"]
            yield metric
