"""A deleted PodGroup stays as long as a pod that has not finished names it."""

import pytest

from mooring.api.errors import NotFound
from mooring.api.kinds import POD, POD_GROUP
from mooring.api.patches.contract import MergePatch
from mooring.controllers.workloads.group_protection import PodGroupProtection
from support.builders.groups import member_body, pod_group_body
from support.partial_control_plane import Plane, flaky, run_plane

ENDED = MergePatch({"status": {"phase": "Succeeded"}})


async def is_there(plane: Plane) -> bool:
    try:
        await plane.client.get(POD_GROUP, "g", namespace="default")
    except NotFound:
        return False
    return True


async def deleted_group_with(plane: Plane, *members: str) -> None:
    await plane.create(POD_GROUP, pod_group_body(min_count=1))
    for name in members:
        await plane.create(POD, member_body(name=name))
    await plane.client.delete(POD_GROUP, "g", namespace="default")
    await plane.pass_time(5.0)


def test_a_group_without_pods_is_deleted_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, member_body(name="other", group="h"))
        await deleted_group_with(plane)
        assert not await is_there(plane)

    run_plane([PodGroupProtection], scenario, client=flaky(0.3))


@pytest.mark.parametrize("how", ["finish", "are deleted"])
def test_a_group_stays_until_all_its_pods(how: str) -> None:
    async def scenario(plane: Plane) -> None:
        await deleted_group_with(plane, "g-0", "g-1")
        assert await is_there(plane)
        for name in ("g-0", "g-1"):
            assert await is_there(plane)
            if how == "finish":
                await plane.client.patch(POD, name, ENDED, namespace="default", subresource="status")
            else:
                await plane.client.delete(POD, name, namespace="default", grace_seconds=0)
            await plane.pass_time(5.0)
        assert not await is_there(plane)

    run_plane([PodGroupProtection], scenario, client=flaky(0.3))


def test_a_living_group_and_other_finalizers_are_left_alone() -> None:
    async def scenario(plane: Plane) -> None:
        made = await plane.create(POD_GROUP, pod_group_body(finalizers=["example.com/keep"]))
        await plane.pass_time(5.0)
        assert (await plane.client.get(POD_GROUP, "g", namespace="default")).metadata == made.metadata
        await plane.client.delete(POD_GROUP, "g", namespace="default")
        await plane.pass_time(5.0)
        left = await plane.client.get(POD_GROUP, "g", namespace="default")
        assert left.metadata.finalizers == ("example.com/keep",)

    run_plane([PodGroupProtection], scenario)
