"""Which few moves make room for a pending pod, and what is never moved."""

import random

import pytest

from mooring.api import well_known
from mooring.explain.remedies import data_loss
from mooring.whatif.inventory import BadQuestion
from mooring.whatif.question import Moves, WhatIfQuestion
from mooring.whatif.rebalance import MAX_DECISIONS, RebalancePlan, SimulatedState, plan_moves
from mooring.whatif.run import state_with
from support.builders import Body, claim_body, claim_ref, pod_body, volume_body
from support.whatif.questions import (
    DRIVER,
    inventory,
    local_set,
    nodes,
    pool,
    provisioned_class,
    replica_set,
    running,
)

WEB = replica_set(replicas=6, uid="web-uid")


def planned(*documents: Body, pod: str = "default/big", most: int = 3) -> RebalancePlan:
    question = WhatIfQuestion(inventory(documents))
    return plan_moves(pod, lambda moves: state_with(question, moves), most=most)


def big(cpu: str = "3", **more: object) -> Body:
    """A pod that waits."""
    return pod_body(name="big", uid="big-uid", requests={"cpu": cpu}, phase="Pending", **more)  # type: ignore[arg-type]  # fields of the builder


def web(name: str, node: str, **more: object) -> Body:
    return running(f"web-{name}", node=node, owner=WEB, **more)


def moved(plan: RebalancePlan) -> list[str]:
    return [each.pod.partition("/")[2] for each in plan.moves]


#: Two nodes of four CPUs: two are free on either.
HALF_FULL = [
    *nodes(2),
    replica_set(replicas=4, uid="web-uid"),
    web("a", "n1"),
    web("b", "n1"),
    web("c", "n2"),
    web("d", "n2"),
]


def test_one_move_is_enough() -> None:
    plan = planned(*HALF_FULL, big("3"))
    assert plan.ok
    assert len(plan.moves) == 1
    (move,) = plan.moves
    assert move.node == plan.node
    assert (move.to, move.successor != "") == ("n2" if plan.node == "n1" else "n1", True)
    assert plan.verdict == f"default/big runs on {plan.node} after 1 move: {move.pod}."
    assert plan.steps == (
        f"kubectl cordon {plan.node}",
        data_loss.reschedule(move.pod),
        "wait until their successors run on other nodes",
        f"kubectl uncordon {plan.node}",
    )
    assert not plan.result.pending


def test_largest_pods_are_moved_so_that_moves_are_few() -> None:
    owner = replica_set(replicas=3, uid="web-uid")
    small = [running(f"web-{name}", node="n1", owner=owner) for name in "ab"]
    owned = running("web-c", node="n1", owner=owner)
    owned["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    wanted = big("2", node_selector={well_known.HOSTNAME: "n1"})
    plan = planned(*nodes(2), owner, *small, owned, lone_pod("n2", "2"), wanted)
    assert (moved(plan), plan.node) == (["web-c"], "n1")


def lone_pod(node: str, cpu: str, name: str = "lone", **more: object) -> Body:
    """A pod without a controller, which never moves."""
    return pod_body(name=name, uid=f"{name}-uid", node=node, phase="Running", requests={"cpu": cpu}, **more)  # type: ignore[arg-type]  # fields of the builder


def test_pod_with_its_volume_on_a_full_node_gets_its_place_back() -> None:
    """The usual reason to ask: the data cannot move, other pods can."""
    owner = replica_set(replicas=4, uid="web-uid")
    there = [running(f"web-{name}", node="n1", owner=owner) for name in "abcd"]
    claim = claim_body(name="data", uid="data-uid", volume="disk", bound=True, phase="Bound", storage_class="local")
    disk = volume_body(
        name="disk", uid="disk-uid", node="n1", claim_ref=claim_ref(name="data", uid="data-uid"), phase="Bound"
    )
    plan = planned(*nodes(2), owner, *there, claim, disk, big("2", claims=["data"]))
    assert (plan.ok, plan.node, len(plan.moves)) == (True, "n1", 2)
    assert all(each.to == "n2" for each in plan.moves)


def test_moved_pods_take_their_zonal_volumes_along() -> None:
    """Its volume can be used in the zone, which has one more node: the other zone's empty node does not count."""
    members = local_set("n1")
    for body in members:
        if body["kind"] == "PersistentVolume":
            term = {"key": well_known.ZONE, "operator": "In", "values": ["a"]}
            body["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    there = [*nodes(3, zones="aab"), *members, lone_pod("n1", "1"), lone_pod("n3", "4", "other")]
    plan = planned(*there, big("3", node_selector={well_known.HOSTNAME: "n1"}))
    assert (moved(plan), plan.moves[0].to, plan.moves[0].successor) == (["db-0"], "n2", "")


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ds", "uid": "ds-uid"}}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default", "uid": "budget-uid"},
    "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2},
}
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}

