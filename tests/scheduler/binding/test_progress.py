"""The rows of upstream's TestCheckBindings, and the check of all volumes before the pod is bound."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from mooring.api import well_known
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiNode, Volume
from mooring.scheduler.binding.progress import InformerLookups, Progress, objects_of, progress_of
from mooring.volumes.binding import BindingPlan, Provisioning, StaticBinding
from support.builders import Body, a_claim, a_csi_node, a_node, a_pod, a_volume, claim_ref

V = TypeVar("V", bound=ApiObject)

DONE = Progress(done=True)
NOT_YET = Progress()

NODE = a_node(name="n1")
POD = a_pod(claims=["claim-1"])
CLAIM = a_claim(version="1")
VOLUME = a_volume(node="n1", version="2")
STATIC = BindingPlan("n1", static=(StaticBinding(CLAIM, VOLUME),))
DYNAMIC = BindingPlan("n1", provision=(Provisioning(CLAIM),))
#: Our own writes, as the API numbered them.
WRITTEN = {"volume-1": 5, "default/claim-1": 5}

REF = claim_ref(uid="claim-1-uid")


def volume(version: str = "5", **changed: object) -> Volume:
    return a_volume(**({"node": "n1", "claim_ref": REF, "version": version} | changed))


def claim(version: str = "6", **changed: object) -> Claim:
    return a_claim(version=version, **changed)


def bound(**changed: object) -> Claim:
    return claim(volume="volume-1", bound=True, **changed)


def lookups(*objects: ApiObject) -> InformerLookups:
    def find(kind: type[V]) -> Callable[[str], V | None]:
        by_key = {item.key: item for item in objects if isinstance(item, kind)}
        return by_key.get

    return InformerLookups(
        pod=find(Pod), node=find(Node), claim=find(Claim), volume=find(Volume), csi_node=find(CsiNode)
    )


def progress(plan: BindingPlan, *objects: ApiObject, pod: Pod = POD) -> Progress:
    return progress_of(pod, plan, written=WRITTEN, lookups=lookups(*objects))


@pytest.mark.req("T16.claimref-cleared", "T16.pv-deleted", "T16.pvc-deleted")
@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([volume(), bound()], DONE, id="bound"),
        pytest.param([volume(), claim(volume="volume-1")], NOT_YET, id="prebound only"),
        pytest.param([volume(), claim()], NOT_YET, id="untouched"),
        pytest.param(
            [volume()], 'failed to check binding: persistentvolumeclaim "claim-1" not found', id="claim deleted"
        ),
        pytest.param(
            [volume(), bound(uid="other")],
            'failed to check binding: persistentvolumeclaim "claim-1" not found',
            id="claim made anew",
        ),
        pytest.param([claim()], 'failed to check binding: persistentvolume "volume-1" not found', id="volume deleted"),
        pytest.param([volume(claim_ref=None), claim()], 'ClaimRef got reset for pv "volume-1"', id="claimRef cleared"),
        pytest.param(
            [volume(claim_ref=claim_ref()), claim()], 'ClaimRef got reset for pv "volume-1"', id="claimRef without uid"
        ),
        pytest.param(
            [volume(claim_ref=claim_ref(name="x", uid="x")), claim()],
            'ClaimRef got reset for pv "volume-1"',
            id="bound to another claim",
        ),
        pytest.param([volume(deleting=True), claim()], 'pv "volume-1" is being deleted', id="volume on its way out"),
        pytest.param([volume(deleting=True), bound()], DONE, id="volume deleted after it was bound"),
        pytest.param([volume("2", claim_ref=None), claim()], NOT_YET, id="our write is not seen yet"),
        pytest.param([volume("2", claim_ref=None), bound()], NOT_YET, id="the claim is seen before our own write"),
        pytest.param(
            [volume(node="n2"), bound()],
            'pv "volume-1" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            id="the node does not reach it any more",
        ),
    ],
)
def test_static(objects: list[ApiObject], want: Progress | str) -> None:
    assert progress(STATIC, NODE, POD, *objects) == (Progress(problem=want) if isinstance(want, str) else want)


@pytest.mark.req("T16.selected-node-cleared", "T16.selected-node-changed", "T16.pvc-deleted")
@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([volume(), bound(selected_node="n1")], DONE, id="bound"),
        pytest.param([claim(selected_node="n1")], NOT_YET, id="nothing made yet"),
        pytest.param([], 'failed to check provisioning pvc: persistentvolumeclaim "claim-1" not found', id="deleted"),
        pytest.param(
            [claim()],
            Progress(problem='selectedNode annotation reset for PVC "claim-1"', provisioning_failed=True),
            id="selected node dropped",
        ),
        pytest.param([claim("1")], NOT_YET, id="our write is not seen yet"),
        pytest.param(
            [claim(selected_node="n2")],
            Progress(problem='provisioning failed for PVC "claim-1"', provisioning_failed=True),
            id="another node selected",
        ),
        pytest.param([bound(selected_node="n1")], NOT_YET, id="bound to a volume that is not seen yet"),
        pytest.param(
            [volume(node="n2"), bound(selected_node="n1")],
            'pv "volume-1" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            id="made for another node",
        ),
    ],
)
def test_provisioned(objects: list[ApiObject], want: Progress | str) -> None:
    assert progress(DYNAMIC, NODE, POD, *objects) == (Progress(problem=want) if isinstance(want, str) else want)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([POD], 'failed to get node "n1": node "n1" not found', id="the node is gone"),
        pytest.param([NODE], 'pod does not exist any more: pod "pod-1" not found', id="the pod is gone"),
        pytest.param(
            [NODE, a_pod(claims=["claim-1"], uid="other")],
            'pod does not exist any more: pod "pod-1" not found',
            id="another pod has its name",
        ),
    ],
)
def test_nothing_goes_on_without_pod_and_node(objects: list[ApiObject], want: str) -> None:
    assert progress(STATIC, volume(), bound(), *objects) == Progress(problem=want)


@pytest.mark.req("T47.affinity")
@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([volume(), bound()], DONE, id="as it was"),
        pytest.param([bound()], 'persistentvolumeclaim "claim-1" is not bound any more', id="its volume is gone"),
        pytest.param([volume()], 'persistentvolumeclaim "claim-1" not found', id="it is gone"),
        pytest.param([volume(), claim()], 'persistentvolumeclaim "claim-1" is not bound any more', id="it was unbound"),
        pytest.param(
            [volume(node="n2"), bound()],
            'pv "volume-1" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            id="the node does not reach it any more",
        ),
        pytest.param(
            [volume(claim_ref=claim_ref(uid="other")), bound()],
            'pv "volume-1" belongs to another claim than "claim-1"',
            id="its volume was given away",
        ),
        pytest.param([volume(claim_ref=None), bound()], NOT_YET, id="the volume is seen late"),
    ],
)
def test_claims_bound_before_are_checked_again(objects: list[ApiObject], want: Progress | str) -> None:
    plan = BindingPlan("n1")
    assert progress(plan, NODE, POD, *objects) == (Progress(problem=want) if isinstance(want, str) else want)


GCE: Body = {"gcePersistentDisk": {"pdName": "disk"}}
RBD: Body = {"rbd": {"monitors": ["m"], "image": "i"}}
IN_EAST = a_node(name="n1", labels={"topology.gke.io/zone": "east"})
MIGRATED = a_csi_node(name="n1", migrated="kubernetes.io/gce-pd")
MISMATCH = Progress(problem='pv "volume-1" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms')


def disk(zone: str, source: Body) -> Volume:
    return a_volume(labels={well_known.ZONE_BETA: zone}, source=source, claim_ref=REF, version="5")


@pytest.mark.req("T47.affinity")
@pytest.mark.parametrize(
    ("plan", "objects", "want"),
    [
        pytest.param(
            DYNAMIC, [MIGRATED, disk("east", GCE), bound(selected_node="n1")], DONE, id="made in the zone of the node"
        ),
        pytest.param(STATIC, [MIGRATED, disk("east", GCE), claim()], NOT_YET, id="given, in the zone of the node"),
        pytest.param(STATIC, [disk("west", GCE), bound()], DONE, id="the node has said nothing of drivers"),
        pytest.param(
            STATIC, [a_csi_node(name="n1"), disk("west", GCE), bound()], DONE, id="no driver took the disk over"
        ),
        pytest.param(STATIC, [MIGRATED, disk("west", GCE), bound()], MISMATCH, id="in another zone"),
        pytest.param(STATIC, [MIGRATED, disk("west", RBD), bound()], DONE, id="a disk that no driver could take over"),
    ],
)
def test_disks_that_drivers_took_over(plan: BindingPlan, objects: list[ApiObject], want: Progress) -> None:
    assert progress(plan, IN_EAST, POD, *objects) == want


@pytest.mark.req("T47.zone")
def test_a_beta_zone_of_a_volume_is_met_by_the_zone_of_its_node() -> None:
    zonal = volume(labels={well_known.ZONE_BETA: "west"})

    assert not progress(STATIC, a_node(name="n1", zone="west"), POD, zonal, bound()).problem
    assert progress(STATIC, a_node(name="n1", zone="east"), POD, zonal, bound()).problem


@pytest.mark.req("T47.zone")
def test_zone_labels_are_looked_at_again() -> None:
    node = a_node(name="n1", zone="west")
    zonal = volume(labels={well_known.ZONE: "east"})

    assert progress(STATIC, node, POD, zonal, bound()).problem == 'pv "volume-1" zone labels don\'t match node "n1"'


def test_a_problem_counts_more_than_something_to_wait_for() -> None:
    """Upstream stops at the first thing to wait for and learns of the problem later."""
    other = a_claim(name="claim-2")
    plan = BindingPlan("n1", static=(StaticBinding(CLAIM, VOLUME),), provision=(Provisioning(other),))
    pod = a_pod(claims=["claim-1", "claim-2"])

    assert progress(plan, NODE, pod, volume(), claim(), pod=pod).problem


def test_everything_that_can_move_it_is_listened_to() -> None:
    assert objects_of(POD, STATIC, lookups(claim(volume="surprise"))) == {
        ("Pod", "default/pod-1"),
        ("Node", "n1"),
        ("PersistentVolumeClaim", "default/claim-1"),
        ("PersistentVolume", "volume-1"),
        ("PersistentVolume", "surprise"),
    }
