"""Volumes that no node can reach, and what hangs on them."""

import pytest

from mooring.api import well_known
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.orphans import Orphan, Orphans, WaitingPod, orphans
from support.builders import Body, claim_body, claim_ref, node_body, pod_body, reachable_from, volume_body

SINCE = "2026-01-02T03:04:05Z"
NODES = [node_body(name="n1", zone="a"), node_body(name="n2", zone="b")]


def found(*documents: Body) -> Orphans:
    objects = ClusterObjects()
    for document in documents:
        objects.add(document)
    return orphans(objects)


def waiting(name: str = "db-0", claim: str = "data") -> Body:
    unplaced = {"type": "PodScheduled", "status": "False", "lastTransitionTime": SINCE}
    return pod_body(name=name, claims=[claim], conditions=[unplaced])


def only(volume: Body, *more: Body) -> Orphan:
    [orphan] = found(*NODES, volume, *more).volumes
    return orphan


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param(volume_body(node="n1"), id="its node is there"),
        pytest.param(volume_body(), id="no affinity at all"),
        pytest.param(volume_body(affinity=reachable_from(well_known.ZONE, "a", "z")), id="one of its zones has a node"),
        pytest.param(volume_body(labels={well_known.ZONE: "b"}), id="a zone by label alone that has a node"),
    ],
)
def test_volumes_that_some_node_reaches_are_none(volume: Body) -> None:
    told = found(*NODES, volume)
    assert told.ok
    assert told.verdict == "Every volume can be reached from a ready node."


@pytest.mark.parametrize(
    ("volume", "where", "missing"),
    [
        pytest.param(volume_body(node="n9"), "kubernetes.io/hostname=n9", ("n9",), id="its node is gone"),
        pytest.param(
            volume_body(affinity=reachable_from(well_known.ZONE, "z")),
            f"{well_known.ZONE}=z",
            (),
            id="no node is in its zone",
        ),
        pytest.param(
            volume_body(labels={well_known.ZONE: "z"}), f"{well_known.ZONE}=z", (), id="a zone by label without nodes"
        ),
        pytest.param(volume_body(affinity={"nodeSelectorTerms": []}), "nowhere", (), id="an affinity without terms"),
    ],
)
def test_volumes_that_no_node_reaches_say_where_they_would_be(
    volume: Body, where: str, missing: tuple[str, ...]
) -> None:
    orphan = only(volume)
    assert (orphan.where, orphan.missing_nodes) == (where, missing)


def test_the_claim_and_the_pods_that_hang_on_it_are_named() -> None:
    volume = volume_body(name="disk", node="n9", claim_ref=claim_ref(name="data", uid="data-uid"), phase="Bound")
    claim = claim_body(name="data", uid="data-uid", volume="disk", bound=True, phase="Bound")
    told = found(*NODES, volume, claim, waiting(), pod_body(name="done", claims=["data"], phase="Succeeded"))
    assert told.verdict == "1 volume cannot be reached from any node; 1 claim and 1 pod are affected."
    [orphan] = told.volumes
    assert orphan.claim is not None
    assert (orphan.claim.claim, orphan.claim.phase) == ("default/data", "Bound")
    assert orphan.claim.pods == (WaitingPod("default/db-0", "Pending", "", SINCE),)
    again = next(each for each in orphan.remedy_texts if "delete pvc" in each)
    assert "kubectl -n default delete pvc data --wait=false && kubectl -n default delete pod db-0" in again


def test_a_later_claim_of_the_name_does_not_wait_for_a_released_volume() -> None:
    volume = volume_body(node="n9", claim_ref=claim_ref(name="data", uid="old"), phase="Released")
    orphan = only(volume, claim_body(name="data", uid="new"))
    assert (orphan.phase, orphan.claim) == ("Released", None)


def test_a_finalizer_that_waits_for_a_driver_is_named() -> None:
    plain = only(volume_body(name="v", node="n9", reclaim="Retain", phase="Released"))
    assert plain.remedy_texts[-1] == (
        "loses the only record of where the storage of v is; the storage itself stays and must be reclaimed manually; "
        "only if no claim needs it again: kubectl delete pv v"
    )
    guard = well_known.EXTERNAL_PROVISIONER
    held = only(
        volume_body(node="n9", reclaim="Delete", finalizers=[guard, well_known.PV_PROTECTION], phase="Released")
    )
    assert held.remedy_texts[-1].startswith("loses all data on volume-1: its driver deletes the storage")


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        pytest.param(
            claim_body(name="data", volume="gone", bound=True, phase="Lost"), "its volume was deleted", id="no volume"
        ),
        pytest.param(
            claim_body(name="data", selected_node="n9"), "its selected node was deleted: n9", id="no selected node"
        ),
    ],
)
def test_claims_without_their_volume_or_node_are_listed_with_their_pods(claim: Body, reason: str) -> None:
    told = found(*NODES, claim, waiting())
    [orphaned] = told.claims
    assert orphaned.reason == reason
    assert [pod.pod for pod in orphaned.pods] == ["default/db-0"]
    assert orphaned.remedy_texts
    assert told.verdict == "1 claim lost its volume or node; 0 claims and 1 pod are affected."


def test_a_claim_with_an_existing_selected_node_is_not_orphaned() -> None:
    assert found(*NODES, claim_body(selected_node="n1")).ok
