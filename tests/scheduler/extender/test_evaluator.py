"""What the extender says of nodes: the volume half of the scheduler's own cycle."""

import random
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.kinds import CLAIM, DISRUPTION_BUDGET, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.extender.evaluator import (
    PROVISIONING_FAILED,
    RECHECK_DELAY_SECONDS,
    RECHECK_INTERVAL_SECONDS,
    UNKNOWN_NODE,
    ExtenderEvaluator,
    Filtered,
    PodNotCached,
    RecheckLimiter,
)
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.plugins.gates import VolumeSchedulingDisabled
from mooring.scheduler.plugins.volume_binding import TOO_MANY
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.scoring import CapacityPolicy
from mooring.volumes.state import ConflictReason
from support.builders import (
    Body,
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_node,
    a_pod,
    a_volume,
    claim_ref,
    viewed,
)
from support.builders.drivers import DRIVER
from support.conformance.random_clusters import draw
from support.scheduler.snapshots import a_snapshot

V = TypeVar("V", bound=ApiObject)

NAMES = ("n1", "n2", "n3")
NODES = tuple(a_node(name=name) for name in NAMES)
DISK = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}


def judged(pod: Pod, *objects: ApiObject) -> Filtered:
    verdict = ExtenderEvaluator(
        a_snapshot(*NODES, a_class(), a_class(name="made", provisioner=DRIVER), *objects)
    ).filter(pod, NAMES)
    assert isinstance(verdict, Filtered)
    return verdict


@pytest.mark.req("T33.filter")
@pytest.mark.parametrize(
    ("pod", "objects", "passing", "failed", "unresolvable"),
    [
        pytest.param(a_pod(), (), NAMES, {}, {}, id="a pod without volumes goes anywhere"),
        pytest.param(
            a_pod(claims=["c"]),
            (a_claim(name="c"), a_volume(node="n2")),
            ("n2",),
            {},
            {"n1": ConflictReason.NO_VOLUME, "n3": ConflictReason.NO_VOLUME},
            id="where a volume is",
        ),
        pytest.param(
            a_pod(claims=["c"]),
            (a_claim(name="c", volume="v", bound=True), a_volume(name="v", node="n3")),
            ("n3",),
            {},
            {"n1": ConflictReason.NODE_AFFINITY, "n2": ConflictReason.NODE_AFFINITY},
            id="where its bound volume is",
        ),
        pytest.param(
            a_pod(claims=["c", "d"]),
            (
                *(a_claim(name=name) for name in "cd"),
                *(a_volume(name=f"v{node}", node=node) for node in NAMES),
                a_volume(name="second", node="n1"),
            ),
            ("n1",),
            {},
            {"n2": ConflictReason.NO_VOLUME, "n3": ConflictReason.NO_VOLUME},
            id="all of its claims on one node",
        ),
        pytest.param(
            a_pod(claims=["c", "d"]),
            (
                *(a_claim(name=name, storage_class="made", size="6Gi") for name in "cd"),
                a_driver(tracks_capacity=True),
                *(
                    a_capacity(
                        name=node,
                        topology={"matchLabels": {"kubernetes.io/hostname": node}},
                        capacity=room,
                        largest=room,
                    )
                    for node, room in (("n1", "10Gi"), ("n2", "12Gi"), ("n3", "5Gi"))
                ),
            ),
            ("n2",),
            {},
            {"n1": ConflictReason.STORAGE_CAPACITY, "n3": ConflictReason.STORAGE_CAPACITY},
            id="room for all of them together",
        ),
        pytest.param(
            a_pod(claims=["c"]),
            (
                a_claim(name="c", storage_class="made"),
                a_csi_node(name="n1", limits={DRIVER: 0}),
                a_csi_node(name="n2", limits={DRIVER: 1}),
            ),
            ("n2", "n3"),
            {"n1": TOO_MANY},
            {},
            id="limits count what would be made, and evicting might help",
        ),
        pytest.param(
            a_pod(claims=["c"]),
            (a_claim(name="c", storage_class="now"), a_class(name="now", binding_mode="Immediate")),
            (),
            {},
            dict.fromkeys(NAMES, "pod has unbound immediate PersistentVolumeClaims"),
            id="nowhere",
        ),
    ],
)
def test_filter(
    pod: Pod, objects: tuple[ApiObject, ...], passing: object, failed: object, unresolvable: object
) -> None:
    assert judged(pod, *objects) == Filtered(passing, failed, unresolvable)


def test_a_node_is_hopeless_if_any_plugin_says_so() -> None:
    """No volume there, and too many of them: evicting would make room for what is not there."""
    verdict = judged(
        a_pod(claims=["c", "d"]),
        a_claim(name="c"),
        a_claim(name="d", storage_class="made"),
        a_csi_node(name="n1", limits={DRIVER: 0}),
        a_volume(node="n2"),
    )
    assert verdict == Filtered(("n2",), {}, {"n1": ConflictReason.NO_VOLUME, "n3": ConflictReason.NO_VOLUME})


