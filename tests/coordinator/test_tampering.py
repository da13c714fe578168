"""The coordinator while others write too: into claims, into volumes, and between its look and its write."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.api.kinds import CLAIM, VOLUME, Kind
from mooring.api.patches.contract import MergePatch, Patch
from mooring.api.views.meta import ApiObject
from mooring.cluster.local_client import LocalClient
from mooring.coordinator.component import Coordinator
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.volumes.binding import HoldState
from mooring.volumes.holds import objects
from mooring.volumes.holds.transitions import Intent, IntentPhase
from support.builders import volume_body
from support.builders.held_pods import Group, run_scenario
from support.partial_control_plane import Plane, V, run_plane


async def name_volume(group: Group, claim: str, volume: str) -> None:
    patch = MergePatch({"spec": {"volumeName": volume}})
    await group.client.patch(CLAIM, claim, patch, namespace="default")


async def annotate(group: Group, volume: str, notes: dict[str, str | None]) -> None:
    await group.client.patch(VOLUME, volume, MergePatch({"metadata": {"annotations": notes}}))


@pytest.mark.req("R2.tampering")
def test_a_claim_that_is_pointed_elsewhere_gives_its_held_volume_up() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.client.create(VOLUME, volume_body(name="other", node="n1", storage_class="fast"))
        await name_volume(group, "a", "other")
        await group.becomes("a", HoldState.ROLLING_BACK, within=2)

    run_scenario(scenario)


@pytest.mark.req("R2.tampering")
@pytest.mark.parametrize("attempt", ["2", "0", "first", None], ids=["another", "none", "no number", "taken off"])
def test_a_wrong_attempt_can_only_have_a_held_volume_given_up(attempt: str | None) -> None:
    """Never committed: its storage may not exist."""

    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await annotate(group, "pv-a", {objects.ATTEMPT: attempt})
        await group.hold("b", "n1")
        await group.becomes("a", HoldState.ROLLING_BACK, within=2)

    run_scenario(scenario)


@pytest.mark.req("R2.tampering", "R3.not-proof")
def test_marks_for_people_decide_nothing() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        labels = {"labels": {objects.UNUSED_LABEL: None, objects.FOR_NODE_LABEL: "n2"}}
        await group.client.patch(VOLUME, "pv-a", MergePatch({"metadata": labels}))
        await group.hold("b", "n1")
        for claim in "ab":
            await group.becomes(claim, HoldState.COMMITTED, within=2)

    run_scenario(scenario)


class Overtaken(LocalClient):
    """Another client writes to a volume just before each of the first writes to it."""

    def __init__(self, api: ApiServer, user: User, before: Callable[[LocalClient], Awaitable[object]]) -> None:
        super().__init__(api, user)
        self._others = LocalClient(api, user)
        self._before = before
        self.overtaken = 0

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        if kind is VOLUME and name == "pv-a" and "spec" in _body(patch) and not self.overtaken:
            self.overtaken += 1
            await self._before(self._others)
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)


def _body(patch: Patch) -> dict[str, Any]:
    return dict(patch.body) if isinstance(patch, MergePatch) else {}


async def look_only(others: LocalClient) -> ApiObject:
    """A write that changes nothing that matters."""
    return await others.patch(VOLUME, "pv-a", MergePatch({"metadata": {"labels": {"seen": "yes"}}}))


async def give_up(others: LocalClient) -> ApiObject:
    """Another coordinator has given the volume up."""
    volume = await others.get(VOLUME, "pv-a")
    reference = volume.spec.claim_ref
    assert reference is not None
    uid = objects.held_for(volume, hold_namespace=reference.namespace)
    body = objects.rollback_patch(volume, uid, "another's word", hold_namespace=reference.namespace)
    return await others.patch(VOLUME, "pv-a", MergePatch(body))


async def give(others: LocalClient) -> ApiObject:
    """Another coordinator has given the volume to its claim."""
    volume, claim = await others.get(VOLUME, "pv-a"), await others.get(CLAIM, "a", namespace="default")
    return await others.patch(VOLUME, "pv-a", MergePatch(objects.commit_patch(volume, claim)))


@pytest.mark.req("R2.overtaken")
@pytest.mark.parametrize(
    ("complete", "before", "want"),
    [
        pytest.param(True, look_only, HoldState.COMMITTED, id="giving: looked at again, and given"),
        pytest.param(True, give_up, HoldState.ROLLING_BACK, id="giving: given up by another, and stays so"),
        pytest.param(False, look_only, HoldState.ROLLING_BACK, id="giving up: looked at again, and given up"),
        pytest.param(False, give, HoldState.COMMITTED, id="giving up: given by another, and stays so"),
    ],
)
def test_the_first_writer_decides(
    complete: bool, before: Callable[[LocalClient], Awaitable[object]], want: HoldState
) -> None:
    clients: list[Overtaken] = []

    def connect(api: ApiServer, user: User) -> Overtaken:
        clients.append(Overtaken(api, user, before))
        return clients[-1]

    async def run(plane: Plane) -> None:
        group = Group(plane)
        await group.begin()
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        if complete:
            await group.hold("b", "n1")
        else:
            await group.intend("b", Intent(1, "n1", IntentPhase.FAILED))
            await group.select("b", None)
        await group.becomes("a", want, within=20)
        await group.plane.pass_time(30)
        assert await group.state("a") is want
        assert [client.overtaken for client in clients] == [1]

    run_plane([Coordinator, PersistentVolumeController], run, client=connect)
