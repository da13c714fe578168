from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import NO_INTERESTS, ClusterEvent, InterestKey, PodInterests, QueueingHint
from mooring.scheduler.queue import (
    AFTER_ERROR,
    AFTER_MAX_UNSCHEDULABLE,
    EDITED,
    INITIAL_BACKOFF_SECONDS,
    MAX_BACKOFF_SECONDS,
    MAX_UNSCHEDULABLE_SECONDS,
    UNGATED,
    PodBackoff,
    PodState,
    QueuedPod,
    SchedulingQueue,
)
from support.builders import a_node, a_pod
from support.scheduler.queue_cluster import state_of


class WakesOn:
    """A plugin that minds one kind, perhaps for one pod only."""

    def __init__(self, name: str, kind: str, *, only: str = "") -> None:
        self.name = name
        helps = (lambda pod, change: pod.name == only) if only else None
        self.events_to_register = (QueueingHint(kind, ("add",), helps),)


class Labels:
    name: ClassVar[str] = "Labels"
    events_to_register: ClassVar[tuple[QueueingHint, ...]] = (
        QueueingHint("Node", ("update",), updated_fields=("labels",)),
    )


class Claims:
    name: ClassVar[str] = "Claims"
    events_to_register: ClassVar[tuple[QueueingHint, ...]] = (
        QueueingHint("PersistentVolumeClaim", ("add",), interest_kind=cluster_events.CLAIM),
    )


VOLUMES, SHY = "Volumes", "Shy"
PLUGINS = (WakesOn(VOLUMES, "PersistentVolume"), WakesOn(SHY, "StorageClass", only="a"), Labels(), Claims())
VOLUME = ClusterEvent("PersistentVolume", "add")
CLASS = ClusterEvent("StorageClass", "add")
OF_A = InterestKey(cluster_events.CLAIM, "default/of-a")
CLAIM = ClusterEvent("PersistentVolumeClaim", "add", "default", "of-a", interest_keys=(OF_A,))


def a_queue(*pods: Pod) -> SchedulingQueue:
    queue = SchedulingQueue(PLUGINS)
    for at, pod in enumerate(pods):
        queue.add_or_update(pod, float(at))
    return queue


def its_claims(entry: QueuedPod) -> PodInterests:
    return PodInterests(frozenset(InterestKey(cluster_events.CLAIM, key) for key in entry.pod.claim_keys))


def popped(queue: SchedulingQueue, now: float) -> QueuedPod:
    entry = queue.pop(now)
    assert isinstance(entry, QueuedPod)
    return entry


def drained(queue: SchedulingQueue, now: float) -> list[str]:
    names = []
    while (entry := queue.pop(now)) is not None:
        names.append(entry.pod.name if isinstance(entry, QueuedPod) else entry.key)
    return names


def test_priority_first_then_age() -> None:
    queue = a_queue(a_pod(name="old"), a_pod(name="high", priority=10), a_pod(name="young"))

    assert drained(queue, 9) == ["high", "old", "young"]


def test_an_empty_queue_has_nothing_and_is_never_due() -> None:
    assert a_queue().pop(0) is None
    assert a_queue().next_due(0) is None


def test_failures_back_off_doubling_up_to_the_longest() -> None:
    queue = a_queue(a_pod())
    now, waits = 0.0, []
    for _ in range(6):
        queue.requeue_with_backoff(popped(queue, now), now)
        due = queue.next_due(now)
        assert due is not None
        waits.append(due - now)
        assert queue.pop(due - 0.001) is None
        now = due

    assert waits == [INITIAL_BACKOFF_SECONDS, 2, 4, 8, MAX_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS]


def test_how_long_failures_back_off_can_be_set() -> None:
    queue = SchedulingQueue((), backoff=PodBackoff(initial=3.0, maximum=5.0))
    queue.add_or_update(a_pod(), 0.0)
    queue.requeue_with_backoff(popped(queue, 0.0), 0.0)
    assert queue.next_due(0.0) == 3.0
    queue.requeue_with_backoff(popped(queue, 3.0), 3.0)
    assert queue.next_due(3.0) == 8.0


