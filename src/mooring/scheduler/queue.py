"""The scheduling queue: which pod or group is scheduled next, and when an unschedulable one is retried. Pure.

    add_or_update ──► ACTIVE ──pop──► IN_FLIGHT ──binding──► BINDING ──remove──► (scheduled)
                       ▲  ▲               │ add_unschedulable   │ requeue_with_backoff
             backoff   │  │ event         ▼                     │
             ends  BACKOFF ◄──event── UNSCHEDULABLE             │        GATED ──gates removed──► ACTIVE
                       ▲   (backing off still)                  │
                       └────────────────────────────────────────┘

An unschedulable pod waits for a cluster event that a plugin which rejected it registered for. Events that arrive while
the pod is in flight are kept and evaluated when it is added back, so that none is lost. After five minutes without such
an event the pod is retried anyway. Time is an argument; nothing here waits.

A group of pods (PodGroup) is one entity and passes the same states; GATED means that its PodGroup or members are
missing. Which pods are its members is `groups.members`'. Pods and groups are ordered together; `pop_pod` leaves out
groups, so that pods are scheduled while the decision for a group is under way.
"""

import enum
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from mooring.api.views.pods import Pod
from mooring.backoff import exponential_backoff
from mooring.multimap import Multimap
from mooring.scheduler.cluster_events import ADD, ClusterEvent, InterestKey, PodInterests, QueueingHint
from mooring.scheduler.framework.interface import Plugin

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
INITIAL_BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 10.0
#: kube-scheduler's podMaxInUnschedulablePodsDuration.
MAX_UNSCHEDULABLE_SECONDS: Final = 300.0

#: Stands for the plugins when there was no node to run them on: the first node requeues the pod.
_NO_PLUGIN: Final = ""

#: Requeue reasons other than a cluster event.
EDITED: Final = "pod updated"
UNGATED: Final = "scheduling gates removed"
AFTER_ERROR: Final = "retry after a failed attempt"
AFTER_SUCCESS: Final = "members left after the group was scheduled"
AFTER_GROUP: Final = "a group released what it had reserved"
AFTER_MAX_UNSCHEDULABLE: Final = "retry after 5 minutes in the unschedulable pool"


class PodBackoff(NamedTuple):
    """Seconds before a failed pod is retried: doubling from `initial` up to `maximum`."""

    initial: float = INITIAL_BACKOFF_SECONDS
    maximum: float = MAX_BACKOFF_SECONDS

    def after(self, attempts: int) -> float:
        return exponential_backoff(self.initial, self.maximum, attempts)


