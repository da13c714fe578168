import pytest

from mooring.api.views.meta import ApiObject
from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.volumes.binding import UNBOUND_IMMEDIATE, BindingPlan
from mooring.volumes.state import ConflictReason
from support.builders import a_claim, a_class, a_node, a_pod, a_volume
from support.scheduler.snapshots import a_snapshot, refused, rejected, requeues, unresolvable

NODES = (a_node(name="n1"), a_node(name="n2"), a_node(name="n3"))
POD = a_pod(claims=["claim-1"])
BOUND = a_claim(volume="volume-1", bound=True)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([], 'persistentvolumeclaim "claim-1" not found', id="no such claim"),
        pytest.param([a_claim(storage_class=None)], UNBOUND_IMMEDIATE, id="binding mode Immediate"),
        pytest.param([a_class(), a_claim()], None, id="bound late"),
        pytest.param([BOUND], None, id="bound"),
        pytest.param([a_claim(deleting=True)], 'persistentvolumeclaim "claim-1" is being deleted', id="going away"),
        pytest.param(
            [a_claim(volume="volume-1", bound=True, phase="Lost")],
            'persistentvolumeclaim "claim-1" bound to non-existent persistentvolume "volume-1"',
            id="bound to a volume that is gone, and known to be lost",
        ),
    ],
)
def test_claims_that_rule_out_every_node(objects: list[ApiObject], want: str | None) -> None:
    assert refused(VolumeBinding(), POD, a_snapshot(*NODES, *objects)) == want


def test_invalid_size_is_refused_with_the_reason() -> None:
    said = refused(VolumeBinding(), POD, a_snapshot(*NODES, a_class(), a_claim(size="big")))

    assert said is not None
    assert 'quantity "big"' in said


@pytest.mark.req("T7.filter")
@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param(
            [BOUND, a_volume(node="n2")], {ConflictReason.NODE_AFFINITY: {"n1", "n3"}}, id="bound to a local volume"
        ),
        pytest.param([BOUND, a_volume()], {}, id="bound to a volume that all nodes reach"),
        pytest.param([BOUND], {ConflictReason.VOLUME_MISSING: {"n1", "n2", "n3"}}, id="bound to a volume that is gone"),
        pytest.param(
            [a_class(), a_claim(), a_volume(node="n3")],
            {ConflictReason.NO_VOLUME: {"n1", "n2"}},
            id="one node has a volume for it",
        ),
    ],
)
def test_nodes_that_volumes_rule_out(objects: list[ApiObject], want: dict[str, set[str]]) -> None:
    snapshot = a_snapshot(*NODES, *objects)

    assert rejected(VolumeBinding(), POD, snapshot) == want
    assert unresolvable(VolumeBinding(), POD, snapshot) == {node for nodes in want.values() for node in nodes}


def test_two_reasons_at_once() -> None:
    objects = (BOUND, a_volume(node="n3", phase="Bound"), a_class(), a_claim(name="claim-2"))
    snapshot = a_snapshot(a_node(name="n1"), *objects)

    found = rejected(VolumeBinding(), a_pod(claims=["claim-1", "claim-2"]), snapshot)

    assert list(found.items()) == [(ConflictReason.NODE_AFFINITY, {"n1"}), (ConflictReason.NO_VOLUME, {"n1"})]


def test_one_of_two_claims_missing() -> None:
    said = refused(VolumeBinding(), a_pod(claims=["claim-1", "claim-2"]), a_snapshot(*NODES, BOUND))

    assert said == 'persistentvolumeclaim "claim-2" not found'


def test_a_pod_without_claims_is_none_of_its_business() -> None:
    assert rejected(VolumeBinding(), a_pod(), a_snapshot(*NODES)) == {}


