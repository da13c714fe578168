"""Members of groups, and the states that keep a group from being scheduled."""

import msgspec
import pytest

from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.scheduler.groups.members import GroupMembers, GroupState, MemberState, invalid_group
from support.builders.groups import a_member, a_pod_group


def observed(*pods: Pod, group: PodGroup | None = None) -> GroupMembers:
    members = GroupMembers({"default-scheduler", "second"})
    if group is not None:
        members.observe_group(None, group)
    for pod in pods:
        members.observe_pod(None, pod)
    return members


def pods(count: int) -> list[Pod]:
    return [a_member(name=f"g-{number}", uid=f"u{number}") for number in range(count)]


def created(at: str, pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=at))


GATED = a_member(name="gated", uid="gated", gates=["wait"])
ENDED = [a_member(name=f"e-{n}", uid=f"e{n}", node="n1", phase="Succeeded") for n in range(2)]
FOREIGN = a_member(name="other", uid="other", scheduler="elsewhere")
FOREIGN_PLACED = a_member(name="other", uid="other", scheduler="elsewhere", node="n1")
DELETED = a_member(name="deleted", uid="deleted", deleting=True)


@pytest.mark.parametrize(
    ("members", "min_count", "state", "text"),
    [
        pytest.param(pods(3), 3, GroupState.READY, "3 of 3 members exist", id="enough"),
        pytest.param(pods(2), 3, GroupState.WAITING_FOR_MEMBERS, "2 of 3 members exist", id="too few"),
        pytest.param([*pods(3), GATED], 3, GroupState.READY, None, id="enough beside a gated one"),
        pytest.param(
            [*pods(2), GATED],
            3,
            GroupState.WAITING_FOR_MEMBERS,
            "2 of 3 members exist; 1 with scheduling gates do not count",
            id="a gated one does not count",
        ),
        pytest.param(
            [*pods(1), *ENDED],
            3,
            GroupState.WAITING_FOR_MEMBERS,
            "1 of 3 members exist; 2 ended and do not count",
            id="ended ones do not count",
        ),
        pytest.param(
            [*pods(2), FOREIGN],
            3,
            GroupState.WAITING_FOR_MEMBERS,
            '2 of 3 members exist; pod default/other waits for scheduler "elsewhere"',
            id="one of another scheduler does not count",
        ),
        pytest.param([*pods(2), FOREIGN_PLACED], 3, GroupState.READY, None, id="once bound it counts"),
        pytest.param([*pods(2), DELETED], 3, GroupState.WAITING_FOR_MEMBERS, None, id="a deleted one does not count"),
        pytest.param([GATED], 1, GroupState.IDLE, None, id="only a gated one"),
        pytest.param([FOREIGN_PLACED], 1, GroupState.IDLE, None, id="only one on a node"),
        pytest.param([], 3, GroupState.IDLE, None, id="no pod"),
    ],
)
def test_group_status_counts_members(members: list[Pod], min_count: int, state: GroupState, text: str | None) -> None:
    group = observed(*members, group=a_pod_group(min_count=min_count)).get("default/g")

    assert group is not None
    assert group.status.state is state
    if text is not None:
        assert str(group.status) == text


def test_basic_group_needs_one_member() -> None:
    group = observed(*pods(1), group=a_pod_group(basic=True)).get("default/g")

    assert group is not None
    assert group.status.state is GroupState.READY


def test_pods_wait_for_a_missing_pod_group() -> None:
    members = observed(*pods(3))
    group = members.get("default/g")
    assert group is not None
    assert group.status.state is GroupState.MISSING

    assert members.observe_group(None, a_pod_group()) is group
    assert group.status.state is GroupState.READY
    assert members.observe_group(a_pod_group(), None) is group
    assert group.status.state is GroupState.MISSING


