"""Slices, repairs, repeated plans and costs of decisions about groups."""

import random
from collections.abc import Sequence

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.framework import cycle as single
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput, run_to_end
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.group import GROUP_LOOKS, GroupPlan, RefusalCode
from mooring.volumes.group import attempt as attempts
from mooring.volumes.group import search as searches
from support.builders.claims import a_claim
from support.builders.nodes import a_node
from support.builders.pods import a_pod
from support.scheduler.groups import (
    GroupCluster,
    a_gang,
    cluster_objects,
    local_volume,
    node_capacity,
    nodes_of,
    refused,
    volumes_of,
    zonal_volume,
    zone_capacity,
)

pytestmark = pytest.mark.req("G1.sliced")


def three_local() -> tuple[list[Pod], list[ApiObject]]:
    pods, claims = a_gang(3, claims=[("local", "5Gi")])
    volumes = [local_volume(f"pv-{node}", node) for node in ("n1", "n2", "n3")]
    return pods, [*cluster_objects(), *volumes, *claims]


def test_decision_in_slices_equals_decision_in_one_piece() -> None:
    pods, objects = three_local()
    whole = GroupCluster(*objects).decide(pods, 3)
    cluster = GroupCluster(*objects)
    cycle = cluster.cycle(pods, 3)
    steps = 1
    while not cycle.step(1):
        steps += 1
    assert steps > 3
    assert nodes_of(whole) == nodes_of(cycle.result)  # type: ignore[arg-type]


def test_pods_between_slices_see_what_is_reserved() -> None:
    pods, objects = three_local()
    cluster = GroupCluster(*objects, a_claim(name="single", uid="uid-single"))
    cycle = cluster.cycle(pods, 3)
    while not cycle.step(1) and len(cluster.snapshot.pod_keys) < 2:
        pass
    state = CycleState(a_pod(name="single", uid="uid-p", claims=["single"]), cluster.snapshot)
    decision = single.run_cycle(state, DEFAULT, random.Random(0))
    taken = {cluster.snapshot.node_of(pod) for pod in pods} - {""}
    assert len(taken) == 2
    assert decision.node not in taken
    cycle.undo()
    assert not cluster.snapshot.pod_keys
    assert not cluster.snapshot.volumes.assumed_nodes()


def test_plan_stays_reserved_until_it_is_undone() -> None:
    pods, objects = three_local()
    cluster = GroupCluster(*objects)
    cycle = cluster.cycle(pods, 3)
    run_to_end(cycle)
    assert len(cluster.snapshot.pod_keys) == 3
    assert cycle.stale() == ()
    other, claims = a_gang(1, claims=[("local", "5Gi")], prefix="other")
    for claim in claims:
        cluster.snapshot.volumes.observe_claim(None, claim)
    assert refused(cluster.decide(other, 1)).code is RefusalCode.SHORT
    cycle.undo()
    cycle.undo()
    assert not cluster.snapshot.pod_keys
    assert nodes_of(cluster.decide(other, 1))


def test_volume_that_is_taken_between_slices_is_replaced() -> None:
    pods, objects = three_local()
    cluster = GroupCluster(*objects, local_volume("pv-n4", "n4"))
    cycle = cluster.cycle(pods, 3)
    while not cycle.step(1) and len(cluster.snapshot.pod_keys) < 2:
        pass
    node = next(node for pod in pods if (node := cluster.snapshot.node_of(pod)))
    taken = local_volume(
        f"pv-{node}", node, version="9", claim_ref={"namespace": "x", "name": "y", "uid": "z"}, phase="Bound"
    )
    cluster.snapshot.volumes.observe_volume(cluster.snapshot.volumes.volume(taken.name), taken)
    while not cycle.step(1):
        pass
    result = cycle.result
    assert isinstance(result, GroupPlan)
    assert taken.name not in volumes_of(result).values()
    assert set(volumes_of(result).values()) == {"pv-n1", "pv-n2", "pv-n3", "pv-n4"} - {taken.name}


