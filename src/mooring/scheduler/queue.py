"""The scheduling queue: which pod is scheduled next, and when an unschedulable pod is retried. Pure.

    add_or_update ──► ACTIVE ──pop──► IN_FLIGHT ──binding──► BINDING ──remove──► (scheduled)
                       ▲  ▲               │ add_unschedulable   │ requeue_with_backoff
             backoff   │  │ event         ▼                     │
             ends  BACKOFF ◄──event── UNSCHEDULABLE             │        GATED ──gates removed──► ACTIVE
                       ▲   (backing off still)                  │
                       └────────────────────────────────────────┘

An unschedulable pod waits for a cluster event that a plugin which rejected it registered for. Events that arrive while
the pod is in flight are kept and evaluated when it is added back, so that none is lost. After five minutes without such
an event the pod is retried anyway. Time is an argument; nothing here waits.
"""

import enum
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mooring.api.views.pods import Pod
from mooring.backoff import exponential_backoff
from mooring.multimap import Multimap
from mooring.scheduler.cluster_events import ADD, NO_INTERESTS, ClusterEvent, InterestKey, PodInterests, QueueingHint
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


@dataclass(eq=False, slots=True)
class QueuedPod:
    """A pod in the queue. Changed by the queue only."""

    pod: Pod
    state: PodState = PodState.ACTIVE
    attempts: int = 0
    #: When it was queued or last failed: orders pods of equal priority.
    since: float = 0.0
    #: The version of its current heap item; older items of the pod are stale.
    heap_version: int = 0
    #: While unschedulable: the plugins that rejected it, and what it waits for.
    unschedulable_plugins: frozenset[str] = frozenset()
    interests: PodInterests = NO_INTERESTS
    #: Events since it was popped.
    in_flight_events: list[ClusterEvent] = field(default_factory=list)
    edited: bool = False
    #: Why it is scheduled again, "" for the first attempt. Only reported.
    requeue_reason: ClusterEvent | str = ""
    #: By node, how often provisioning failed there.
    provisioning_failures: Counter[str] = field(default_factory=Counter)


#: Two numbers to order by, the heap version, and the pod.
_HeapItem = tuple[float, float, int, QueuedPod]


