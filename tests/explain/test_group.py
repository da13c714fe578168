"""`mooring explain podgroup/NAME`: the states of a group, on the cluster of the acceptance cases."""

from collections.abc import Mapping, Sequence

import pytest

from mooring.api import well_known
from mooring.api.kinds import POD, POD_GROUP
from mooring.explain.cluster_view import ClusterView
from mooring.explain.group import ONE_BY_ONE, explain_group
from mooring.explain.pod import explain_in, overview
from mooring.explain.results import GroupReport
from mooring.explain.text import group_paragraphs
from mooring.volumes.holds import objects as marks
from mooring.volumes.holds.group_record import GROUP_EPOCH, GROUP_LABEL
from support.builders import Body, claim_body, class_body, node_body, volume_body
from support.builders.drivers import capacity_body, driver_body
from support.builders.groups import member_body, pod_group_body
from support.explain.clusters import event_body, listed

RACK = "example.com/rack"
RACKS = {"n1": "r1", "n2": "r1", "n3": "r1", "n4": "r2", "n5": "r2", "n6": "r2"}


def cluster(figures: Mapping[str, str], *, unschedulable: Sequence[str] = ()) -> list[Body]:
    """Six nodes in two racks, and capacity of class `node` per node."""
    bodies = [class_body(name="node", provisioner="h.example"), driver_body(name="h.example", tracks_capacity=True)]
    for name, rack in RACKS.items():
        labels = {well_known.HOSTNAME: name, RACK: rack}
        room = {"cpu": "8", "pods": "110"}
        bodies.append(node_body(name=name, labels=labels, allocatable=room, unschedulable=name in unschedulable))
    for node, amount in figures.items():
        topology = {"matchLabels": {well_known.HOSTNAME: node}}
        bodies.append(
            capacity_body(name=node, storage_class="node", topology=topology, capacity=amount, largest=amount)
        )
    return bodies


def members(number: int, *, first: int = 0, size: str = "100Gi", cpu: str = "1", **of_pod: object) -> list[Body]:
    """Pods g-N, each with claim c-N of class `node`, or without claims for size ""."""
    bodies = []
    for index in range(first, first + number):
        claims = [f"c-{index}"] if size else []
        if size:
            bodies.append(claim_body(name=f"c-{index}", storage_class="node", size=size, uid=f"uid-c-{index}"))
        bodies.append(
            member_body(name=f"g-{index}", claims=claims, requests={"cpu": cpu}, uid=f"uid-{index}", **of_pod)
        )
    return bodies


def report_of(*bodies: Body) -> GroupReport:
    report = explain_group(ClusterView(listed(*bodies)), "default/g")
    assert report is not None
    return report


def text_of(report: GroupReport) -> str:
    return "\n".join([report.verdict, *group_paragraphs(report)])


def test_g24_shortage_has_figures_and_verified_remedies() -> None:
    report = report_of(*cluster({"n1": "150Gi", "n2": "110Gi", "n3": "50Gi"}), pod_group_body(), *members(3))
    assert (report.state, report.ok) == ("Short", False)
    assert text_of(report).splitlines() == [
        "default/g does not fit: 3 members are needed, and at most 2 fit together (minCount 3, 0 bound).",
        "  class node: 3 volumes of 100Gi: n1 150Gi: 1, n2 110Gi: 1, n3 50Gi: 0",
        ONE_BY_ONE,
        "what would help:",
        "  - 50Gi more capacity of class node on n1 or n3",
        "  - 90Gi more capacity of class node on n2",
        "  - lower minCount to 2",
    ]


def test_g22_plan_names_node_and_volume_of_each_member() -> None:
    report = report_of(*cluster({"n1": "150Gi", "n2": "110Gi", "n3": "110Gi"}), pod_group_body(), *members(3))
    assert (report.state, report.ok) == ("WouldFit", True)
    assert sorted(member.node for member in report.members) == ["n1", "n2", "n3"]
    assert report.members[0].volumes == ("c-0 (100Gi) is provisioned with class node",)