def test_claims_that_have_not_arrived_give_no_verdict() -> None:
    """kube-scheduler has seen them, or it would not ask: a no could last for minutes."""
    judgement = ExtenderEvaluator(a_snapshot(*NODES, a_class()))
    assert judgement.filter(a_pod(claims=["c"]), NAMES) == PodNotCached('persistentvolumeclaim "c" not found')


def test_nodes_that_have_not_arrived_are_left_out() -> None:
    judgement = ExtenderEvaluator(a_snapshot(*NODES, a_class(), a_claim(name="c"), a_volume(node="n1")))
    assert judgement.filter(a_pod(claims=["c"]), ("n1", "n9")) == Filtered(("n1",), {"n9": UNKNOWN_NODE}, {})
    assert judgement.filter(a_pod(), ("n1", "n9")) == Filtered(("n1", "n9"), {}, {})


@pytest.mark.req("T17.extender")
@pytest.mark.parametrize(
    ("provisioning_failures", "passing", "failed"),
    [
        pytest.param({"n1": 1}, ("n2", "n3"), ["n1"], id="others first"),
        pytest.param({"n1": 2, "n2": 1, "n3": 1}, ("n2", "n3"), ["n1"], id="the least often"),
        pytest.param({"n1": 1, "n2": 1, "n3": 1}, NAMES, [], id="all alike"),
        pytest.param({"n9": 1}, NAMES, [], id="a node that is not asked about"),
    ],
)
def test_nodes_with_failed_provisioning_come_last(
    provisioning_failures: dict[str, int], passing: tuple[str, ...], failed: list[str]
) -> None:
    snapshot = a_snapshot(*NODES, a_class(name="made", provisioner=DRIVER), a_claim(name="c", storage_class="made"))
    verdict = ExtenderEvaluator(snapshot).filter(
        a_pod(claims=["c"]), NAMES, provisioning_failures=provisioning_failures
    )
    assert verdict == Filtered(passing, dict.fromkeys(failed, PROVISIONING_FAILED), {})


def test_gates_put_plugins_before_the_others() -> None:
    snapshot = a_snapshot(*NODES, a_class(), a_claim(name="c"), a_volume(node="n1"))
    verdict = ExtenderEvaluator(snapshot, gate_plugins=[VolumeSchedulingDisabled()]).filter(a_pod(claims=["c"]), NAMES)
    assert isinstance(verdict, Filtered)
    assert verdict.passing == ()
    assert "feature gate VolumeScheduling is off" in verdict.unresolvable["n1"]


@pytest.mark.req("T33.score")
def test_scores_go_from_0_to_10_and_prefer_what_exists_and_fits() -> None:
    snapshot = a_snapshot(
        *NODES,
        a_class(provisioner=DRIVER),
        a_claim(name="c", size="5Gi"),
        a_volume(name="exact", node="n1", size="5Gi"),
        a_volume(name="large", node="n2", size="50Gi"),
    )
    assert ExtenderEvaluator(snapshot).scores(a_pod(claims=["c"]), ("n3", "n2", "n1", "n9")) == [0, 7, 10, 0]


@pytest.mark.parametrize(
    ("policy", "scores"), [(CapacityPolicy.SPREAD, [1, 3]), (CapacityPolicy.PACK, [2, 0])], ids=["spread", "pack"]
)
def test_scores_follow_the_policy(policy: CapacityPolicy, scores: list[int]) -> None:
    rooms = (
        a_capacity(name=node, topology={"matchLabels": {"kubernetes.io/hostname": node}}, capacity=room)
        for node, room in (("n1", "8Gi"), ("n2", "100Gi"))
    )
    claim, storage_class = a_claim(name="c", storage_class="made", size="5Gi"), a_class(name="made", provisioner=DRIVER)
    snapshot = a_snapshot(*NODES, storage_class, a_driver(tracks_capacity=True), claim, *rooms)
    assert ExtenderEvaluator(snapshot, policy=policy).scores(a_pod(claims=["c"]), ("n1", "n2")) == scores


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(), id="no volumes"),
        pytest.param(a_pod(claims=["bound"]), id="all bound"),
        pytest.param(a_pod(claims=["missing"]), id="claim not there"),
    ],
)
def test_no_preference(pod: Pod) -> None:
    snapshot = a_snapshot(*NODES, a_class(), a_claim(name="bound", volume="v", bound=True), a_volume(name="v"))
    assert ExtenderEvaluator(snapshot).scores(pod, NAMES) == [0, 0, 0]


