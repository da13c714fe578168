"""What the scheduler counts about itself, under kube-scheduler's names.

Filled by `component` and exposed by whoever owns the registry; without one it counts for nobody, which costs little.
Labels are bound when the scheduler starts, and the queue is counted when somebody looks, so that a decision pays for
a few additions only. Metrics of work queues and leader election are the process's (`control.metrics`).
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.scheduler.queue import State
from mooring.volumes.plan import BindingPlan

#: Seconds. kube-scheduler's for attempts: fifteen doublings from a millisecond.
ATTEMPT_BUCKETS: Final = tuple(0.001 * 2**step for step in range(15))
#: kube-scheduler's for how often a pod was tried until it had its node.
TRIES_BUCKETS: Final = (1, 2, 4, 8, 16)

#: kube-scheduler's for how many pods had to go: seven doublings.
VICTIM_BUCKETS: Final = tuple(2**step for step in range(7))

#: kube-scheduler's names of the places a pod waits in. Pods in flight or being bound wait in none.
QUEUES: Final = {
    State.ACTIVE: "active",
    State.BACKOFF: "backoff",
    State.PARKED: "unschedulable",
    State.GATED: "gated",
}


class Result(enum.Enum):
    """How an attempt ended, as kube-scheduler calls it."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


class Stage(enum.Enum):
    """Where the handling of a pod raised what it should not."""

    DECISION = "decision"
    BINDING = "binding"
    PREEMPTION = "preemption"
    UNBINDING = "unbinding"


class SchedulerMetrics:
    """The counts of one scheduler, which serves the pods of these scheduler names."""

    def __init__(self, registry: CollectorRegistry, names: Iterable[str]) -> None:
        attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, "
            "while 'error' means an internal scheduler problem.",
            ["result", "profile"],
            registry=registry,
        )
        durations = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ["result", "profile"],
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        ends = [(name, result) for name in names for result in Result]
        self._attempts = {(name, result): attempts.labels(result.value, name) for name, result in ends}
        self._durations = {(name, result): durations.labels(result.value, name) for name, result in ends}
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        self._tries = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=TRIES_BUCKETS,
            registry=registry,
        )
        bindings = Counter(
            "mooring_scheduler_volume_bindings_total",
            "Number of claims of scheduled pods that were given an existing volume (static) or had one made "
            "(provisioned).",
            ["kind"],
            registry=registry,
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
            registry=registry,
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=VICTIM_BUCKETS,
            registry=registry,
        )
        self._unbound = Counter(
            "mooring_scheduler_claims_unbound_total",
            "Number of bound claims, used by no pod, that were given up because they kept a pod from every node.",
            registry=registry,
        )
        self._rejections = Counter(
            "mooring_scheduler_kubelet_rejections_total",
            "Number of pods that their node turned down after this scheduler had given it to them, by the kubelet's "
            "reason.",
            ["reason"],
            registry=registry,
        )
        self._internal_errors = Counter(
            "mooring_scheduler_internal_errors_total",
            "Number of times that the handling of a pod failed with a bug, after which the pod was set aside.",
            ["stage"],
            registry=registry,
        )
        for stage in Stage:
            self._internal_errors.labels(stage.value)
        self._static, self._provisioned = bindings.labels("static"), bindings.labels("provisioned")
        self._registry = registry

    def decided(self, seconds: float) -> None:
        """One run of the cycle took so long."""
        self._algorithm.observe(seconds)

    def ended(self, name: str, result: Result, seconds: float) -> None:
        """An attempt for a pod of that scheduler name came to its end."""
        self._attempts[name, result].inc()
        self._durations[name, result].observe(seconds)

    def preemption_tried(self) -> None:
        """It was looked whether others could make way for a pod."""
        self._preemptions.inc()

    def preempted(self, victims: int) -> None:
        """So many pods have to go for one."""
        self._victims.observe(victims)

    def unbound(self, claims: int) -> None:
        """So many claims were marked to be unbound."""
        self._unbound.inc(claims)

    def internal_error(self, stage: Stage) -> None:
        """The handling of a pod raised what it should not."""
        self._internal_errors.labels(stage.value).inc()

    def rejected(self, reason: str) -> None:
        """A node would not have a pod that it was given."""
        self._rejections.labels(reason).inc()

    def placed(self, plan: BindingPlan, tries: int) -> None:
        """A pod has its node and its volumes."""
        self._tries.observe(tries)
        self._static.inc(len(plan.static))
        self._provisioned.inc(len(plan.provision))

    def watch_queue(self, counts: Callable[[], Mapping[State, int]]) -> None:
        """Show how many pods wait where, counted anew whenever somebody looks."""
        self._registry.register(_PendingPods(counts))


class _PendingPods(Collector):
    def __init__(self, counts: Callable[[], Mapping[State, int]]) -> None:
        self._counts = counts

    def describe(self) -> Iterator[Metric]:
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        family = self._family()
        counts = self._counts()
        for state, queue in QUEUES.items():
            family.add_metric([queue], counts.get(state, 0))
        yield family

    @staticmethod
    def _family() -> GaugeMetricFamily:
        text = "Number of pending pods, by the queue type."
        return GaugeMetricFamily("scheduler_pending_pods", text, labels=["queue"])
