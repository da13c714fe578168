import random
from collections.abc import Sequence

import pytest

from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.framework.group_cycle import GroupInput
from mooring.scheduler.preemption.group_evaluator import (
    GroupPreemption,
    NoGroupPreemption,
    VictimGroup,
    preempt_for_group,
    victim_units,
)
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.group import GroupRefusal
from support.builders.pods import a_pod
from support.scheduler.groups import NODES, GroupCluster, a_gang, cluster_objects, local_volume

pytestmark = pytest.mark.req("G1.evicted")


def fillers(nodes: Sequence[str] = NODES, *, cpu: str = "4", each: int = 2) -> list[Pod]:
    """Pods of low priority that fill their nodes."""
    return [
        a_pod(name=f"low-{node}-{number}", uid=f"low-{node}-{number}", node=node, requests={"cpu": cpu}, priority=1)
        for node in nodes
        for number in range(each)
    ]


def evaluate(
    pods: Sequence[Pod], quorum: int, *objects: ApiObject, group_of: VictimGroup | None = None
) -> tuple[GroupCluster, GroupPreemption | GroupRefusal | NoGroupPreemption]:
    cluster = GroupCluster(*cluster_objects(), *objects)
    units = victim_units(cluster.snapshot, 100, lambda pod: group_of if pod.name.startswith("low-n1") else None)
    before = {node: sorted(pod.key for pod in cluster.snapshot.pods_on(node)) for node in NODES}
    result = preempt_for_group(cluster.snapshot, DEFAULT, random.Random(0), GroupInput(pods, quorum), units)
    after = {node: sorted(pod.key for pod in cluster.snapshot.pods_on(node)) for node in NODES}
    assert before == after
    assert not cluster.snapshot.volumes.assumed_nodes()
    return cluster, result


def test_victims_are_on_the_nodes_that_reach_the_volumes() -> None:
    """G71."""
    pods, claims = a_gang(2, claims=[("local", "5Gi")], cpu="8", priority=100)
    volumes = [local_volume("pv-2", "n2"), local_volume("pv-4", "n4")]
    _, result = evaluate(pods, 2, *fillers(), *volumes, *claims)
    assert isinstance(result, GroupPreemption), result
    assert {victim.spec.node_name for victim in result.victims} == {"n2", "n4"}
    assert sorted(result.nodes.values()) == ["n2", "n4"]
    assert result.message == "found a placement for podgroup, preempting 4 victims"


def test_no_pod_is_evicted_for_volumes_that_eviction_does_not_free() -> None:
    """G72."""
    pods, claims = a_gang(2, claims=[("local", "5Gi")], cpu="8", priority=100)
    _, result = evaluate(pods, 2, *fillers(), *claims)
    assert isinstance(result, GroupRefusal)
    assert result.message == "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"


def test_only_as_many_pods_are_evicted_as_are_in_the_way() -> None:
    pods, _ = a_gang(2, cpu="4", priority=100)
    _, result = evaluate(pods, 2, *fillers())
    assert isinstance(result, GroupPreemption), result
    assert len(result.victims) == 2


@pytest.mark.parametrize(("as_one", "evicted"), [(True, 2), (False, 1)], ids=["together", "one by one"])
def test_group_that_is_disrupted_as_one_leaves_together(as_one: bool, evicted: int) -> None:
    """G73."""
    pods, claims = a_gang(1, claims=[("local", "5Gi")], cpu="4", priority=100)
    group = VictimGroup("default/low", 1, as_one)
    _, result = evaluate(pods, 1, *fillers(), local_volume("pv-1", "n1"), *claims, group_of=group)
    assert isinstance(result, GroupPreemption), result
    assert len(result.victims) == evicted


def test_pods_of_equal_priority_are_no_victims() -> None:
    pods, _ = a_gang(2, cpu="8", priority=1)
    cluster = GroupCluster(*cluster_objects(), *fillers())
    units = victim_units(cluster.snapshot, 1)
    result = preempt_for_group(cluster.snapshot, DEFAULT, random.Random(0), GroupInput(pods, 2), units)
    assert result is NoGroupPreemption.NO_VICTIMS


def test_pod_that_a_member_keeps_away_from_is_evicted() -> None:
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "low"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods, _ = a_gang(1, affinity=apart, priority=100)
    low = [
        a_pod(name=f"low-{node}", uid=f"low-{node}", node=node, labels={"app": "low"}, priority=1)
        for node in ("n1", "n3", "n5", "n6")
    ]
    _, result = evaluate(pods, 1, *low)
    assert isinstance(result, GroupPreemption), result
    zone = {"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c", "n6": "c"}
    [node] = result.nodes.values()
    assert {zone[victim.spec.node_name] for victim in result.victims} == {zone[node]}