def test_members_are_ordered_by_priority_attempts_and_age() -> None:
    late = created("2026-01-01T00:00:09Z", a_member(name="a-late", uid="late"))
    early = created("2026-01-01T00:00:01Z", a_member(name="z-early", uid="early"))
    tried = created("2026-01-01T00:00:30Z", a_member(name="z-tried", uid="tried"))
    high = created("2026-01-01T00:01:00Z", a_member(name="z-high", uid="high", priority=5))
    group = observed(late, early, tried, high, group=a_pod_group()).get("default/g")
    assert group is not None
    group.attempts["tried"] = 2

    assert [pod.uid for pod in group.unassigned()] == ["high", "tried", "early", "late"]


def test_assigned_members_count_and_are_not_scheduled_again() -> None:
    members = observed(*pods(3), group=a_pod_group())
    group = members.get("default/g")
    assert group is not None
    group.assigned.update({"u0": "n1", "u1": "n2"})
    assert [pod.uid for pod in group.unassigned()] == ["u2"]
    assert sorted(node for _, node in group.nodes()) == ["n1", "n2"]
    assert group.status.state is GroupState.READY

    members.observe_pod(pods(3)[0], a_member(name="g-0", uid="u0", node="n1"))
    assert group.assigned == {"u1": "n2"}
    assert sorted(node for _, node in group.nodes()) == ["n1", "n2"]
    group.assigned["u2"] = "n3"
    assert group.status.state is GroupState.IDLE


@pytest.mark.parametrize(
    ("after", "changed"),
    [
        pytest.param(a_member(name="g-0", uid="u0"), False, id="status only"),
        pytest.param(a_member(name="g-0", uid="u0", labels={"a": "b"}), True, id="labels"),
        pytest.param(a_member(name="g-0", uid="another"), True, id="recreated"),
        pytest.param(a_member(name="g-0", uid="u0", deleting=True), True, id="terminating"),
        pytest.param(None, True, id="deleted"),
    ],
)
def test_observe_pod_returns_the_group_if_a_decision_may_change(after: Pod | None, changed: bool) -> None:
    members = observed(*pods(1), group=a_pod_group())

    assert (members.observe_pod(pods(1)[0], after) is not None) is changed


def test_pod_group_status_changes_nothing() -> None:
    members = observed(group=a_pod_group())
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": ""}

    assert members.observe_group(a_pod_group(), a_pod_group(conditions=[condition])) is None
    assert members.observe_group(a_pod_group(), a_pod_group(min_count=2)) is not None


def test_group_without_pods_and_pod_group_is_dropped() -> None:
    members = observed(*pods(1), group=a_pod_group())
    members.observe_pod(pods(1)[0], None)
    assert len(members) == 1
    members.observe_group(a_pod_group(), None)

    assert len(members) == 0


def test_attempts_of_a_deleted_member_are_dropped() -> None:
    members = observed(*pods(1), group=a_pod_group())
    group = members.get("default/g")
    assert group is not None
    group.assigned["u0"], group.attempts["u0"], group.reported["u0"] = "n1", 3, "text"
    members.observe_pod(pods(1)[0], None)

    assert (group.assigned, group.attempts, group.reported) == ({}, {}, {})
    assert not group.pods(MemberState.PENDING)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        pytest.param(pods(2), "", id="equal"),
        pytest.param(
            [*pods(1), a_member(name="b", scheduler="second")],
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            'got: "second" and "default-scheduler"',
            id="scheduler name",
        ),
        pytest.param(
            [*pods(1), a_member(name="b", priority=7)],
            "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0",
            id="priority",
        ),
        pytest.param(
            [*pods(1), a_member(name="b", more_spec={"preemptionPolicy": "Never"})],
            "all pods in a single pod group should have the same preemption policy, got Never and PreemptLowerPriority",
            id="preemption policy",
        ),
    ],
)
def test_invalid_group_uses_the_words_of_kube_scheduler(members: list[Pod], text: str) -> None:
    assert invalid_group(a_pod_group(), members) == text