@pytest.mark.parametrize("after", [0, 2], ids=["before the first member", "after two members"])
def test_shared_claim_that_changes_between_slices_is_read_again(after: int) -> None:
    pods, _ = a_gang(3, shared=["data"])
    data = a_claim(name="data", storage_class="net", access_modes=["ReadWriteMany"], uid="uid-data", version="1")
    cluster = GroupCluster(*cluster_objects(), zone_capacity("a", "60Gi"), data)
    cycle = cluster.cycle(pods, 3)
    while len(cluster.snapshot.pod_keys) < after:
        assert not cycle.step(1)
    changed = a_claim(
        name="data", storage_class="net", access_modes=["ReadWriteMany"], uid="uid-data", version="2", labels={"a": "b"}
    )
    cluster.snapshot.volumes.observe_claim(data, changed)
    while not cycle.step(1):
        pass
    assert len(nodes_of(cycle.result)) == 3  # type: ignore[arg-type]
    assert cycle.result.shared[0].plan.provision[0].claim.metadata.resource_version == "2"  # type: ignore[union-attr]
    assert cycle.stale() == ()


def test_same_seed_gives_the_same_plan() -> None:
    pods, claims = a_gang(6, claims=[("net", "1Gi")])
    objects = [*cluster_objects(), *(zone_capacity(zone, "100Gi") for zone in "abc"), *claims]
    plans = [nodes_of(GroupCluster(*objects).decide(pods, 6, seed=7)) for _ in range(2)]
    assert plans[0] == plans[1]


def test_member_is_replanned_beside_its_siblings() -> None:
    pods, objects = three_local()
    cluster = GroupCluster(*objects, local_volume("pv-n5", "n5"))
    cycle = cluster.cycle(pods, 3)
    before = nodes_of(run_to_end(cycle))
    moved = cycle.replan("uid-g-1", avoid=[before["g-1"]])
    assert moved is not None
    assert moved.node not in before.values()
    after = nodes_of(cycle.result)  # type: ignore[arg-type]
    assert after == {**before, "g-1": moved.node}
    assert cycle.replan("uid-g-1", avoid=[moved.node, before["g-1"]]) is None
    assert set(nodes_of(cycle.result)) == {"g-0", "g-2"}  # type: ignore[arg-type]
    assert len(cluster.snapshot.pod_keys) == 2


def test_pinned_members_keep_their_nodes() -> None:
    pods, objects = three_local()
    cluster = GroupCluster(*objects)
    given = GroupInput(pods, 3, pinned={"uid-g-0": "n3", "uid-g-2": "n1"})
    result = run_to_end(GroupCycle(cluster.snapshot, DEFAULT, random.Random(0), given))
    assert nodes_of(result) == {"g-0": "n3", "g-1": "n2", "g-2": "n1"}


@pytest.mark.req("G1.decided")
@pytest.mark.parametrize("quorum", [1, 2], ids=["an extra", "all needed"])
def test_member_is_placed_by_moving_a_sibling(quorum: int) -> None:
    """The first member takes the node that the second one needs; each has resources for one."""
    free, free_claims = a_gang(1, claims=[("local", "5Gi")], cpu="8", prefix="a")
    bound, bound_claims = a_gang(
        1, claims=[("local", "5Gi")], cpu="8", prefix="b", node_selector={well_known.HOSTNAME: "n1"}
    )
    volumes = [local_volume("pv-1", "n1", "5Gi"), local_volume("pv-2", "n2", "50Gi")]
    cluster = GroupCluster(*cluster_objects(), *volumes, *free_claims, *bound_claims)
    assert nodes_of(cluster.decide([*free, *bound], quorum)) == {"a-0": "n2", "b-0": "n1"}


def test_volume_of_wide_reach_is_left_to_the_member_that_needs_it() -> None:
    near, near_claims = a_gang(1, claims=[("local", "5Gi")], prefix="a", node_selector={well_known.HOSTNAME: "n1"})
    far, far_claims = a_gang(1, claims=[("local", "5Gi")], prefix="b", node_selector={well_known.HOSTNAME: "n2"})
    volumes = [zonal_volume("pv-zone", "a", "5Gi"), local_volume("pv-1", "n1", "6Gi")]
    result = GroupCluster(*cluster_objects(), *volumes, *near_claims, *far_claims).decide([*near, *far], 2)
    assert volumes_of(result) == {"c-a-0-0": "pv-1", "c-b-0-0": "pv-zone"}


