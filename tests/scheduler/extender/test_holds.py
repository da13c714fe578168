"""Binding several volumes of a pod by the extender, with a coordinator beside it: all are given, or none."""

import json
from collections.abc import Awaitable, Callable

import pytest

from mooring.api.kinds import CLAIM, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.control.component import Component, Context
from mooring.coordinator import claim_states as coordination
from mooring.coordinator.component import Coordinator
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.extender.component import Extender
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.partial_control_plane import Plane, run_plane
from support.scheduler.extender_caller import BINDING

Bind = Callable[[], Awaitable[str]]


def coordinator(context: Context) -> Component:
    return Coordinator(context, coordination.CoordinatorSettings(renews_lease=True))


def play(scenario: Callable[[Plane, Bind], Awaitable[None]]) -> None:
    """Two nodes, a pod with two claims, and `bind` for it to n1."""
    built: list[Extender] = []

    def extender(context: Context) -> Component:
        built.append(Extender(context, BINDING))
        return built[0]

    async def run(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await plane.create(STORAGE_CLASS, class_body())
        for node in ("n1", "n2"):
            await plane.create(NODE, node_body(name=node))
        for name in ("a", "b"):
            await plane.create(CLAIM, claim_body(name=name))
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))
        await plane.pass_time(6)  # the coordinator has shown itself by now

        async def bind() -> str:
            uid = (await plane.get(POD, "p")).uid
            args = {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
            reply = await built[0].call("bind", json.dumps(args).encode())
            return str(json.loads(reply.body)["Error"])

        await scenario(plane, bind)

    run_plane([extender, PersistentVolumeController, coordinator], run)


async def states(plane: Plane) -> dict[str, HoldState]:
    volumes = (await plane.client.list(VOLUME)).items
    return {volume.name: hold_state(volume, hold_namespace=HOLD_NAMESPACE) for volume in volumes}


@pytest.mark.req("T38.extender")
def test_both_volumes_are_held_then_given() -> None:
    async def scenario(plane: Plane, bind: Bind) -> None:
        for name in ("v1", "v2"):
            await plane.create(VOLUME, volume_body(name=name, node="n1"))
        await plane.pass_time(1)
        assert await bind() == ""
        assert (await plane.get(POD, "p")).spec.node_name == "n1"
        assert set((await states(plane)).values()) == {HoldState.COMMITTED}
        assert any(said.startswith("VolumeCommitted") for said in await plane.events_about("a"))

    play(scenario)


@pytest.mark.req("T38.extender")
def test_a_node_that_cannot_give_both_gives_none() -> None:
    async def scenario(plane: Plane, bind: Bind) -> None:
        await plane.create(VOLUME, volume_body(name="v1", node="n1"))
        await plane.pass_time(1)
        assert (await bind()).startswith('node "n1" no longer fits')
        assert await states(plane) == {"v1": HoldState.FREE}

    play(scenario)