def test_g26_domains_are_compared() -> None:
    figures = {"n1": "150Gi", "n4": "110Gi", "n5": "110Gi", "n6": "110Gi"}
    report = report_of(*cluster(figures), pod_group_body(topology=RACK), *members(3))
    assert report.verdict == f"default/g would fit in {RACK}=r2: 3 of 3 members."
    report = report_of(*cluster(figures | {"n6": "50Gi"}), pod_group_body(topology=RACK), *members(3))
    assert [(limit.domain, limit.members, limit.needed) for limit in report.limits] == [("r1", 1, 3), ("r2", 2, 3)]
    assert "r1: 1 of 3" in text_of(report)
    assert "50Gi more capacity of class node on n6" in report.remedy_texts


def test_g02_missing_group_is_reported_with_its_pods() -> None:
    report = report_of(*cluster({}), *members(3, size=""))
    assert (report.state, report.verdict) == ("GroupMissing", "default/g does not exist, and 3 pods wait for it.")


def test_g03_missing_members_are_counted() -> None:
    report = report_of(*cluster({}), pod_group_body(), *members(2, size=""))
    assert report.state == "WaitingForMembers"
    assert report.verdict == "default/g waits for members: 2 of 3 members exist."


def test_g04_gated_extra_does_not_count() -> None:
    gated = members(1, first=3, size="", gates=["wait"])
    report = report_of(*cluster({}), pod_group_body(), *members(3, size=""), *gated)
    assert (report.state, len(report.members)) == ("WouldFit", 3)
    report = report_of(*cluster({}), pod_group_body(), *members(2, size=""), *gated)
    assert report.verdict == (
        "default/g waits for members: 2 of 3 members exist; 1 with scheduling gates do not count."
    )
    assert "find out which component removes the scheduling gates of g-3" in report.checks


def test_g05_cpu_shortage_names_the_smaller_quorum() -> None:
    cordoned = ("n3", "n4", "n5", "n6")
    report = report_of(*cluster({}, unschedulable=cordoned), pod_group_body(), *members(3, size="", cpu="5"))
    assert (report.state, report.ok) == ("Short", False)
    assert report.remedy_texts == ("lower minCount to 2",)
    assert ONE_BY_ONE not in report.lines


def test_g07_other_priority_is_invalid() -> None:
    report = report_of(*cluster({}), pod_group_body(), *members(2, size=""), *members(1, first=2, size="", priority=5))
    assert report.state == "Invalid"
    assert "should have the same priority as the pod group's priority, got 5 and 0" in report.verdict


def test_g08_member_of_a_silent_scheduler_is_named() -> None:
    foreign = members(1, first=2, size="", scheduler="other")
    report = report_of(*cluster({}), pod_group_body(), *members(2, size=""), *foreign)
    assert report.state == "WaitingForMembers"
    assert 'pod default/g-2 waits for scheduler "other"' in report.verdict


def test_g10_ended_members_do_not_count() -> None:
    ended = members(2, size="", phase="Succeeded")
    report = report_of(*cluster({}), pod_group_body(), *ended, *members(1, first=2, size=""))
    assert "2 ended and do not count" in report.verdict
    assert "lower minCount: 2 pods of the group have ended and do not count" in report.checks


def test_g25_extra_waits_behind_the_quorum() -> None:
    bound = members(2, size="", node="n1")
    report = report_of(*cluster({"n1": "50Gi"}), pod_group_body(min_count=2), *bound, *members(1, first=2))
    assert (report.state, report.ok) == ("ExtraWaiting", False)
    assert report.verdict == "default/g has its quorum (2 bound, minCount 2); 1 pod beyond it wait."


def test_g66_group_below_its_quorum_names_what_is_missing() -> None:
    """A2: the bound member fixes the domain; what would be lost by moving it comes first."""
    reference = {"namespace": "default", "name": "c-0", "uid": "uid-c-0", "kind": "PersistentVolumeClaim"}
    volume = volume_body(
        name="v", node="n1", storage_class="node", size="100Gi", reclaim="Delete", claim_ref=reference, phase="Bound"
    )
    claim = claim_body(name="c-0", storage_class="node", size="100Gi", volume="v", bound=True, uid="uid-c-0")
    bound = member_body(name="g-0", claims=["c-0"], node="n1", requests={"cpu": "1"})
    figures = {"n1": "50Gi", "n4": "110Gi", "n5": "110Gi", "n6": "110Gi"}
    report = report_of(*cluster(figures), pod_group_body(topology=RACK), volume, claim, bound, *members(2, first=1))
    assert (report.state, report.ok) == ("BelowQuorum", False)
    assert "1 of 3 members are bound, and g-1, g-2 cannot follow" in report.verdict
    assert report.remedy_texts == ()
    assert report.checks[0] == f"whether to move g-0: bound members fix {RACK} for all others"
    assert report.checks[1].startswith("loses all data on v, which is deleted with default/c-0")


