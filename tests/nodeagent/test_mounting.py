"""Why a node cannot mount a pod's volumes yet."""

from typing import Any

import pytest

from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.nodeagent.admission import StorageLookup, mount_blocker
from support.builders import a_claim, a_class, a_node, a_pod, a_volume, claim_ref, owned_by, pod_body, reachable_from

NODE = a_node(name="node-1", zone="a")
POD = a_pod(claims=["claim-1"], node="node-1")
BOUND = a_claim(volume="volume-1", bound=True)
MINE = claim_ref(uid="claim-1-uid")


def storing(*things: Claim | Volume | StorageClass) -> StorageLookup:
    claims = {thing.key: thing for thing in things if isinstance(thing, Claim)}
    volumes = {thing.name: thing for thing in things if isinstance(thing, Volume)}
    classes = {thing.name: thing for thing in things if isinstance(thing, StorageClass)}
    return StorageLookup(claims.get, volumes.get, classes.get)


PREFIX = (
    "Unable to attach or mount volumes: unmounted volumes=[data-0], unattached volumes=[], "
    "failed to process volumes=[data-0]: error processing PVC default/claim-1: "
)


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param(
            [], 'failed to fetch PVC from API server: persistentvolumeclaim "default/claim-1" not found', id="no claim"
        ),
        pytest.param([a_claim(deleting=True)], "PVC is being deleted", id="the claim is being deleted"),
        pytest.param([a_claim(volume="volume-1")], "PVC is not bound", id="binding is not finished"),
        pytest.param(
            [a_claim(volume="volume-1", bound=True, phase="Lost")], "PVC is not bound", id="its volume was lost"
        ),
        pytest.param([BOUND], "PV volume-1 is not bound to this claim", id="the volume is not known"),
        pytest.param([BOUND, a_volume()], "PV volume-1 is not bound to this claim", id="the volume forgot its claim"),
        pytest.param(
            [BOUND, a_volume(claim_ref=claim_ref(uid="other"))],
            "PV volume-1 is not bound to this claim",
            id="the volume is another claim's",
        ),
    ],
)
def test_claims_that_cannot_be_mounted(things: list[Any], want: str) -> None:
    assert mount_blocker(POD, NODE, storing(*things)) == f"{PREFIX}{want}"


@pytest.mark.parametrize(
    ("given", "mode", "names_node"),
    [
        pytest.param({}, "WaitForFirstConsumer", True, id="the class waits for the scheduler"),
        pytest.param({}, "Immediate", False, id="the class does not wait"),
        pytest.param({"volume": "volume-1"}, "WaitForFirstConsumer", False, id="the user named a volume"),
    ],
)
@pytest.mark.req("T34.preset")
def test_preset_node_of_a_delayed_claim_is_named_as_the_reason(
    given: dict[str, Any], mode: str, names_node: bool
) -> None:
    storage = storing(a_claim(**given), a_class(binding_mode=mode))
    why = mount_blocker(POD, NODE, storage)
    assert why is not None
    assert why.startswith(f"{PREFIX}PVC is not bound")
    assert ("this pod's nodeName was set without the scheduler" in why) is names_node


@pytest.mark.parametrize(
    ("volume", "fits"),
    [
        pytest.param(a_volume(claim_ref=MINE), True, id="reachable from everywhere"),
        pytest.param(a_volume(claim_ref=MINE, node="node-1"), True, id="local to the node"),
        pytest.param(a_volume(claim_ref=MINE, node="node-2"), False, id="local to another node"),
        pytest.param(
            a_volume(claim_ref=MINE, affinity=reachable_from("topology.kubernetes.io/zone", "a", "b")),
            True,
            id="in one of its zones",
        ),
        pytest.param(a_volume(claim_ref=MINE, affinity={"nodeSelectorTerms": []}), False, id="reachable from nowhere"),
    ],
)
@pytest.mark.req("T8.refused")
def test_volume_must_be_reachable_from_the_node(volume: Volume, fits: bool) -> None:
    why = mount_blocker(POD, NODE, storing(BOUND, volume))
    text = 'MountVolume.NodeAffinity check failed for volume "volume-1" : no matching NodeSelectorTerms'
    assert why == (None if fits else text)


def test_every_volume_is_looked_at() -> None:
    pod = a_pod(claims=["claim-1", "claim-2"], node="node-1", volumes=[{"name": "tmp", "emptyDir": {}}])
    storage = storing(BOUND, a_volume(claim_ref=MINE), a_claim(name="claim-2"))
    why = mount_blocker(pod, NODE, storage)
    assert why is not None
    assert "default/claim-2: PVC is not bound" in why


@pytest.mark.parametrize(
    ("owner_uid", "fits"),
    [pytest.param("pod-1-uid", True, id="made for it"), pytest.param("other", False, id="made for an earlier pod")],
)
def test_ephemeral_claim_must_be_the_pods_own(owner_uid: str, fits: bool) -> None:
    name = "pod-1-scratch"
    owners = [owned_by(pod_body(), uid=owner_uid)]
    claim = a_claim(name=name, uid="claim-1-uid", volume="volume-1", bound=True, owners=owners)
    why = mount_blocker(a_pod(ephemeral=["scratch"], node="node-1"), NODE, storing(claim, a_volume(claim_ref=MINE)))
    assert (why is None) is fits
    if why is not None:
        assert f"PVC default/{name} was not created for pod default/pod-1 (pod is not owner)" in why