@pytest.mark.req("T26.exactly")
@pytest.mark.parametrize(
    ("name", "rejectors", "change", "requeues"),
    [
        pytest.param("a", {VOLUMES}, VOLUME, True, id="what its rejector minds"),
        pytest.param("a", {VOLUMES}, CLASS, False, id="what another plugin minds"),
        pytest.param(
            "a", {VOLUMES}, ClusterEvent("PersistentVolume", "delete"), False, id="another thing that happened"
        ),
        pytest.param("a", {SHY, VOLUMES}, CLASS, True, id="one of two rejectors"),
        pytest.param("a", {SHY}, CLASS, True, id="a hint that means this pod"),
        pytest.param("b", {SHY}, CLASS, False, id="a hint that means another pod"),
        pytest.param(
            "a",
            {"Labels"},
            ClusterEvent("Node", "update", updated_fields=frozenset({"labels"})),
            True,
            id="the part it minds",
        ),
        pytest.param(
            "a",
            {"Labels"},
            ClusterEvent("Node", "update", updated_fields=frozenset({"taints"})),
            False,
            id="another part",
        ),
        pytest.param("a", {"Claims"}, CLAIM, True, id="the claim it mounts"),
        pytest.param("b", {"Claims"}, CLAIM, False, id="a claim that another mounts"),
        pytest.param("a", {"Labels"}, CLAIM, False, id="the claim it mounts, which is not what it waits for"),
        pytest.param(
            "a", set(), cluster_events.node_event(None, a_node()), True, id="there were no nodes, and one comes"
        ),
        pytest.param("a", set(), VOLUME, False, id="there were no nodes, and something else comes"),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True], ids=["while parked", "while in flight"])
def test_event_requeues_only_pods_it_may_help(
    name: str, rejectors: set[str], change: ClusterEvent, requeues: bool, in_flight: bool
) -> None:
    queue = a_queue(a_pod(name=name, claims=[f"of-{name}"]))
    entry = popped(queue, 0)
    if in_flight:
        queue.requeue_for_event(change, 0)
    queue.add_unschedulable(entry, frozenset(rejectors), its_claims(entry), 0)
    if not in_flight:
        queue.requeue_for_event(change, 0.5)

    assert state_of(queue, f"default/{name}") is (PodState.BACKOFF if requeues else PodState.UNSCHEDULABLE)
    assert (queue.pop(INITIAL_BACKOFF_SECONDS) is not None) is requeues