class SchedulingQueue:
    """Every pod that is added and not removed is in exactly one state, and is popped again unless it is gated."""

    def __init__(self, plugins: Iterable[Plugin], *, backoff: PodBackoff | None = None) -> None:
        self._backoff = backoff or PodBackoff()
        self._hints: defaultdict[tuple[str, str], list[tuple[str, QueueingHint]]] = defaultdict(list)
        self._hints["Node", ADD].append((_NO_PLUGIN, QueueingHint("Node", (ADD,))))
        for plugin in plugins:
            for hint in plugin.events_to_register:
                for action in hint.actions:
                    self._hints[hint.kind, action].append((plugin.name, hint))
        self._pods: dict[str, QueuedPod] = {}
        #: Unschedulable pods by rejecting plugin, and by plugin and interest.
        self._by_plugin: Multimap[str, QueuedPod] = Multimap()
        self._by_interest: Multimap[tuple[str, InterestKey], QueuedPod] = Multimap()
        self._in_flight: dict[str, QueuedPod] = {}
        self._active_heap: list[_HeapItem] = []
        self._backoff_heap: list[_HeapItem] = []
        self._unschedulable_heap: list[_HeapItem] = []
        self._last_version = 0

    def __len__(self) -> int:
        return len(self._pods)

    def counts(self) -> Counter[PodState]:
        """The number of pods by state. Linear in the number of pods."""
        return Counter(queued.state for queued in self._pods.values())

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
        match queued.state:
            case PodState.GATED:
                if not pod.spec.scheduling_gates:
                    queued.since = now
                    queued.requeue_reason = UNGATED
                    self._activate(queued)
            case PodState.ACTIVE:
                if edited:
                    self._activate(queued)
            case PodState.UNSCHEDULABLE:
                if edited:
                    self._requeue(queued, EDITED, now)
            case PodState.IN_FLIGHT:
                queued.edited |= edited
            case PodState.BACKOFF | PodState.BINDING:
                pass

    def remove(self, key: str) -> None:
        """The pod was bound, deleted or assigned to another scheduler. Later calls with its QueuedPod are ignored."""
        queued = self._pods.pop(key, None)
        if queued is not None:
            self._leave(queued)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod: highest priority, then longest waiting. None if all pods have to wait."""
        self._release_due(now)
        queued = self._peek(self._active_heap)
        if queued is None:
            return None
        heapq.heappop(self._active_heap)
        self._enter(queued, PodState.IN_FLIGHT)
        queued.attempts += 1
        queued.in_flight_events.clear()
        queued.edited = False
        self._in_flight[queued.pod.key] = queued
        return queued

    def next_due(self, now: float) -> float | None:
        """When `pop` next returns a pod if no event arrives; None for never."""
        if self._peek(self._active_heap) is not None:
            return now
        waiting = (self._peek(self._backoff_heap), self._peek(self._unschedulable_heap))
        return min((self._due(queued) for queued in waiting if queued is not None), default=None)

    def add_unschedulable(
        self, queued: QueuedPod, plugins: frozenset[str], interests: PodInterests, now: float
    ) -> None:
        """No node fits: wait for an event that one of the rejecting plugins registered for."""
        if not self._is_current(queued):
            return
        queued.since = now
        queued.unschedulable_plugins = plugins or frozenset({_NO_PLUGIN})
        queued.interests = interests
        events = queued.in_flight_events
        reason = EDITED if queued.edited else next((each for each in events if self._may_help(each, queued)), None)
        if reason is not None:
            queued.requeue_reason = reason
            self._back_off(queued)
            return
        self._enter(queued, PodState.UNSCHEDULABLE)
        for plugin in queued.unschedulable_plugins:
            self._by_plugin.add(plugin, queued)
            for key in interests.keys:
                self._by_interest.add((plugin, key), queued)
        self._push(self._unschedulable_heap, queued, self._due(queued))

    def binding(self, queued: QueuedPod) -> None:
        """The pod is being bound. Events no longer matter: a failed binding is retried in any case."""
        if self._is_current(queued):
            self._enter(queued, PodState.BINDING)

    def requeue_with_backoff(self, queued: QueuedPod, now: float, *, provisioning_failed_on: str = "") -> None:
        """The attempt failed although a node fit."""
        if provisioning_failed_on:
            queued.provisioning_failures[provisioning_failed_on] += 1
        if self._is_current(queued):
            queued.since = now
            queued.requeue_reason = AFTER_ERROR
            self._back_off(queued)

    def requeue_for_event(self, event: ClusterEvent, now: float) -> None:
        """Requeue the unschedulable pods that the event may help."""
        for queued in self._in_flight.values():
            queued.in_flight_events.append(event)
        for plugin, hint in self._hints.get((event.kind, event.action), ()):
            for queued in self._candidates_for(plugin, hint, event):
                if hint.requeues(queued.pod, queued.interests, event):
                    self._requeue(queued, event, now)

    def _candidates_for(self, plugin: str, hint: QueueingHint, event: ClusterEvent) -> tuple[QueuedPod, ...]:
        """The pods to evaluate the hint for, by index: thousands may wait for other objects."""
        if plugin not in self._by_plugin or not hint.interest_kind:
            return tuple(self._by_plugin.get(plugin, ()))
        waiting = (self._by_interest.get((plugin, key), ()) for key in hint.keys_of(event))
        return tuple(dict.fromkeys(queued for pods in waiting for queued in pods))

    def _may_help(self, event: ClusterEvent, queued: QueuedPod) -> bool:
        return any(
            plugin in queued.unschedulable_plugins and hint.requeues(queued.pod, queued.interests, event)
            for plugin, hint in self._hints.get((event.kind, event.action), ())
        )

    def _is_current(self, queued: QueuedPod) -> bool:
        return self._pods.get(queued.pod.key) is queued

    def _enter(self, queued: QueuedPod, state: PodState) -> None:
        self._leave(queued)
        self._last_version += 1
        queued.heap_version = self._last_version
        queued.state = state

    def _leave(self, queued: QueuedPod) -> None:
        """Remove the pod from the indexes of its state; its heap item becomes stale."""
        queued.heap_version = 0
        if queued.state is PodState.UNSCHEDULABLE:
            for plugin in queued.unschedulable_plugins:
                self._by_plugin.discard(plugin, queued)
                for key in queued.interests.keys:
                    self._by_interest.discard((plugin, key), queued)
        elif queued.state is PodState.IN_FLIGHT:
            self._in_flight.pop(queued.pod.key, None)

    def _activate(self, queued: QueuedPod) -> None:
        self._enter(queued, PodState.ACTIVE)
        self._push(self._active_heap, queued, -queued.pod.spec.priority, queued.since)

    def _back_off(self, queued: QueuedPod) -> None:
        self._enter(queued, PodState.BACKOFF)
        self._push(self._backoff_heap, queued, self._due(queued))

    def _requeue(self, queued: QueuedPod, reason: ClusterEvent | str, now: float) -> None:
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

    def _due(self, queued: QueuedPod) -> float:
        if queued.state is PodState.UNSCHEDULABLE:
            return queued.since + MAX_UNSCHEDULABLE_SECONDS
        return self._backoff_end(queued)

    def _backoff_end(self, queued: QueuedPod) -> float:
        return queued.since + self._backoff.after(queued.attempts)

    @staticmethod
    def _push(heap: list[_HeapItem], queued: QueuedPod, first: float, second: float = 0.0) -> None:
        heapq.heappush(heap, (first, second, queued.heap_version, queued))

    @staticmethod
    def _peek(heap: list[_HeapItem]) -> QueuedPod | None:
        """The first pod, after dropping stale items."""
        while heap:
            _, _, version, queued = heap[0]
            if queued.heap_version == version:
                return queued
            heapq.heappop(heap)
        return None