def test_g45_members_in_two_domains_are_an_error() -> None:
    bound = [*members(1, size="", node="n1"), *members(1, first=1, size="", node="n4")]
    report = report_of(*cluster({}), pod_group_body(topology=RACK), *bound, *members(1, first=2, size=""))
    assert "more than 1 domain found for pod group: r1, r2" in report.verdict
    assert not report.ok


def held(name: str, claim: str, state: Mapping[str, str]) -> Body:
    notes = {marks.CLAIM: claim, marks.NODE: "n1", marks.SINCE: "2026-11-02T10:00:00Z", GROUP_EPOCH: "2", **state}
    reference = {"namespace": "mooring-system", "name": f"hold-{name}", "uid": "", "kind": "PersistentVolumeClaim"}
    return volume_body(
        name=name,
        node="n1",
        storage_class="node",
        claim_ref=reference,
        annotations=notes,
        labels={GROUP_LABEL: "uid-g"},
    )


def test_g13_holding_shows_members_without_volumes_and_its_end() -> None:
    figures = {"n1": "150Gi", "n2": "110Gi", "n3": "110Gi"}
    bodies = [*cluster(figures), pod_group_body(uid="uid-g"), *members(3)]
    report = report_of(*bodies, held("v", "default/c-0", {}))
    assert (report.state, report.ok) == ("Holding", True)
    assert report.verdict == (
        "default/g holds 1 of 3 volumes since 2026-11-02T10:00:00Z (epoch 2); "
        "given up at 2026-11-02T10:09:00Z if not complete."
    )
    assert report.lines == ("waits for the volumes of g-1, g-2",)


def test_given_up_group_shows_the_event_and_the_condition() -> None:
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    group = pod_group_body(conditions=[condition])
    told = event_body(group, "GroupGivenUp", "held volumes are rolled back (TooLong): x", at="2026-11-02T10:00:00Z")
    report = report_of(*cluster({}), group, *members(3, size=""), told)
    assert report.notes == (
        "GroupGivenUp at 2026-11-02T10:00:00Z: held volumes are rolled back (TooLong): x",
        "condition PodGroupInitiallyScheduled False (Unschedulable): m",
    )


def test_g01_bound_group_runs() -> None:
    report = report_of(*cluster({}), pod_group_body(), *members(3, size="", node="n1"))
    assert (report.state, report.verdict) == ("Committed", "default/g runs: 3 pods bound, minCount 3.")


@pytest.mark.parametrize("reason", ["not served by the API server", "podgroups is forbidden"])
def test_g68_and_g70_unreadable_groups_are_ignored(reason: str) -> None:
    objects = listed(*cluster({}), *members(1, size=""), unlisted={POD_GROUP: reason})
    report = explain_group(ClusterView(objects), "default/g")
    assert report is not None
    assert (report.state, report.ok) == ("Ignored", False)
    assert reason in report.verdict


def test_older_version_of_the_kind_is_read() -> None:
    group = pod_group_body() | {"apiVersion": "scheduling.k8s.io/v1alpha3"}
    assert report_of(*cluster({}), group, *members(3, size="")).state == "WouldFit"


def test_member_that_fits_alone_waits_for_its_group() -> None:
    bodies = [*cluster({"n1": "150Gi"}), pod_group_body(), *members(3)]
    view = ClusterView(listed(*bodies))
    pod = view.objects.get(POD, "default/g-0")
    assert pod is not None
    verdict = explain_in(view, pod)
    assert (verdict.ok, verdict.verdict) == (
        False,
        "default/g-0 would fit by itself, and waits for its group default/g.",
    )
    assert "lower minCount to 1" in verdict.remedy_texts
    assert any("mooring explain podgroup/g" in note for note in verdict.notes)
    lines = [(line.what, line.ok) for line in overview(view)]
    assert lines[0] == ("podgroup/g", False)
    assert ("pod/g-0", False) in lines


def test_group_that_neither_exists_nor_is_named_has_no_report() -> None:
    assert explain_group(ClusterView(listed(*cluster({}))), "default/g") is None
