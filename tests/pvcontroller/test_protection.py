"""What keeps a claim or a volume from vanishing, and what lets it go."""

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.pvcontroller.protection import VolumeProtection, claim_in_use, is_settled, volume_in_use
from support.builders import a_claim, a_pod, a_volume, claim_body, pod_body, volume_body
from support.builders import owned_by as owner
from support.partial_control_plane import Plane, flaky, run_plane

OF_POD = a_claim(name="pod-1-scratch", owners=[owner(pod_body(), uid="pod-1-uid")])


@pytest.mark.parametrize(
    ("claim", "pod", "expected"),
    [
        pytest.param(a_claim(), a_pod(claims=["claim-1"], node="node-1"), True, id="a pod with a node"),
        pytest.param(
            a_claim(), a_pod(claims=["claim-1"], node="node-1", phase="Succeeded"), True, id="a pod that has finished"
        ),
        pytest.param(a_claim(), a_pod(claims=["claim-1"]), False, id="a pod without a node"),
        pytest.param(a_claim(), a_pod(claims=["other"], node="node-1"), False, id="a pod that uses another claim"),
        pytest.param(
            a_claim(), a_pod(claims=["claim-1"], node="node-1", namespace="other"), False, id="a pod from elsewhere"
        ),
        pytest.param(OF_POD, a_pod(ephemeral=["scratch"], node="node-1"), True, id="the pod it was made for"),
        pytest.param(
            OF_POD, a_pod(ephemeral=["scratch"], node="node-1", deleting=True), True, id="the same, shutting down"
        ),
        pytest.param(
            OF_POD,
            a_pod(ephemeral=["scratch"], node="node-1", uid="another-uid"),
            False,
            id="a later pod of that name",
        ),
    ],
)
@pytest.mark.req("T42.PC36")
def test_pods_that_protect_a_claim(claim: Claim, pod: Pod, expected: bool) -> None:
    assert claim_in_use(claim, [pod]) is expected


@pytest.mark.req("T42.PC36")
def test_ephemeral_claim_goes_with_its_pod_once_that_is_shut_down() -> None:
    body = pod_body(ephemeral=["scratch"], node="node-1", deleting=True, uid="pod-1-uid", version="1")
    body["metadata"]["deletionGracePeriodSeconds"] = 0
    assert not claim_in_use(OF_POD, [POD.decode(msgspec.json.encode(body))])


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(a_volume(phase="Bound"), True, id="bound"),
        pytest.param(a_volume(phase="Released"), False, id="released"),
        pytest.param(a_volume(phase="Available"), False, id="available"),
    ],
)
@pytest.mark.req("T42.PC35")
def test_only_bound_volumes_are_in_use(volume: Volume, expected: bool) -> None:
    assert volume_in_use(volume) is expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(a_claim(finalizers=[well_known.PVC_PROTECTION]), True, id="alive and protected"),
        pytest.param(a_claim(), False, id="alive and not protected"),
        pytest.param(a_claim(finalizers=[well_known.PVC_PROTECTION], deleting=True), False, id="dying and protected"),
        pytest.param(a_claim(finalizers=["other"], deleting=True), True, id="dying, and others hold it"),
    ],
)
@pytest.mark.req("T42.PC34")
def test_what_there_is_to_do(claim: Claim, expected: bool) -> None:
    assert is_settled(claim, well_known.PVC_PROTECTION) is expected


@pytest.mark.req("T42.PC34", "T42.PC36", "T42.PC37")
def test_deleted_claim_stays_as_long_as_a_pod_with_a_node_uses_it() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await plane.create(POD, pod_body(claims=["claim-1"], node="node-1"))
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time()
        assert (await plane.get(CLAIM, "claim-1")).deleting
        await plane.client.delete(POD, "pod-1", namespace="default", grace_seconds=0)
        await plane.pass_time(1.0)
        assert await plane.names(CLAIM) == []

    run_plane([VolumeProtection], scenario)


@pytest.mark.req("T42.PC36")
def test_deleted_claim_goes_although_a_pod_without_a_node_wants_it() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await plane.create(POD, pod_body(claims=["claim-1"]))
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(1.0)
        assert await plane.names(CLAIM) == []

    run_plane([VolumeProtection], scenario)


@pytest.mark.req("T42.PC34", "T42.PC35")
def test_deleted_volume_stays_while_it_is_bound() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume_body(node="node-1"))
        await _set_phase(plane, "Bound")
        await plane.client.delete(VOLUME, "volume-1")
        await plane.pass_time()
        assert await plane.names(VOLUME) == ["volume-1"]
        await _set_phase(plane, "Released")
        await plane.pass_time(1.0)
        assert await plane.names(VOLUME) == []

    run_plane([VolumeProtection], scenario)


@pytest.mark.req("T42.PC34")
def test_protection_that_was_taken_off_comes_back() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume_body(node="node-1"))
        await plane.create(CLAIM, claim_body())
        bare = MergePatch({"metadata": {"finalizers": None}})
        await plane.client.patch(VOLUME, "volume-1", bare)
        await plane.client.patch(CLAIM, "claim-1", bare, namespace="default")
        await plane.pass_time(1.0)
        assert (await plane.get(VOLUME, "volume-1")).metadata.finalizers == (well_known.PV_PROTECTION,)
        assert (await plane.get(CLAIM, "claim-1")).metadata.finalizers == (well_known.PVC_PROTECTION,)

    run_plane([VolumeProtection], scenario)


@pytest.mark.req("T42.PC34")
def test_lost_answers_do_no_harm() -> None:
    async def scenario(plane: Plane) -> None:
        names = [f"claim-{number}" for number in range(6)]
        for name in names:
            await plane.create(CLAIM, claim_body(name=name))
            await plane.client.delete(CLAIM, name, namespace="default")
        await plane.until(lambda: _all_gone(plane))

    run_plane([VolumeProtection], scenario, client=flaky(0.4))


async def _all_gone(plane: Plane) -> bool:
    return not await plane.names(CLAIM)


async def _set_phase(plane: Plane, phase: str) -> None:
    await plane.client.patch(VOLUME, "volume-1", MergePatch({"status": {"phase": phase}}), subresource="status")