def test_a_claim_is_held_against_the_pods_that_mount_it_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of pods wait for claims of their own: news of one must not cost a look at all."""
    queue = a_queue(*(a_pod(name=name, claims=[f"of-{name}"]) for name in "abcd"))
    for _ in "abcd":
        entry = popped(queue, 4)
        queue.add_unschedulable(entry, frozenset({"Claims"}), its_claims(entry), 4)
    asked: list[str] = []
    requeues = QueueingHint.requeues
    monkeypatch.setattr(
        QueueingHint, "requeues", lambda hint, pod, *rest: asked.append(pod.name) or requeues(hint, pod, *rest)
    )
    queue.requeue_for_event(CLAIM, 60)
    assert (asked, drained(queue, 60)) == (["a"], ["a"])
    queue.requeue_for_event(CLAIM, 60)
    assert asked == ["a"], "no unschedulable pod has it any more"


def test_a_wake_up_after_the_backoff_is_active_at_once() -> None:
    queue = a_queue(a_pod())
    queue.add_unschedulable(popped(queue, 0), frozenset({VOLUMES}), NO_INTERESTS, 0)
    queue.requeue_for_event(VOLUME, 5)

    assert queue.next_due(5) == 5
    assert queue.pop(5) is not None


def test_what_happened_in_an_earlier_attempt_does_not_count_for_this_one() -> None:
    queue = a_queue(a_pod())
    entry = popped(queue, 0)
    queue.requeue_for_event(VOLUME, 0)
    queue.requeue_with_backoff(entry, 0)
    queue.add_unschedulable(popped(queue, 1), frozenset({VOLUMES}), NO_INTERESTS, 1)

    assert state_of(queue, "default/pod-1") is PodState.UNSCHEDULABLE


def test_a_parked_pod_is_tried_again_after_a_long_while() -> None:
    queue = a_queue(a_pod())
    queue.add_unschedulable(popped(queue, 0), frozenset({VOLUMES}), NO_INTERESTS, 0)

    assert queue.next_due(1) == MAX_UNSCHEDULABLE_SECONDS
    assert queue.pop(MAX_UNSCHEDULABLE_SECONDS - 0.001) is None
    assert queue.pop(MAX_UNSCHEDULABLE_SECONDS) is not None


def test_a_pod_knows_why_it_is_tried_again() -> None:
    queue = a_queue(a_pod())

    def tried(now: float) -> QueuedPod:
        nonlocal at
        at = now
        return popped(queue, now)

    at = 0.0
    entry = tried(0)
    assert entry.requeue_reason == ""
    queue.add_unschedulable(entry, frozenset({VOLUMES}), NO_INTERESTS, at)
    queue.requeue_for_event(VOLUME, 10)
    assert tried(10).requeue_reason is VOLUME
    queue.requeue_for_event(VOLUME, at)
    queue.requeue_for_event(CLASS, at)
    queue.add_unschedulable(entry, frozenset({SHY}), NO_INTERESTS, at)
    assert state_of(queue, "default/pod-1") is PodState.UNSCHEDULABLE, "neither helps"
    assert tried(at + MAX_UNSCHEDULABLE_SECONDS).requeue_reason == AFTER_MAX_UNSCHEDULABLE
    queue.requeue_for_event(CLASS, at)
    queue.requeue_for_event(VOLUME, at)
    queue.add_unschedulable(entry, frozenset({VOLUMES}), NO_INTERESTS, at)
    assert tried(at + MAX_BACKOFF_SECONDS).requeue_reason is VOLUME, "of what was missed, what helps"
    queue.requeue_with_backoff(entry, at)
    assert tried(at + MAX_BACKOFF_SECONDS).requeue_reason == AFTER_ERROR
    queue.add_or_update(a_pod(labels={"x": "y"}), at)
    queue.add_unschedulable(entry, frozenset({VOLUMES}), NO_INTERESTS, at)
    assert tried(at + MAX_BACKOFF_SECONDS).requeue_reason == EDITED


def test_ungated_pod_has_requeue_reason() -> None:
    queue = a_queue(a_pod(gates=["one"]))
    queue.add_or_update(a_pod(), 1)
    assert popped(queue, 1).requeue_reason == UNGATED


def test_gates_keep_a_pod_out_until_the_last_is_lifted() -> None:
    queue = a_queue(a_pod(gates=["one", "two"]))
    queue.requeue_for_event(VOLUME, 0)
    queue.add_or_update(a_pod(gates=["two"]), 1)
    assert queue.pop(1000) is None
    assert queue.next_due(1000) is None

    queue.add_or_update(a_pod(), 1001)
    assert queue.pop(1001) is not None


@pytest.mark.parametrize(
    ("changed", "retried"),
    [
        pytest.param(a_pod(conditions=[{"type": "PodScheduled", "status": "False"}]), False, id="our own note"),
        pytest.param(a_pod(annotations={"x": "y"}), False, id="an annotation"),
        pytest.param(a_pod(labels={"x": "y"}), True, id="a label"),
        pytest.param(a_pod(tolerations=[{"operator": "Exists"}]), True, id="a toleration"),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True], ids=["while parked", "while in flight"])
def test_a_pod_that_asks_for_something_else_is_tried_again(changed: Pod, retried: bool, in_flight: bool) -> None:
    queue = a_queue(a_pod())
    entry = popped(queue, 0)
    if in_flight:
        queue.add_or_update(changed, 0)
    queue.add_unschedulable(entry, frozenset({VOLUMES}), NO_INTERESTS, 0)
    if not in_flight:
        queue.add_or_update(changed, 0)

    again = queue.pop(INITIAL_BACKOFF_SECONDS)
    assert (again is not None) is retried
    if again is not None:
        assert again.pod is changed


@pytest.mark.parametrize("state", ["active", "in flight", "parked", "backoff", "binding"])
def test_a_removed_pod_does_not_come_back(state: str) -> None:
    queue = a_queue(a_pod())
    entry = popped(queue, 0) if state != "active" else None
    if entry is not None and state == "parked":
        queue.add_unschedulable(entry, frozenset({VOLUMES}), NO_INTERESTS, 0)
    elif entry is not None and state == "backoff":
        queue.requeue_with_backoff(entry, 0)
    elif entry is not None and state == "binding":
        queue.binding(entry)
    queue.remove("default/pod-1")
    if entry is not None:
        queue.add_unschedulable(entry, frozenset({VOLUMES}), NO_INTERESTS, 1)
        queue.requeue_with_backoff(entry, 1)
        queue.binding(entry)
    queue.requeue_for_event(VOLUME, 1)

    assert len(queue) == 0
    assert queue.pop(1000) is None


def test_a_pod_made_anew_under_the_same_name_is_another_pod() -> None:
    queue = a_queue(a_pod(uid="first"))
    old = popped(queue, 0)
    queue.add_or_update(a_pod(uid="second"), 1)
    queue.requeue_with_backoff(old, 1)
    new = popped(queue, 1)

    assert (new.pod.uid, new.attempts) == ("second", 1)
    assert queue.pop(1000) is None


def test_removing_what_is_not_there_is_nothing() -> None:
    a_queue().remove("default/pod-1")


class NeverLosesAPod(RuleBasedStateMachine):
    """Whatever is done to it in whatever order: every pod put and not removed can still be popped, once."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue(PLUGINS)
        self.now = 0.0
        self.known: dict[str, Pod] = {}
        self.held: dict[str, QueuedPod] = {}

    names = st.sampled_from(["a", "b", "c", "d"])
    rejectors = st.sets(st.sampled_from([VOLUMES, SHY])).map(frozenset)

    @rule(name=names, priority=st.integers(0, 2), label=st.sampled_from(["x", "y"]), gated=st.booleans())
    def add_or_update(self, name: str, priority: int, label: str, gated: bool) -> None:
        if name in self.known:
            # Gates are only ever lifted, and a priority stays.
            gated = gated and bool(self.known[name].spec.scheduling_gates)
            priority = self.known[name].spec.priority
        pod = a_pod(name=name, priority=priority, labels={"l": label}, gates=["g"] if gated else [])
        self.known[name] = pod
        self.queue.add_or_update(pod, self.now)

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.queue.remove(f"default/{name}")
        self.known.pop(name, None)
        self.held.pop(name, None)

    @rule()
    def pop(self) -> None:
        entry = self.queue.pop_pod(self.now)
        if entry is not None:
            assert entry.pod.name not in self.held, "one attempt per pod at a time"
            assert entry.pod is self.known[entry.pod.name]
            self.held[entry.pod.name] = entry

    @precondition(lambda self: self.held)
    @rule(data=st.data(), rejectors=rejectors, outcome=st.sampled_from(["park", "retry", "binding", "bind and retry"]))
    def finish(self, data: st.DataObject, rejectors: frozenset[str], outcome: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.held)))
        entry = self.held[name]
        if outcome == "park" and state_of(self.queue, f"default/{name}") is PodState.IN_FLIGHT:
            self.queue.add_unschedulable(entry, rejectors, its_claims(entry), self.now)
            del self.held[name]
        elif outcome == "binding":
            self.queue.binding(entry)
        elif outcome in ("retry", "bind and retry"):
            if outcome == "bind and retry":
                self.queue.binding(entry)
            self.queue.requeue_with_backoff(entry, self.now)
            del self.held[name]

    @rule(change=st.sampled_from([VOLUME, CLASS]))
    def requeue_for_event(self, change: ClusterEvent) -> None:
        self.queue.requeue_for_event(change, self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        assert len(self.queue) == len(self.known)
        for name, pod in self.known.items():
            state = state_of(self.queue, f"default/{name}")
            assert (state in (PodState.IN_FLIGHT, PodState.BINDING)) == (name in self.held)
            assert (state is PodState.GATED) == (bool(pod.spec.scheduling_gates) and name not in self.held)

    def teardown(self) -> None:
        """In the end every pod that is not gated or held by a worker is popped."""
        waiting = {name for name, pod in self.known.items() if name not in self.held and not pod.spec.scheduling_gates}
        due = self.queue.next_due(self.now)
        assert (due is not None) == bool(waiting)
        assert set(drained(self.queue, self.now + MAX_UNSCHEDULABLE_SECONDS)) == waiting


TestNeverLosesAPod = NeverLosesAPod.TestCase
TestNeverLosesAPod.settings = settings(max_examples=60, stateful_step_count=30)


def test_pods_blocked_by_capacity_are_counted_until_a_node_fits() -> None:
    queue = a_queue(a_pod(name="a"), a_pod(name="b"))
    first, second = queue.pop(0.0), queue.pop(0.0)
    assert first is not None
    assert second is not None
    queue.add_unschedulable(first, frozenset({VOLUMES}), NO_INTERESTS, 0.0, lacks_capacity=True)
    queue.add_unschedulable(second, frozenset({VOLUMES}), NO_INTERESTS, 0.0)
    assert queue.blocked_by_capacity() == 1
    queue.requeue_for_event(VOLUME, 100.0)
    assert queue.blocked_by_capacity() == 1, "until it is tried"
    again = queue.pop(100.0)
    assert again is not None
    queue.binding(again)
    assert queue.blocked_by_capacity() == (0 if again is first else 1)
    queue.remove("default/a")
    assert queue.blocked_by_capacity() == 0
