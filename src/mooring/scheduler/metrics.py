"""Metrics of the scheduler, under kube-scheduler's names where it has them.

Labels are bound at start and the queue is counted at each scrape, so that a decision costs a few additions. Without a
registry the metrics are not exported.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.scheduler.queue import PodState
from mooring.volumes.binding import BindingPlan

#: Seconds. kube-scheduler's for attempts: fifteen doublings from a millisecond.
ATTEMPT_BUCKETS: Final = tuple(0.001 * 2**step for step in range(15))
#: kube-scheduler's for the attempts until a pod is scheduled.
ATTEMPT_COUNT_BUCKETS: Final = (1, 2, 4, 8, 16)

#: kube-scheduler's for preemption victims: seven doublings.
VICTIM_BUCKETS: Final = tuple(2**step for step in range(7))

#: Up to the limit of a group's decision.
LOOK_BUCKETS: Final = (10, 100, 1_000, 10_000, 50_000, 100_000, 200_000)

#: kube-scheduler's queue names. Pods in flight or being bound are in no queue.
QUEUES: Final = {
    PodState.ACTIVE: "active",
    PodState.BACKOFF: "backoff",
    PodState.UNSCHEDULABLE: "unschedulable",
    PodState.GATED: "gated",
}


class Result(enum.Enum):
    """The result of a scheduling attempt, as kube-scheduler names it."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


class FailureStage(enum.Enum):
    """Where an internal error occurred."""

    DECISION = "decision"
    BINDING = "binding"
    PREEMPTION = "preemption"
    UNBINDING = "unbinding"


class PodCounts(Protocol):
    """What a scrape reads of the queue."""

    def counts(self) -> Mapping[PodState, int]: ...

    def blocked_by_capacity(self) -> int: ...


class SchedulerMetrics:
    def __init__(
        self,
        registry: CollectorRegistry,
        names: Iterable[str],
        queue: PodCounts,
        *,
        groups: Callable[[], Mapping[PodState, int]] = dict,
        members: Callable[[], Mapping[PodState, int]] = dict,
        uncoordinated: Callable[[], int] = int,
    ) -> None:
        """`names` are the schedulerNames of the profiles; at each scrape `queue` counts its single pods, `groups` the
        groups, `members` their pending pods, and `uncoordinated` the groups that wait for a coordinator."""
        registry.register(_PendingPods(queue, groups, members, uncoordinated))
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
        self.algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        self._pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=ATTEMPT_COUNT_BUCKETS,
            registry=registry,
        )
        bindings = Counter(
            "mooring_scheduler_volume_bindings_total",
            "Claims of scheduled pods that were bound to an existing volume (static) or to a provisioned one.",
            ["kind"],
            registry=registry,
        )
        self.preemptions = Counter(
            "scheduler_preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
            registry=registry,
        )
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=VICTIM_BUCKETS,
            registry=registry,
        )
        self.avoided = Counter(
            "mooring_scheduler_provisioning_failures_avoided_total",
            "Scheduling attempts in which at least one node was rejected only because it lacks storage capacity. "
            "Without the check, the pod's volumes could have been requested there, in vain.",
            registry=registry,
        )
        self.unbound = Counter(
            "mooring_scheduler_claims_unbound_total",
            "Bound claims, never used by a pod, that were unbound because they kept a pod off every node.",
            registry=registry,
        )
        self.rejections = Counter(
            "mooring_scheduler_kubelet_rejections_total",
            "Pods rejected by the kubelet after this scheduler bound them, by reason.",
            ["reason"],
            registry=registry,
        )
        self.internal_errors = Counter(
            "mooring_scheduler_internal_errors_total",
            "Internal errors while handling a pod, which is then retried with backoff, by stage.",
            ["stage"],
            registry=registry,
        )
        self.group_decision = Histogram(
            "mooring_group_decision_duration_seconds",
            "Time until a group of pods is decided, single pods that are scheduled between its slices included.",
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        self.group_looks = Histogram(
            "mooring_group_looks",
            "Nodes and volumes that the decision for a group of pods looked at.",
            buckets=LOOK_BUCKETS,
            registry=registry,
        )
        for stage in FailureStage:
            self.internal_errors.labels(stage.value)
        self._static, self._provisioned = bindings.labels("static"), bindings.labels("provisioned")

    def ended(self, name: str, result: Result, seconds: float) -> None:
        """`name` is the pod's schedulerName."""
        self._attempts[name, result].inc()
        self._durations[name, result].observe(seconds)

    def scheduled(self, plan: BindingPlan, attempts: int) -> None:
        self._pod_attempts.observe(attempts)
        self._static.inc(len(plan.static))
        self._provisioned.inc(len(plan.provision))


class _PendingPods(Collector):
    def __init__(
        self,
        queue: PodCounts,
        groups: Callable[[], Mapping[PodState, int]],
        members: Callable[[], Mapping[PodState, int]],
        uncoordinated: Callable[[], int],
    ) -> None:
        self._queue = queue
        self._groups = groups
        self._members = members
        self._uncoordinated = uncoordinated

    def collect(self) -> Iterator[Metric]:
        text = "Number of pending pods, by the queue type."
        family = GaugeMetricFamily("scheduler_pending_pods", text, labels=["queue"])
        pods, groups, members = self._queue.counts(), self._groups(), self._members()
        for state, queue in QUEUES.items():
            family.add_metric([queue], pods.get(state, 0) + members.get(state, 0))
        yield family
        text = "Number of queued scheduling entities by the queue type."
        entities = GaugeMetricFamily("scheduler_queued_entities", text, labels=["queue", "type"])
        for state, queue in QUEUES.items():
            entities.add_metric([queue, "pod"], pods.get(state, 0))
            entities.add_metric([queue, "podgroup"], groups.get(state, 0))
        yield entities
        yield GaugeMetricFamily(
            "mooring_scheduler_pods_blocked_by_capacity",
            "Number of pending pods for which, in their last attempt, no node fit and at least one lacked only storage "
            "capacity.",
            value=self._queue.blocked_by_capacity(),
        )
        yield GaugeMetricFamily(
            "mooring_scheduler_groups_waiting_for_coordinator",
            "Number of groups of pods that hold volumes and have had no active coordinator for 30 seconds.",
            value=self._uncoordinated(),
        )
