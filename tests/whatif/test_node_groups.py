"""Which node group of an autoscaler helps the pending pods, and with how many nodes."""

from collections.abc import Sequence

import pytest

from mooring.whatif.additions import Addition
from mooring.whatif.inventory import BadQuestion, Inventory
from mooring.whatif.node_groups import NodeGroupAnswer, labelled_groups, which_group, with_published_storage
from mooring.whatif.node_search import CopiedNode
from mooring.whatif.question import WhatIfQuestion
from mooring.whatif.results import PendingPod, SimulationResult
from mooring.whatif.run import answer
from support.builders import Body, capacity_body, csi_node_body, node_body, pod_body
from support.whatif.questions import DRIVER, FAST, inventory, nodes, pool, provisioned_class, stateful_set

KEY = "disks.example.com/node"
GROUP = "example.com/group"


def answered(there: Inventory, groups: dict[str, CopiedNode]) -> NodeGroupAnswer:
    def simulate(additions: Sequence[Addition]) -> SimulationResult:
        return answer(WhatIfQuestion(there.copied(), additions=additions))

    return which_group(groups, simulate)


def new_pod(name: str, **more: object) -> Body:
    body = pod_body(name=name, **more)  # type: ignore[arg-type]  # fields of the builder
    del body["status"]
    return body


def in_group(name: str, group: str, **more: object) -> Body:
    return node_body(name=name, labels={"kubernetes.io/hostname": name, GROUP: group}, uid=f"{name}-uid", **more)  # type: ignore[arg-type]  # fields of the builder


@pytest.mark.req("C24.which-group")
def test_storage_decides_which_group_helps() -> None:
    """Both groups have CPUs; volumes fit on nodes of one only."""
    there = inventory(
        [
            in_group("n1", "disks"),
            in_group("n2", "diskless"),
            *provisioned_class(),
            pool("n1", "2Gi"),
            stateful_set(replicas=5, podManagementPolicy="Parallel"),
        ]
    )
    found = answered(there, labelled_groups(there, GROUP))
    assert (found.ok, found.best) == (True, "disks")
    assert found.verdict == "All pods run with 2 nodes of disks."
    assert len(found.pending) == 3
    disks, diskless = found.groups["disks"], found.groups["diskless"]
    assert (disks.count, disks.ok, len(disks.scheduled), disks.pending) == (2, True, 3, ())
    assert (diskless.count, diskless.ok, diskless.scheduled, len(diskless.pending)) == (0, False, (), 3)


@pytest.mark.req("C24.which-group")
def test_group_that_helps_some_pods_has_the_others_as_pending() -> None:
    pods = [new_pod(f"web-{number}", requests={"cpu": "3"}) for number in range(4)]
    there = inventory([in_group("n1", "small"), *pods, new_pod("huge", requests={"cpu": "100"})])
    found = answered(there, labelled_groups(there, GROUP))
    assert (found.ok, found.best) == (False, "small")
    small = found.groups["small"]
    assert (small.count, len(small.scheduled)) == (3, 3)
    assert [each.pod for each in small.pending] == ["default/huge"]
    assert found.verdict == "3 nodes of small would help most; 1 pod would not run."


@pytest.mark.req("C24.which-group")
def test_no_group_is_named_when_none_helps_or_is_needed() -> None:
    idle = inventory([in_group("n1", "small")])
    found = answered(idle, labelled_groups(idle, GROUP))
    assert (found.ok, found.best, found.verdict) == (True, "", "No pod needs a further node.")
    assert found.groups["small"].count == 0
    stuck = inventory([in_group("n1", "small"), new_pod("huge", requests={"cpu": "100"})])
    found = answered(stuck, labelled_groups(stuck, GROUP))
    assert (found.ok, found.best, found.verdict) == (False, "", "No node group helps.")


def test_group_with_fewer_nodes_is_best() -> None:
    pods = [new_pod(f"web-{number}", requests={"cpu": "2"}) for number in range(9)]
    small, large = in_group("n1", "small", allocatable={"cpu": "2"}), in_group("n2", "large", allocatable={"cpu": "8"})
    there = inventory([small, large, *pods])
    found = answered(there, labelled_groups(there, GROUP))
    assert {name: each.count for name, each in found.groups.items()} == {"small": 4, "large": 1}
    assert found.best == "large"


@pytest.mark.parametrize("needed", [1, 2, 3, 7, 8, 9, 100])
def test_number_is_the_least_with_few_runs(needed: int) -> None:
    """Also where one pod stays pending whatever is added."""
    runs = 0

    def simulate(additions: Sequence[Addition]) -> SimulationResult:
        nonlocal runs
        runs += 1
        added = sum(each.number for each in additions)
        waiting = tuple(PendingPod(f"default/{number}", "x") for number in range(max(needed - added, 0) + 1))
        return SimulationResult("", False, 0.0, pending=waiting)

    found = which_group({"g": CopiedNode("n1", inventory([]))}, simulate)
    assert found.groups["g"].count == needed
    assert runs <= 2 * needed.bit_length() + 4


def test_lost_and_cordoned_nodes_do_not_represent_a_group() -> None:
    cordoned = in_group("n1", "small")
    cordoned.setdefault("spec", {})["unschedulable"] = True
    there = inventory([cordoned, in_group("n2", "small")])
    assert labelled_groups(there, GROUP)["small"].name == "n2"
    with pytest.raises(BadQuestion, match="no ready node has the label other"):
        labelled_groups(there, "other")


@pytest.mark.req("C24.which-group", "C24.template-nodes")
def test_empty_group_has_the_capacity_published_for_its_template() -> None:
    """No node of the group exists. Each added node has its own storage, and templates are no free capacity."""
    template = capacity_body(
        name="csisc-1",
        topology={"matchLabels": {KEY: "ssd_template"}},
        storage_class=FAST,
        capacity="2Gi",
        labels={"mooring.dev/node-group": "ssd", "csi.storage.k8s.io/drivername": DRIVER},
    )
    there = inventory(
        [
            *nodes(1),
            csi_node_body(name="n1", topology={DRIVER: [KEY]}),
            *provisioned_class(),
            template,
            stateful_set(replicas=3, podManagementPolicy="Parallel"),
        ]
    )
    node = node_body(name="ssd", labels={"kubernetes.io/hostname": "ssd", KEY: "ssd_template"})
    storageless = node_body(name="bare", labels={"kubernetes.io/hostname": "bare"})
    groups = {
        "ssd": CopiedNode("ssd", with_published_storage(inventory([node]), there)),
        "bare": CopiedNode("bare", with_published_storage(inventory([storageless]), there)),
    }
    found = answered(there, groups)
    assert len(found.pending) == 3, "the template is not capacity of an existing node"
    assert {name: each.count for name, each in found.groups.items()} == {"ssd": 2, "bare": 0}
    assert found.groups["ssd"].ok