class PodState(enum.Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    #: The value is part of the recorded surface (tests/repository/golden_surface.json).
    UNSCHEDULABLE = "parked"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    BINDING = "binding"


class RejectedPod(NamedTuple):
    """A pod, the plugins that rejected it, and what it waits for."""

    pod: Pod
    plugins: frozenset[str]
    interests: PodInterests


@dataclass(eq=False, slots=True, kw_only=True)
class QueuedEntity:
    """What is scheduled as one. Changed by the queue only."""

    state: PodState = PodState.ACTIVE
    attempts: int = 0
    #: When it was queued or last failed: orders entities of equal priority.
    since: float = 0.0
    #: The version of its current heap item; older items are stale.
    heap_version: int = 0
    #: Why it is unschedulable: one pod, or those of a group whose rejections differ.
    rejected: tuple[RejectedPod, ...] = ()
    #: Events since it was popped.
    in_flight_events: list[ClusterEvent] = field(default_factory=list)
    edited: bool = False
    #: Why it is scheduled again, "" for the first attempt. Only reported.
    requeue_reason: ClusterEvent | str = ""


@dataclass(eq=False, slots=True)
class QueuedPod(QueuedEntity):
    """A pod in the queue."""

    pod: Pod
    #: By node, how often provisioning failed there.
    provisioning_failures: Counter[str] = field(default_factory=Counter)
    #: Whether a node lacked storage capacity for it in the last attempt. Only reported.
    lacks_capacity: bool = False

    @property
    def priority(self) -> int:
        return self.pod.spec.priority


@dataclass(eq=False, slots=True)
class QueuedGroup(QueuedEntity):
    """A group in the queue: a PodGroup and its pending members, which are popped together."""

    #: `namespace/name` of the PodGroup.
    key: str
    priority: int = 0
    #: It is not retried before this time.
    not_before: float = 0.0


E = TypeVar("E", bound=QueuedEntity)

#: Two numbers to order by, the heap version, and the entity.
_HeapItem = tuple[float, float, int, E]


class SchedulingQueue:
    """Every entity that is added and not removed is in exactly one state, and is popped again unless it is gated."""

    def __init__(self, plugins: Iterable[Plugin], *, backoff: PodBackoff | None = None) -> None:
        self._backoff = backoff or PodBackoff()
        self._hints: defaultdict[tuple[str, str], list[tuple[str, QueueingHint]]] = defaultdict(list)
        self._hints["Node", ADD].append((_NO_PLUGIN, QueueingHint("Node", (ADD,))))
        for plugin in plugins:
            for hint in plugin.events_to_register:
                for action in hint.actions:
                    self._hints[hint.kind, action].append((plugin.name, hint))
        self._pods: dict[str, QueuedPod] = {}
        self._groups: dict[str, QueuedGroup] = {}
        #: Unschedulable entities by rejecting plugin, and by plugin and interest.
        self._by_plugin: Multimap[str, QueuedEntity] = Multimap()
        self._by_interest: Multimap[tuple[str, InterestKey], QueuedEntity] = Multimap()
        self._in_flight: dict[QueuedEntity, None] = {}
        self._active_pods: list[_HeapItem[QueuedPod]] = []
        self._active_groups: list[_HeapItem[QueuedGroup]] = []
        self._backoff_heap: list[_HeapItem[QueuedEntity]] = []
        self._unschedulable_heap: list[_HeapItem[QueuedEntity]] = []
        self._last_version = 0

    def __len__(self) -> int:
        return len(self._pods) + len(self._groups)

    def counts(self) -> Counter[PodState]:
        """The number of single pods by state. Linear in the number of pods."""
        return Counter(queued.state for queued in self._pods.values())

    def group_counts(self) -> Counter[PodState]:
        """The number of groups by state."""
        return Counter(queued.state for queued in self._groups.values())

    def group_states(self) -> dict[str, PodState]:
        """The states of groups by key."""
        return {key: queued.state for key, queued in self._groups.items()}

    def blocked_by_capacity(self) -> int:
        """The number of pods that were unschedulable in their last attempt, and for which a node lacked storage
        capacity. Linear in the number of pods."""
        return sum(queued.lacks_capacity for queued in self._pods.values())

    def add_or_update(self, pod: Pod, now: float) -> None:
        """A pod without a node was added or updated."""
        queued = self._pods.get(pod.key)
        if queued is not None and queued.pod.uid != pod.uid:
            self.remove(pod.key)
            queued = None
        if queued is None:
            queued = self._pods[pod.key] = QueuedPod(pod, since=now)
            if pod.spec.scheduling_gates:
                queued.state = PodState.GATED
            else:
                self._activate(queued)
            return
        # The scheduler's own writes to the status do not change a decision.
        edited = queued.pod.spec != pod.spec or queued.pod.metadata.labels != pod.metadata.labels
        queued.pod = pod
        if queued.state is PodState.GATED:
            if not pod.spec.scheduling_gates:
                self._ungate(queued, now)
        elif edited:
            self._edit(queued, now)

    def put_group(self, key: str, priority: int, now: float, *, edited: bool = False) -> None:
        """The group has its members and may be scheduled. `edited`: a member or the PodGroup changed, so that a
        rejection may no longer hold."""
        queued = self._groups.get(key)
        if queued is None:
            queued = self._groups[key] = QueuedGroup(key, priority, since=now)
            self._activate(queued)
            return
        edited |= queued.priority != priority
        queued.priority = priority
        if queued.state is PodState.GATED:
            self._ungate(queued, now)
        elif edited:
            self._edit(queued, now)

    def put_group_with_backoff(self, key: str, priority: int, attempts: int, now: float) -> None:
        """A member was to be bound and failed: the group is scheduled again after a backoff."""
        queued = self._groups.get(key)
        if queued is None:
            queued = self._groups[key] = QueuedGroup(key, priority, since=now, attempts=attempts)
        if queued.state in (PodState.IN_FLIGHT, PodState.BINDING):
            queued.edited = True
            return
        queued.since = now
        queued.attempts = max(queued.attempts, attempts)
        queued.requeue_reason = AFTER_ERROR
        self._back_off(queued)

    def gate_group(self, key: str, now: float) -> None:
        """The group lacks its PodGroup or members. An attempt under way ends by itself."""
        queued = self._groups.get(key)
        if queued is None:
            queued = self._groups[key] = QueuedGroup(key, since=now)
            self._enter(queued, PodState.GATED)
        elif queued.state not in (PodState.IN_FLIGHT, PodState.BINDING):
            self._enter(queued, PodState.GATED)

    def remove_idle_group(self, key: str) -> None:
        """No member is to be scheduled, unless an attempt under way fails."""
        queued = self._groups.get(key)
        if queued is not None and queued.state not in (PodState.IN_FLIGHT, PodState.BINDING):
            self.remove_group(key)

    def remove_group(self, key: str) -> None:
        """No member is pending. Later calls with its QueuedGroup are ignored."""
        queued = self._groups.pop(key, None)
        if queued is not None:
            self._leave(queued)

    def remove(self, key: str) -> None:
        """The pod was bound, deleted or assigned to another scheduler. Later calls with its QueuedPod are ignored."""
        queued = self._pods.pop(key, None)
        if queued is not None:
            self._leave(queued)

    def pop(self, now: float) -> QueuedPod | QueuedGroup | None:
        """The next entity: highest priority, then longest waiting. None if all have to wait."""
        self._release_due(now)
        pod, group = self._peek(self._active_pods), self._peek(self._active_groups)
        if group is not None and (pod is None or self._active_groups[0][:3] < self._active_pods[0][:3]):
            return self._take(self._active_groups, group)
        return None if pod is None else self._take(self._active_pods, pod)

    def pop_pod(self, now: float) -> QueuedPod | None:
        """The next single pod, whatever groups wait."""
        self._release_due(now)
        pod = self._peek(self._active_pods)
        return None if pod is None else self._take(self._active_pods, pod)

    def next_due(self, now: float) -> float | None:
        """When `pop` next returns an entity if no event arrives; None for never."""
        if self._peek(self._active_pods) is not None or self._peek(self._active_groups) is not None:
            return now
        waiting = (self._peek(self._backoff_heap), self._peek(self._unschedulable_heap))
        return min((self._due(queued) for queued in waiting if queued is not None), default=None)

    def add_unschedulable(
        self,
        queued: QueuedPod,
        plugins: frozenset[str],
        interests: PodInterests,
        now: float,
        *,
        lacks_capacity: bool = False,
    ) -> None:
        """No node fits: wait for an event that one of the rejecting plugins registered for."""
        if self._is_current(queued):
            queued.lacks_capacity = lacks_capacity
            self._park(queued, (RejectedPod(queued.pod, plugins or frozenset({_NO_PLUGIN}), interests),), now)

    def add_unschedulable_group(self, queued: QueuedGroup, rejected: Iterable[RejectedPod], now: float) -> None:
        """The group does not fit: wait for an event that may help one of these members."""
        if self._is_current(queued):
            named = (each if each.plugins else each._replace(plugins=frozenset({_NO_PLUGIN})) for each in rejected)
            self._park(queued, tuple(named), now)

    def binding(self, queued: QueuedPod | QueuedGroup) -> None:
        """It is being bound. Events no longer matter: a failed binding is retried in any case."""
        if isinstance(queued, QueuedPod):
            queued.lacks_capacity = False
        if self._is_current(queued):
            self._enter(queued, PodState.BINDING)

    def requeue_with_backoff(self, queued: QueuedPod, now: float, *, provisioning_failed_on: str = "") -> None:
        """The attempt failed although a node fit."""
        queued.lacks_capacity = False
        if provisioning_failed_on:
            queued.provisioning_failures[provisioning_failed_on] += 1
        if self._is_current(queued):
            queued.since = now
            queued.requeue_reason = AFTER_ERROR
            self._back_off(queued)

    def requeue_group_with_backoff(self, queued: QueuedGroup, now: float, *, pause: float = 0.0) -> None:
        """The attempt failed although the group fit; it is retried after its backoff, and `pause` seconds at least."""
        if self._is_current(queued):
            queued.since = now
            queued.not_before = now + pause
            queued.requeue_reason = AFTER_ERROR
            self._back_off(queued)

    def reactivate_group(self, queued: QueuedGroup, now: float) -> None:
        """The attempt succeeded, and members are left."""
        if self._is_current(queued):
            queued.since = now
            queued.attempts = 0
            queued.requeue_reason = AFTER_SUCCESS
            self._activate(queued)

    def retry(self, pods: Iterable[QueuedPod], reason: str, now: float) -> None:
        """Requeue those of the pods that are unschedulable."""
        for queued in pods:
            if self._is_current(queued) and queued.state is PodState.UNSCHEDULABLE:
                self._requeue(queued, reason, now)

    def requeue_for_event(self, event: ClusterEvent, now: float) -> None:
        """Requeue the unschedulable entities that the event may help."""
        for queued in self._in_flight:
            queued.in_flight_events.append(event)
        for plugin, hint in self._hints.get((event.kind, event.action), ()):
            for queued in self._candidates_for(plugin, hint, event):
                if self._helps(plugin, hint, event, queued):
                    self._requeue(queued, event, now)

    def _candidates_for(self, plugin: str, hint: QueueingHint, event: ClusterEvent) -> tuple[QueuedEntity, ...]:
        """The entities to evaluate the hint for, by index: thousands may wait for other objects."""
        if plugin not in self._by_plugin or not hint.interest_kind:
            return tuple(self._by_plugin.get(plugin, ()))
        waiting = (self._by_interest.get((plugin, key), ()) for key in hint.keys_of(event))
        return tuple(dict.fromkeys(queued for entities in waiting for queued in entities))

    @staticmethod
    def _helps(plugin: str, hint: QueueingHint, event: ClusterEvent, queued: QueuedEntity) -> bool:
        return any(
            plugin in plugins and hint.requeues(pod, interests, event) for pod, plugins, interests in queued.rejected
        )

    def _may_help(self, event: ClusterEvent, queued: QueuedEntity) -> bool:
        hints = self._hints.get((event.kind, event.action), ())
        return any(self._helps(plugin, hint, event, queued) for plugin, hint in hints)

    def _is_current(self, queued: QueuedEntity) -> bool:
        match queued:
            case QueuedPod():
                return self._pods.get(queued.pod.key) is queued
            case QueuedGroup():
                return self._groups.get(queued.key) is queued
        return False

    def _take(self, heap: list[_HeapItem[E]], queued: E) -> E:
        heapq.heappop(heap)
        self._enter(queued, PodState.IN_FLIGHT)
        queued.attempts += 1
        queued.in_flight_events.clear()
        queued.edited = False
        self._in_flight[queued] = None
        return queued

    def _park(self, queued: QueuedEntity, rejected: tuple[RejectedPod, ...], now: float) -> None:
        queued.since = now
        queued.rejected = rejected
        events = queued.in_flight_events
        reason = EDITED if queued.edited else next((each for each in events if self._may_help(each, queued)), None)
        if reason is not None:
            queued.requeue_reason = reason
            self._back_off(queued)
            return
        self._enter(queued, PodState.UNSCHEDULABLE)
        for _, plugins, interests in rejected:
            for plugin in plugins:
                self._by_plugin.add(plugin, queued)
                for key in interests.keys:
                    self._by_interest.add((plugin, key), queued)
        self._push(self._unschedulable_heap, queued, self._due(queued))

    def _ungate(self, queued: QueuedEntity, now: float) -> None:
        queued.since = now
        queued.requeue_reason = UNGATED
        self._activate(queued)

    def _edit(self, queued: QueuedEntity, now: float) -> None:
        match queued.state:
            case PodState.ACTIVE:
                self._activate(queued)
            case PodState.UNSCHEDULABLE:
                self._requeue(queued, EDITED, now)
            case PodState.IN_FLIGHT:
                queued.edited = True
            case PodState.BACKOFF | PodState.BINDING | PodState.GATED:
                pass

    def _enter(self, queued: QueuedEntity, state: PodState) -> None:
        self._leave(queued)
        self._last_version += 1
        queued.heap_version = self._last_version
        queued.state = state

    def _leave(self, queued: QueuedEntity) -> None:
        """Remove the entity from the indexes of its state; its heap item becomes stale."""
        queued.heap_version = 0
        if queued.state is PodState.UNSCHEDULABLE:
            for _, plugins, interests in queued.rejected:
                for plugin in plugins:
                    self._by_plugin.discard(plugin, queued)
                    for key in interests.keys:
                        self._by_interest.discard((plugin, key), queued)
        elif queued.state is PodState.IN_FLIGHT:
            self._in_flight.pop(queued, None)

    def _activate(self, queued: QueuedEntity) -> None:
        self._enter(queued, PodState.ACTIVE)
        match queued:
            case QueuedPod():
                self._push(self._active_pods, queued, -queued.priority, queued.since)
            case QueuedGroup():
                self._push(self._active_groups, queued, -queued.priority, queued.since)

    def _back_off(self, queued: QueuedEntity) -> None:
        self._enter(queued, PodState.BACKOFF)
        self._push(self._backoff_heap, queued, self._due(queued))

    def _requeue(self, queued: QueuedEntity, reason: ClusterEvent | str, now: float) -> None:
        queued.requeue_reason = reason
        if self._backoff_end(queued) > now:
            self._back_off(queued)
        else:
            self._activate(queued)

    def _release_due(self, now: float) -> None:
        for heap in (self._backoff_heap, self._unschedulable_heap):
            while (queued := self._peek(heap)) is not None and self._due(queued) <= now:
                heapq.heappop(heap)
                if queued.state is PodState.UNSCHEDULABLE:
                    queued.requeue_reason = AFTER_MAX_UNSCHEDULABLE
                self._activate(queued)

    def _due(self, queued: QueuedEntity) -> float:
        if queued.state is PodState.UNSCHEDULABLE:
            return queued.since + MAX_UNSCHEDULABLE_SECONDS
        return self._backoff_end(queued)

    def _backoff_end(self, queued: QueuedEntity) -> float:
        end = queued.since + self._backoff.after(queued.attempts)
        return max(end, queued.not_before) if isinstance(queued, QueuedGroup) else end

    @staticmethod
    def _push(heap: list[_HeapItem[E]], queued: E, first: float, second: float = 0.0) -> None:
        heapq.heappush(heap, (first, second, queued.heap_version, queued))

    @staticmethod
    def _peek(heap: list[_HeapItem[E]]) -> E | None:
        """The first entity, after dropping stale items."""
        while heap:
            _, _, version, queued = heap[0]
            if queued.heap_version == version:
                return queued
            heapq.heappop(heap)
        return None