@pytest.mark.req("T22.extender")
def test_no_pod_is_evicted_in_vain() -> None:
    """On n1 there is no volume, on n2 the victim's leaving makes room below the limit, on n3 it does not."""
    resident = a_claim(name="resident", storage_class="made", volume="v", bound=True)
    snapshot = a_snapshot(
        *NODES,
        a_class(name="made", provisioner=DRIVER, allowed_topologies=[{"kubernetes.io/hostname": ["n2", "n3"]}]),
        resident,
        a_claim(name="c", storage_class="made"),
        a_volume(name="v", storage_class="made", source=DISK, claim_ref=claim_ref(name="resident", uid=resident.uid)),
        *(a_csi_node(name=name, limits={DRIVER: 1}) for name in ("n2", "n3")),
        a_pod(name="victim", uid="v2", claims=["resident"], node="n2"),
        a_pod(name="other", uid="v3", claims=["resident"], node="n3"),
        a_pod(name="stays", uid="s3", claims=["resident"], node="n3"),
    )
    victims = {"n1": frozenset({"v1"}), "n2": frozenset({"v2"}), "n3": frozenset({"v3"}), "n9": frozenset({"v9"})}
    judgement = ExtenderEvaluator(snapshot)
    assert judgement.nodes_worth_preempting(a_pod(claims=["c"]), victims) == ["n2"]
    assert judgement.nodes_worth_preempting(a_pod(), victims) == list(victims), "no volumes, no opinion"
    assert judgement.nodes_worth_preempting(a_pod(claims=["missing"]), victims) == []
    assert [pod.uid for pod in snapshot.pods_on("n2")] == ["v2"], "all pods are back"


def test_one_node_is_judged_again_before_binding() -> None:
    snapshot = a_snapshot(*NODES, a_class(), a_claim(name="c"), a_volume(node="n2"))
    judgement = ExtenderEvaluator(snapshot)

    def rejection(pod: Pod, node: str) -> str:
        return judgement.rejection(CycleState(pod, snapshot), node)

    assert rejection(a_pod(claims=["c"]), "n2") == ""
    assert rejection(a_pod(claims=["c"]), "n1") == ConflictReason.NO_VOLUME
    assert rejection(a_pod(claims=["c"]), "n9") == 'node "n9" not found'
    assert rejection(a_pod(claims=["x"]), "n2") == 'persistentvolumeclaim "x" not found'
    assert rejection(a_pod(), "n1") == ""


#: What kube-scheduler decides itself.
REST = Profile(one for one in DEFAULT.plugins if one.name not in ("VolumeBinding", "NodeVolumeLimits"))


def drawn(seed: int) -> tuple[Snapshot, list[Pod]]:
    cluster = draw(seed)
    objects = [view(kind, body) for kind, body in cluster.objects if kind is not DISRUPTION_BUDGET]
    claims = [view(CLAIM, claim) for one in cluster.waiting for claim in one.claims]
    return a_snapshot(*objects, *claims), [view(POD, one.pod) for one in cluster.waiting]


def view(kind: Kind[V], body: Body) -> V:
    return viewed(kind, lambda: body)()


@pytest.mark.req("T33.same-verdict")
@given(seed=st.integers(0, 10_000))
@settings(max_examples=60)
def test_with_the_plugins_kube_scheduler_keeps_it_says_what_our_scheduler_says(seed: int) -> None:
    snapshot, pods = drawn(seed)
    names = tuple(snapshot.topology.names(snapshot.nodes))
    judgement = ExtenderEvaluator(snapshot)
    for pod in pods:
        ours = _feasible(pod, snapshot, DEFAULT, names)
        theirs = _feasible(pod, snapshot, REST, names)
        verdict = judgement.filter(pod, names)
        passing = set() if isinstance(verdict, PodNotCached) else set(verdict.passing)
        assert theirs & passing == ours
        if isinstance(verdict, Filtered):
            assert sorted((*verdict.passing, *verdict.failed, *verdict.unresolvable)) == sorted(names)


def _feasible(pod: Pod, snapshot: Snapshot, profile: Profile, names: tuple[str, ...]) -> set[str]:
    decision = cycle.run_cycle(CycleState(pod, snapshot), profile, random.Random(0))
    if decision.refusals:
        return set()
    rejected = {
        name
        for said in decision.filter_results
        for rejection in said.rejections
        for name in snapshot.topology.names(rejection.nodes)
    }
    return set(names) - rejected


def test_a_quiet_cluster_always_gets_one() -> None:
    looks = RecheckLimiter()
    assert all(looks.take(now) for now in (10.0, 11.0, 60.0))


def test_a_busy_one_waits_a_tenth_of_the_time_at_most() -> None:
    looks = RecheckLimiter()
    taken = sum(looks.take(10.0 + step / 1000) for step in range(10_000))
    assert taken * RECHECK_DELAY_SECONDS <= 10.0 * RECHECK_DELAY_SECONDS / RECHECK_INTERVAL_SECONDS
    assert taken > 0