#: What is on n1, and why it stays there.
IMMOVABLE: dict[str, tuple[list[Body], str]] = {
    "pod without a controller": ([lone_pod("n1", "1")], "it has no controller that recreates it"),
    "mirror pod": (
        [lone_pod("n1", "1", annotations={"kubernetes.io/config.mirror": "x"})],
        "it belongs to its node",
    ),
    "pod of a DaemonSet": ([running("lone", node="n1", owner=DAEMON)], "it belongs to its node"),
    "local volume": (local_set("n1"), "no other node can use its volume disk-0"),
    "higher priority": ([web("a", "n1", priority=10)], "its priority 10 is higher than 0"),
    "annotation": ([web("a", "n1", annotations=STAYS)], f"its annotation {next(iter(STAYS))} is false"),
    "pod of a Job": (
        [web("a", "n1", more_spec={"restartPolicy": "OnFailure"})],
        "it runs to completion and would begin again",
    ),
    "budget at its limit": ([web("a", "n1"), BUDGET], "its PodDisruptionBudget allows no disruption"),
}


@pytest.mark.parametrize(("there", "reason"), IMMOVABLE.values(), ids=IMMOVABLE)
def test_pods_that_cannot_move_are_never_named(there: list[Body], reason: str) -> None:
    """n2 has room for every pod of n1."""
    of_web = sum(body["metadata"]["name"].startswith("web-") for body in there)
    owner = replica_set(replicas=1 + of_web, uid="web-uid")
    other = replica_set("free", replicas=1, uid="free-uid")
    free = running("free-a", node="n1", owner=other)
    here = [*nodes(2), owner, web("z", "n2"), *there, other, free]
    selected = {"node_selector": {well_known.HOSTNAME: "n1"}}
    plan = planned(*here, big("4", **selected))
    assert (plan.ok, plan.moves, plan.node) == (False, (), "")
    assert [each.reason for each in plan.immovable] == [reason]
    assert plan.limits[0].nodes == ("n1",)
    assert plan.verdict.startswith("No plan with at most 3 moves lets default/big run: pods that cannot move")
    assert moved(planned(*here, big("3", **selected))) == ["free-a"], "the other one can"


def test_moves_beyond_the_limit_are_no_plan() -> None:
    owner = replica_set(replicas=4, uid="web-uid")
    there = [running(f"web-{name}", node="n1", owner=owner) for name in "abcd"]
    wanted = big("4", node_selector={well_known.HOSTNAME: "n1"})
    plan = planned(*nodes(2), owner, *there, wanted)
    assert not plan.ok
    assert "more than 3 moves would be needed" in plan.verdict
    assert planned(*nodes(2), owner, *there, wanted, most=4).ok


def test_pods_without_another_place_stay() -> None:
    plan = planned(*HALF_FULL, lone_pod("n2", "2"), big("3", node_selector={well_known.HOSTNAME: "n1"}))
    assert not plan.ok
    assert {each.reason for each in plan.immovable if each.node == "n1"} == {"no other node has a place for it"}


def test_two_pods_of_a_budget_for_one_do_not_both_move() -> None:
    owner = replica_set(replicas=3, uid="web-uid")
    there = [running(f"web-{name}", node=node, owner=owner) for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"))]
    status = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    budget = BUDGET | {"status": status}
    selected = {"node_selector": {well_known.HOSTNAME: "n1"}}
    assert not planned(*nodes(2), owner, *there, budget, big("4", **selected)).ok
    assert len(planned(*nodes(2), owner, *there, budget, big("3", **selected)).moves) == 1


def test_ephemeral_volumes_give_their_capacity_back() -> None:
    """The pool of n1 is used up by a volume that is deleted with its pod; the pod's own volume has to be there."""
    owner = replica_set(replicas=1, uid="web-uid")
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}}
    template["spec"]["resources"] = {"requests": {"storage": "2Gi"}}  # type: ignore[assignment]
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    owner["spec"]["template"]["spec"]["volumes"] = [scratch]
    user = running("web-a", node="n1", owner=owner, volumes=[scratch])
    claim = claim_body(
        name="web-a-scratch",
        uid="c-uid",
        volume="disk",
        bound=True,
        phase="Bound",
        storage_class="fast",
        size="2Gi",
        owners=[{"apiVersion": "v1", "kind": "Pod", "name": "web-a", "uid": "web-a-uid", "controller": True}],
    )
    disk = volume_body(
        name="disk",
        uid="disk-uid",
        node="n1",
        claim_ref=claim_ref(name="web-a-scratch", uid="c-uid"),
        phase="Bound",
        storage_class="fast",
        size="2Gi",
        source={"csi": {"driver": DRIVER, "volumeHandle": "disk"}},
        annotations={well_known.PROVISIONED_BY: DRIVER},
        reclaim="Delete",
    )
    wanted = claim_body(name="data", storage_class="fast", size="2Gi")
    selected = {"node_selector": {well_known.HOSTNAME: "n1"}}
    there = [*nodes(2), *provisioned_class(), pool("n1", "0"), pool("n2", "4Gi"), owner, user, claim, disk, wanted]
    plan = planned(*there, big("1", claims=["data"], **selected))
    assert (moved(plan), plan.node, plan.moves[0].to) == (["web-a"], "n1", "n2")


