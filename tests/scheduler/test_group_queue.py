"""Groups in the scheduling queue: one entity, in one order with single pods, woken by events."""

import pytest

from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import NO_INTERESTS, ClusterEvent, InterestKey, PodInterests, QueueingHint
from mooring.scheduler.queue import (
    AFTER_MAX_UNSCHEDULABLE,
    AFTER_SUCCESS,
    EDITED,
    MAX_UNSCHEDULABLE_SECONDS,
    UNGATED,
    PodState,
    QueuedGroup,
    QueuedPod,
    RejectedPod,
    SchedulingQueue,
)
from support.builders import a_pod

GROUP = "default/g"
VOLUMES, RESOURCES = "Volumes", "Resources"
LOCAL, OTHER = (InterestKey(cluster_events.CLASS, name) for name in ("local", "other"))
VOLUME = ClusterEvent("PersistentVolume", "add", interest_keys=(LOCAL,))
VOLUME_OF_OTHER_CLASS = ClusterEvent("PersistentVolume", "add", interest_keys=(OTHER,))
NODE = ClusterEvent("Node", "update")


class Volumes:
    name = VOLUMES
    events_to_register = (QueueingHint("PersistentVolume", ("add",), interest_kind=cluster_events.CLASS),)


class Resources:
    name = RESOURCES
    events_to_register = (QueueingHint("Node", ("update",)),)


def a_queue(*, groups: dict[str, float], pods: dict[str, float] | None = None) -> SchedulingQueue:
    """Groups and pods by name, with the time they were added."""
    queue = SchedulingQueue((Volumes(), Resources()))
    for name, at in (pods or {}).items():
        queue.add_or_update(a_pod(name=name), at)
    for name, at in groups.items():
        queue.put_group(f"default/{name}", 0, at)
    return queue


def popped(queue: SchedulingQueue, now: float) -> QueuedGroup:
    entry = queue.pop(now)
    assert isinstance(entry, QueuedGroup)
    return entry


def order(queue: SchedulingQueue, now: float) -> list[str]:
    names = []
    while (entry := queue.pop(now)) is not None:
        names.append(entry.pod.name if isinstance(entry, QueuedPod) else entry.key)
    return names


def waits_for(*plugins: str, keys: frozenset[InterestKey] = frozenset()) -> RejectedPod:
    return RejectedPod(a_pod(name="g-0"), frozenset(plugins), PodInterests(keys))


@pytest.mark.req("G3.woken")
def test_group_and_pods_are_ordered_by_priority_and_age() -> None:
    queue = a_queue(groups={"g": 1.0, "late": 3.0}, pods={"first": 0.0, "between": 2.0})
    queue.put_group("default/high", 10, 9.0)

    assert order(queue, 9.0) == ["default/high", "first", "default/g", "between", "default/late"]


@pytest.mark.req("G3.woken")
def test_pods_can_be_popped_while_a_group_is_in_flight_or_first_in_order() -> None:
    queue = a_queue(groups={"g": 0.0}, pods={"single": 1.0})

    pod = queue.pop_pod(1.0)
    assert pod is not None
    assert pod.pod.name == "single"
    assert queue.pop_pod(1.0) is None
    assert popped(queue, 1.0).key == GROUP


@pytest.mark.req("G3.woken")
@pytest.mark.parametrize(
    ("event", "woken"),
    [
        pytest.param(VOLUME, True, id="volume of the class that one member waits for"),
        pytest.param(VOLUME_OF_OTHER_CLASS, False, id="volume of another class"),
        pytest.param(NODE, True, id="event for the plugin that rejected another member"),
        pytest.param(ClusterEvent("StorageClass", "add"), False, id="event that no plugin registered for"),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True], ids=["while unschedulable", "while in flight"])
def test_unschedulable_group_is_requeued_by_events_that_help_a_member(
    event: ClusterEvent, woken: bool, in_flight: bool
) -> None:
    queue = a_queue(groups={"g": 0.0})
    entry = popped(queue, 0.0)
    if in_flight:
        queue.requeue_for_event(event, 0.0)
    rejected = (waits_for(VOLUMES, keys=frozenset({LOCAL})), waits_for(RESOURCES))
    queue.add_unschedulable_group(entry, rejected, 0.0)
    if not in_flight:
        queue.requeue_for_event(event, 0.0)

    assert (queue.pop(1.0) is entry) is woken
    assert queue.pop(1.0) is None


@pytest.mark.req("G3.woken")
def test_group_backs_off_like_a_pod_whatever_its_size() -> None:
    queue = a_queue(groups={"g": 0.0})
    now, waits = 0.0, []
    for _ in range(6):
        queue.requeue_group_with_backoff(popped(queue, now), now)
        due = queue.next_due(now)
        assert due is not None
        waits.append(due - now)
        now = due

    assert waits == [1, 2, 4, 8, 10, 10]