def test_chain_moves_three_siblings() -> None:
    """Each member but the last can use two nodes, and takes the one that the next one needs."""
    pods: list[Pod] = []
    claims: list[ApiObject] = []
    for number in range(3):
        names = [f"n{number + 1}", f"n{number + 2}"]
        term = {"matchExpressions": [{"key": well_known.HOSTNAME, "operator": "In", "values": names}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
        more, made = a_gang(1, claims=[("local", "5Gi")], cpu="8", prefix=f"m{number}", affinity=affinity)
        pods += more
        claims += made
    last, made = a_gang(1, claims=[("local", "5Gi")], cpu="8", prefix="last", node_selector={well_known.HOSTNAME: "n1"})
    # The smallest volume that does is preferred: each takes the first of its nodes.
    volumes = [local_volume(f"pv-{n}", f"n{n}", f"{4 + n}Gi") for n in range(1, 5)]
    result = GroupCluster(*cluster_objects(), *volumes, *claims, *made).decide([*pods, *last], 4)
    assert nodes_of(result) == {"m0-0": "n2", "m1-0": "n3", "m2-0": "n4", "last-0": "n1"}


def crowded() -> tuple[list[Pod], list[ApiObject]]:
    """Six members of six kinds for five nodes, each of which has resources for one: no bound of a kind shows it, and a
    small member hides it from those of all kinds."""
    names = ("n1", "n2", "n3", "n4", "n5")
    pods, _ = a_gang(1, prefix="small")
    objects = cluster_objects(names=names)
    for number in range(6):
        more, claims = a_gang(1, claims=[("local", f"{1 + number}Gi")], cpu="5", prefix=f"m{number}")
        pods += more
        objects += claims
    objects += [local_volume(f"pv-{node}-{number}", node) for node in names for number in range(6)]
    return pods, objects


def test_search_that_finds_nothing_says_so() -> None:
    pods, objects = crowded()
    cluster = GroupCluster(*objects)
    refusal = refused(cluster.decide(pods, 7))
    assert (refusal.code, refusal.exact) == (RefusalCode.NOT_FOUND, False)
    assert refusal.message == "minCount (7) cannot be satisfied: 6 scheduled, 0 remaining"
    assert refusal.looks < 1.1 * GROUP_LOOKS
    assert not cluster.snapshot.pod_keys
    assert not cluster.snapshot.volumes.assumed_nodes()


def test_search_ends_with_its_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "GROUP_LOOKS", 500)
    pods, objects = crowded()
    refusal = refused(GroupCluster(*objects).decide(pods, 7))
    assert refusal.looks < 500 + len(pods) * (searches.BOUND_LOOKS + 3 * attempts.RUN_LOOKS)
    assert nodes_of(GroupCluster(*objects).decide(pods, 6)), "the first path needs no budget"


def test_members_of_all_kinds_together_lack_resources() -> None:
    pods, objects = crowded()
    refusal = refused(GroupCluster(*objects).decide(pods[1:], 6))
    assert refusal.exact
    assert "cpu" in refusal.resources
    assert refusal.certificate[0].members == 5


class CountingVolumeBinding(VolumeBinding):
    """Counts runs of the filter."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def filter(self, state: CycleState):  # type: ignore[no-untyped-def]  # noqa: ANN201
        self.runs += 1
        return super().filter(state)


def runs_for(members: int, objects: Sequence[ApiObject], pods: Sequence[Pod]) -> int:
    plugin = CountingVolumeBinding()
    plugins = [plugin if one.name == plugin.name else one for one in DEFAULT.plugins]
    profile = single.Profile(plugins)
    result = GroupCluster(*objects).decide(pods, members, profile=profile)
    assert len(nodes_of(result)) == members
    return plugin.runs


@pytest.mark.parametrize("members", [10, 20, 40])
def test_filters_run_once_per_member(members: int) -> None:
    pods, claims = a_gang(members, claims=[("local", "5Gi")])
    nodes = [a_node(name=f"m{number}") for number in range(members)]
    volumes = [local_volume(f"pv-{number}", f"m{number}") for number in range(members)]
    assert runs_for(members, [*cluster_objects(), *nodes, *volumes, *claims], pods) == members + 1


@pytest.mark.parametrize("members", [10, 20, 40])
def test_refusal_runs_filters_once_per_kind(members: int) -> None:
    pods, claims = a_gang(members, claims=[("node", "5Gi")])
    plugin = CountingVolumeBinding()
    plugins = [plugin if one.name == plugin.name else one for one in DEFAULT.plugins]
    cluster = GroupCluster(*cluster_objects(), node_capacity("n1", f"{5 * (members - 1)}Gi"), *claims)
    assert refused(cluster.decide(pods, members, profile=single.Profile(plugins))).exact
    assert plugin.runs == 1


def test_group_without_late_claims_goes_as_single_pods_do() -> None:
    """kube-scheduler's path: members in order, each on the best node beside those before."""
    pods, _ = a_gang(8, cpu="2")
    objects = cluster_objects()
    grouped = nodes_of(GroupCluster(*objects).decide(pods, 8, seed=3))
    cluster = GroupCluster(*objects)
    rng, one_by_one = random.Random(3), {}
    for pod in pods:
        decision = single.run_cycle(CycleState(pod, cluster.snapshot), DEFAULT, rng)
        cluster.snapshot.assume(pod, decision.node)
        one_by_one[pod.name] = decision.node
    assert grouped == one_by_one


def test_group_without_late_claims_ends_where_kube_scheduler_does() -> None:
    """G05's text, and members that were not looked at have no rejection."""
    pods, _ = a_gang(3, cpu="8")
    names = ("n1", "n2")
    refusal = refused(GroupCluster(*cluster_objects(names=names)).decide(pods, 3))
    assert refusal.message == "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert set(refusal.fitted) == {"uid-g-0", "uid-g-1"}
    assert set(refusal.rejected) == {"uid-g-2"}
    pods, _ = a_gang(5, cpu="9")
    refusal = refused(GroupCluster(*cluster_objects()).decide(pods, 4))
    assert refusal.message == "minCount (4) cannot be satisfied: 0 scheduled, 3 remaining"
    assert set(refusal.rejected) == {"uid-g-0", "uid-g-1"}


def test_too_few_members_are_refused_at_once() -> None:
    pods, _ = a_gang(2)
    refusal = refused(GroupCluster(*cluster_objects()).decide(pods, 3))
    assert (refusal.code, refusal.message) == (
        RefusalCode.NOT_ENOUGH_MEMBERS,
        "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
    )


def test_no_node_with_the_label_of_the_constraint_is_no_domain() -> None:
    pods, _ = a_gang(2)
    refusal = refused(GroupCluster(*cluster_objects()).decide(pods, 2, topology_key="example.com/block"))
    assert (refusal.code, refusal.message) == (RefusalCode.NO_DOMAIN, "no feasible placements found")


def test_quorum_that_is_placed_already_takes_extras_as_they_fit() -> None:
    pods, claims = a_gang(3, claims=[("node", "100Gi")])
    cluster = GroupCluster(*cluster_objects(), node_capacity("n1", "110Gi"), *claims)
    result = cluster.decide(pods, 2, placed=["n4", "n5"])
    assert nodes_of(result) == {"g-0": "n1"}


def test_plan_that_stays_stale_is_returned_instead_of_searched_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller rejects it and tries again after a backoff; an endless search would stop the scheduler."""
    rounds = 0

    def stale(_: searches.GroupSearch) -> tuple[str, ...]:
        nonlocal rounds
        rounds += 1
        assert rounds < 10
        return ("uid-g-0",)

    monkeypatch.setattr(searches.GroupSearch, "stale", stale)
    pods, objects = three_local()
    cycle = GroupCluster(*objects).cycle(pods, 3)
    assert isinstance(run_to_end(cycle), GroupPlan)
    assert cycle.stale()