def test_pod_that_runs_needs_no_moves() -> None:
    plan = planned(*nodes(1), big("1"))
    assert (plan.ok, plan.moves, plan.verdict) == (True, (), "default/big needs no moves: it runs on n1.")


def test_unknown_pod_is_refused() -> None:
    with pytest.raises(BadQuestion, match="pod default/none to rebalance for not found"):
        planned(*nodes(1), pod="default/none")


def test_reason_that_no_move_changes_is_named() -> None:
    plan = planned(*HALF_FULL, big("1", node_selector={"disk": "ssd"}))
    assert not plan.ok
    assert [(each.nodes, "affinity" in each.reason) for each in plan.limits] == [(("n1", "n2"), True)]


def test_plan_that_fails_in_the_run_is_not_printed() -> None:
    """Another pending pod of higher priority takes the place."""
    rival = pod_body(
        name="rival", uid="rival-uid", requests={"cpu": "3"}, priority=100, more_spec={"preemptionPolicy": "Never"}
    )
    plan = planned(*HALF_FULL, rival, big("3"))
    assert not plan.ok
    assert plan.runs == 3
    assert all("default/big stays pending" in each.reason for each in plan.limits)


@pytest.mark.parametrize("seed", range(12))
def test_every_plan_lets_the_pod_and_all_others_run(seed: int) -> None:
    """Random clusters; what is promised holds in a run of its own, without the pods named as immovable."""
    rng = random.Random(seed)
    count = rng.randint(2, 4)
    owner = replica_set(replicas=0, uid="web-uid")
    pods: list[Body] = []
    free = dict.fromkeys((f"n{number + 1}" for number in range(count)), 4)
    for number in range(rng.randint(count, 3 * count)):
        node = rng.choice([name for name, left in free.items() if left > 0])
        free[node] -= 1
        pods.append(rng.choice([web(str(number), node), lone_pod(node, "1", f"lone-{number}")]))
    owner["spec"]["replicas"] = sum("ownerReferences" in pod["metadata"] for pod in pods)
    documents = [*nodes(count), owner, *pods, big(str(rng.randint(2, 4)))]
    plan = planned(*documents)
    assert plan.ok or plan.limits
    immovable = {each.pod for each in plan.immovable}
    assert not immovable & {each.pod for each in plan.moves}
    if plan.moves:
        moves = Moves(plan.moves[0].node, tuple(each.pod for each in plan.moves))
        result = state_with(WhatIfQuestion(inventory(documents)), moves).result
        assert not (result.pending)
        assert not (result.lost)
        assert not (result.blocked)
        assert not (result.shortfalls)


def test_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty full nodes of forty pods each: halving, not trying one by one."""
    from mooring.explain.remedies.verification import Trials

    owner = replica_set(replicas=0, uid="web-uid")
    count, each = 40, 40
    pods = []
    for node in range(count):
        for number in range(each):
            pod = running(f"web-{node}-{number}", node=f"n{node + 1}", owner=owner)
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
            pods.append(pod)
    owner["spec"]["replicas"] = len(pods)
    question = WhatIfQuestion(inventory([*nodes(count), owner, *pods, big("200m")]))
    begin = state_with(question, None)
    used: list[int] = []
    fits = Trials.fits

    def counted(self: Trials, *args: object, **more: object) -> bool:
        used.append(1)
        return fits(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Trials, "fits", counted)

    def simulate(moves: Moves | None) -> SimulatedState:
        return begin

    plan = plan_moves("default/big", simulate)
    assert not plan.ok
    assert 0 < len(used) < MAX_DECISIONS
    assert len(used) <= 32 * 3 * 16