def test_group_is_retried_after_five_minutes_without_an_event() -> None:
    queue = a_queue(groups={"g": 0.0})
    queue.add_unschedulable_group(popped(queue, 0.0), (waits_for(VOLUMES),), 0.0)

    assert queue.pop(MAX_UNSCHEDULABLE_SECONDS - 1) is None
    assert popped(queue, MAX_UNSCHEDULABLE_SECONDS).requeue_reason == AFTER_MAX_UNSCHEDULABLE


def test_pause_after_a_rollback_delays_the_group_beyond_its_backoff_and_events() -> None:
    queue = a_queue(groups={"g": 0.0})
    queue.requeue_group_with_backoff(popped(queue, 0.0), 0.0, pause=64.0)
    queue.requeue_for_event(NODE, 1.0)

    assert queue.next_due(1.0) == 64.0
    assert queue.pop(63.0) is None
    assert popped(queue, 64.0).key == GROUP


@pytest.mark.parametrize(
    ("state", "retried_at"),
    [
        pytest.param("unschedulable", 1.0, id="unschedulable: after the backoff"),
        pytest.param("in flight", 1.0, id="in flight: after the backoff of that attempt"),
        pytest.param("active", 0.0, id="active"),
    ],
)
def test_edited_group_is_retried(state: str, retried_at: float) -> None:
    queue = a_queue(groups={"g": 0.0})
    entry = popped(queue, 0.0) if state != "active" else None
    if state == "in flight":
        queue.put_group(GROUP, 0, 0.0, edited=True)
    if entry is not None:
        queue.add_unschedulable_group(entry, (waits_for(VOLUMES),), 0.0)
    if state != "in flight":
        queue.put_group(GROUP, 0, 0.0, edited=True)

    assert queue.next_due(0.0) == retried_at
    assert popped(queue, retried_at).requeue_reason == ("" if state == "active" else EDITED)


def test_unchanged_group_stays_unschedulable() -> None:
    queue = a_queue(groups={"g": 0.0})
    queue.add_unschedulable_group(popped(queue, 0.0), (waits_for(VOLUMES),), 0.0)
    queue.put_group(GROUP, 0, 0.0)

    assert queue.pop(10.0) is None


def test_gated_group_is_not_popped_until_its_members_are_there() -> None:
    queue = a_queue(groups={})
    queue.gate_group(GROUP, 0.0)
    assert queue.pop(1000.0) is None
    assert queue.group_counts() == {PodState.GATED: 1}
    queue.put_group(GROUP, 0, 1000.0)

    assert popped(queue, 1000.0).requeue_reason == UNGATED


@pytest.mark.parametrize("state", ["in flight", "binding", "unschedulable", "backoff"])
def test_group_that_loses_members_is_gated_unless_an_attempt_is_under_way(state: str) -> None:
    queue = a_queue(groups={"g": 0.0})
    entry = popped(queue, 0.0)
    if state == "binding":
        queue.binding(entry)
    elif state == "unschedulable":
        queue.add_unschedulable_group(entry, (waits_for(VOLUMES),), 0.0)
    elif state == "backoff":
        queue.requeue_group_with_backoff(entry, 0.0)
    queue.gate_group(GROUP, 0.0)
    queue.requeue_for_event(VOLUME, 0.0)

    assert (entry.state is PodState.GATED) == (state in ("unschedulable", "backoff"))
    assert queue.pop(1000.0) is None


def test_group_with_members_left_is_active_again_after_success() -> None:
    queue = a_queue(groups={"g": 0.0})
    entry = popped(queue, 0.0)
    queue.binding(entry)
    queue.reactivate_group(entry, 1.0)

    assert popped(queue, 1.0) is entry
    assert (entry.requeue_reason, entry.attempts) == (AFTER_SUCCESS, 1)


@pytest.mark.parametrize("state", ["active", "in flight", "unschedulable", "backoff", "binding", "gated"])
def test_removed_group_does_not_return(state: str) -> None:
    queue = a_queue(groups={"g": 0.0})
    if state == "gated":
        queue.gate_group(GROUP, 0.0)
    entry = popped(queue, 0.0) if state not in ("active", "gated") else None
    if entry is not None and state == "unschedulable":
        queue.add_unschedulable_group(entry, (waits_for(VOLUMES),), 0.0)
    elif entry is not None and state == "backoff":
        queue.requeue_group_with_backoff(entry, 0.0)
    elif entry is not None and state == "binding":
        queue.binding(entry)
    queue.remove_group(GROUP)
    if entry is not None:
        queue.add_unschedulable_group(entry, (waits_for(VOLUMES),), 1.0)
        queue.requeue_group_with_backoff(entry, 1.0)
        queue.reactivate_group(entry, 1.0)
        queue.binding(entry)
    queue.requeue_for_event(VOLUME, 1.0)

    assert len(queue) == 0
    assert queue.pop(1000.0) is None


def test_first_node_requeues_a_group_that_no_plugin_rejected() -> None:
    queue = a_queue(groups={"g": 0.0})
    queue.add_unschedulable_group(popped(queue, 0.0), (RejectedPod(a_pod(), frozenset(), NO_INTERESTS),), 0.0)
    queue.requeue_for_event(ClusterEvent("Node", "add"), 0.0)

    assert popped(queue, 1.0).key == GROUP
