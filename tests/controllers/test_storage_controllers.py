"""Generic ephemeral volumes: their claims come with the pod and belong to it."""

from typing import Any

from mooring.api.kinds import CLAIM, POD
from mooring.api.patches.contract import MergePatch
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.storage_controllers import EphemeralVolumeController
from support.builders import claim_body, pod_body
from support.partial_control_plane import Plane, flaky, run_plane

#: No controller that would lift the protection of claims runs here.
WITHOUT_PROTECTION = MergePatch({"metadata": {"finalizers": None}})
CONTROLLERS = [EphemeralVolumeController, GarbageCollector]
SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "local"}


def a_pod_with_scratch() -> dict[str, Any]:
    body = pod_body(name="cache")
    template = {"metadata": {"labels": {"kind": "scratch"}}, "spec": SPEC}
    body["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    return body


def test_the_claim_comes_with_the_pod_and_goes_with_it() -> None:
    async def scenario(plane: Plane) -> None:
        pod = await plane.create(POD, a_pod_with_scratch())
        await plane.pass_time(30.0)
        claim = await plane.client.get(CLAIM, "cache-scratch", namespace="default")
        assert claim.controller is not None
        assert (claim.controller.kind, claim.controller.uid) == ("Pod", pod.uid)
        assert claim.metadata.labels == {"kind": "scratch"}
        assert claim.storage_class == "local"
        await plane.client.patch(CLAIM, claim.name, WITHOUT_PROTECTION, namespace="default")
        await plane.client.delete(POD, "cache", namespace="default")
        await plane.pass_time(30.0)
        assert await plane.names(CLAIM) == []

    run_plane(CONTROLLERS, scenario, client=flaky(0.3))


def test_a_claim_that_goes_while_its_pod_stays_is_made_again() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, a_pod_with_scratch())
        await plane.pass_time(5.0)
        first = await plane.client.get(CLAIM, "cache-scratch", namespace="default")
        await plane.client.patch(CLAIM, first.name, WITHOUT_PROTECTION, namespace="default")
        await plane.client.delete(CLAIM, first.name, namespace="default")
        await plane.pass_time(5.0)
        assert (await plane.client.get(CLAIM, "cache-scratch", namespace="default")).uid != first.uid

    run_plane(CONTROLLERS, scenario)


def test_foreign_claim_of_the_ephemeral_name_is_reported() -> None:
    async def scenario(plane: Plane) -> None:
        theirs = await plane.create(CLAIM, claim_body(name="cache-scratch", storage_class="local"))
        await plane.create(POD, a_pod_with_scratch())
        await plane.pass_time(30.0)
        assert (await plane.client.get(CLAIM, "cache-scratch", namespace="default")).uid == theirs.uid
        assert any("pod is not owner" in line for line in await plane.events_about("cache"))

    run_plane(CONTROLLERS, scenario)