@pytest.mark.req("T11.chosen-node", "T13.later-decisions", "T13.restored")
def test_the_plan_is_for_the_chosen_node_and_what_it_promises_is_taken_until_given_back() -> None:
    snapshot = a_snapshot(
        *NODES,
        a_class(),
        a_claim(),
        a_claim(name="claim-2"),
        a_volume(name="on-1", node="n1"),
        a_volume(name="on-2", node="n2"),
    )
    cycle = CycleState(POD, snapshot)
    assert VolumeBinding().prefilter(cycle) is None
    plan = VolumeBinding().reserve(cycle, "n2")
    [binding] = plan.static
    assert (plan.node, binding.claim.name, binding.volume.name) == ("n2", "claim-1", "on-2")

    other = a_pod(name="other", claims=["claim-2"])
    assert rejected(VolumeBinding(), other, snapshot) == {ConflictReason.NO_VOLUME: {"n2", "n3"}}
    for _ in range(2):
        snapshot.volumes.restore(plan)
        assert rejected(VolumeBinding(), other, snapshot) == {ConflictReason.NO_VOLUME: {"n3"}}


def test_nothing_is_promised_for_claims_that_are_bound() -> None:
    cycle = CycleState(POD, a_snapshot(*NODES, BOUND, a_volume()))
    VolumeBinding().prefilter(cycle)

    assert VolumeBinding().reserve(cycle, "n1") == BindingPlan("n1")


@pytest.mark.req("T26.volumes")
@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(cluster_events.claim_event(None, a_claim()), True, id="its claim appears"),
        pytest.param(cluster_events.claim_event(a_claim(), BOUND), True, id="its claim is bound"),
        pytest.param(
            cluster_events.claim_event(a_claim(), a_claim(labels={"x": "y"})), False, id="its claim is labelled"
        ),
        pytest.param(cluster_events.claim_event(None, a_claim(name="other")), False, id="another claim appears"),
        pytest.param(
            cluster_events.claim_event(None, a_claim(namespace="other")), False, id="one of that name elsewhere"
        ),
        pytest.param(cluster_events.claim_event(a_claim(), None), False, id="its claim goes"),
        pytest.param(cluster_events.volume_event(None, a_volume()), True, id="a volume appears"),
        pytest.param(
            cluster_events.volume_event(a_volume(phase="Pending"), a_volume()), True, id="a volume gets available"
        ),
        pytest.param(cluster_events.volume_event(a_volume(), a_volume(version="2")), False, id="a volume without news"),
        pytest.param(cluster_events.volume_event(a_volume(), None), False, id="a volume goes"),
        pytest.param(cluster_events.class_event(None, a_class()), True, id="a class appears"),
        pytest.param(
            cluster_events.class_event(a_class(), a_class(allowed_topologies=[{"zone": ["a"]}])),
            True,
            id="a class allows other places",
        ),
        pytest.param(
            cluster_events.class_event(a_class(), a_class(labels={"x": "y"})), False, id="a class is labelled"
        ),
        pytest.param(cluster_events.node_event(None, a_node()), True, id="a node appears"),
        pytest.param(cluster_events.node_event(a_node(), a_node(labels={"x": "y"})), True, id="a node is relabelled"),
        pytest.param(cluster_events.node_event(a_node(), a_node(unschedulable=True)), False, id="a node is cordoned"),
        pytest.param(
            cluster_events.pod_event(a_pod(name="other", node="n"), None), False, id="a pod goes: volumes stay taken"
        ),
    ],
)
def test_wakes(change: ClusterEvent | None, want: bool) -> None:
    assert requeues(VolumeBinding(), POD, change, a_class(), a_claim()) is want


@pytest.mark.req("T26.volumes")
def test_the_claim_of_an_ephemeral_volume_wakes_its_pod() -> None:
    pod = a_pod(ephemeral=["scratch"])

    assert requeues(VolumeBinding(), pod, cluster_events.claim_event(None, a_claim(name="pod-1-scratch")))
    assert not requeues(VolumeBinding(), pod, cluster_events.claim_event(None, a_claim(name="scratch")))
