"""Why a node cannot mount a pod's volumes yet."""

from typing import Any

import pytest

from builders import a_claim, a_class, a_node, a_pod, a_volume, claim_ref, owned_by, pod_body, reachable_from
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.nodeagent.mounting import Storage, obstacle

NODE = a_node(name="node-1", zone="a")
POD = a_pod(claims=["claim-1"], node="node-1")
BOUND = a_claim(volume="volume-1", bound=True)
MINE = claim_ref(uid="claim-1-uid")


def storing(*things: Claim | Volume | StorageClass) -> Storage:
    claims = {thing.key: thing for thing in things if isinstance(thing, Claim)}
    volumes = {thing.name: thing for thing in things if isinstance(thing, Volume)}
    classes = {thing.name: thing for thing in things if isinstance(thing, StorageClass)}
    return Storage(claims.get, volumes.get, classes.get)


PREFIX = (
    "Unable to attach or mount volumes: unmounted volumes=[data-0], unattached volumes=[], "
    "failed to process volumes=[data-0]: error processing PVC default/claim-1: "
)


@pytest.mark.parametrize(
    ("things", "wanted"),
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
def test_claims_that_cannot_be_mounted(things: list[Any], wanted: str) -> None:
    assert obstacle(POD, NODE, storing(*things)) == f"{PREFIX}{wanted}"


@pytest.mark.parametrize(
    ("given", "mode", "told"),
    [
        pytest.param({}, "WaitForFirstConsumer", True, id="the class waits for the scheduler"),
        pytest.param({}, "Immediate", False, id="the class does not wait"),
        pytest.param({"volume": "volume-1"}, "WaitForFirstConsumer", False, id="the user named a volume"),
    ],
)
@pytest.mark.req("T34")
def test_preset_node_of_a_delayed_claim_is_named_as_the_reason(given: dict[str, Any], mode: str, told: bool) -> None:
    storage = storing(a_claim(**given), a_class(binding_mode=mode))
    why = obstacle(POD, NODE, storage)
    assert why is not None
    assert why.startswith(f"{PREFIX}PVC is not bound")
    assert ("this pod's nodeName was set without the scheduler" in why) is told


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
@pytest.mark.req("T8")
def test_volume_must_be_reachable_from_the_node(volume: Volume, fits: bool) -> None:
    why = obstacle(POD, NODE, storing(BOUND, volume))
    text = 'MountVolume.NodeAffinity check failed for volume "volume-1" : no matching NodeSelectorTerms'
    assert why == (None if fits else text)


def test_every_volume_is_looked_at() -> None:
    pod = a_pod(claims=["claim-1", "claim-2"], node="node-1", volumes=[{"name": "tmp", "emptyDir": {}}])
    storage = storing(BOUND, a_volume(claim_ref=MINE), a_claim(name="claim-2"))
    why = obstacle(pod, NODE, storage)
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
    why = obstacle(a_pod(ephemeral=["scratch"], node="node-1"), NODE, storing(claim, a_volume(claim_ref=MINE)))
    assert (why is None) is fits
    if why is not None:
        assert f"PVC default/{name} was not created for pod default/pod-1 (pod is not owner)" in why
