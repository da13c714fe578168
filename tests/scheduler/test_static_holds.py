"""Pods with several existing volumes, with a coordinator beside the scheduler: all are given, or none."""

from collections.abc import Awaitable, Callable

import pytest

from builders import claim_body, class_body, node_body, pod_body, volume_body
from mooring.api.kinds import CLAIM, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.control.component import Component, Context
from mooring.coordinator.component import Coordinator
from mooring.coordinator.settings import Settings
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.component import Scheduler
from mooring.volumes.holds import objects
from mooring.volumes.plan import HOLD_NAMESPACE, HOLD_PREFIX, HoldState, hold_state
from partial_plane import Build, Plane, run_plane

Scenario = Callable[[Plane], Awaitable[None]]


def coordinator(context: Context) -> Component:
    return Coordinator(context, Settings(alone=True))


def play(scenario: Scenario, *, coordinated: bool = True) -> None:
    async def run(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await plane.create(STORAGE_CLASS, class_body(name="local"))
        for node in ("n1", "n2"):
            await plane.create(NODE, node_body(name=node))
        for name in ("a", "b"):
            await plane.create(CLAIM, claim_body(name=name))
        await plane.pass_time(6)  # the coordinator has shown itself by now
        await scenario(plane)

    builds: list[Build] = [Scheduler, PersistentVolumeController]
    run_plane([*builds, coordinator] if coordinated else builds, run)


async def add_volumes(plane: Plane, node: str, count: int) -> None:
    for number in range(count):
        await plane.create(VOLUME, volume_body(name=f"{node}-{number}", node=node))


async def node_of(plane: Plane, pod: str = "p") -> str:
    return (await plane.get(POD, pod)).spec.node_name


async def states(plane: Plane) -> dict[str, HoldState]:
    volumes = (await plane.client.list(VOLUME)).items
    return {volume.name: hold_state(volume, hold_namespace=HOLD_NAMESPACE) for volume in volumes}


@pytest.mark.req("T38")
def test_both_volumes_are_held_then_given() -> None:
    async def scenario(plane: Plane) -> None:
        await add_volumes(plane, "n2", 2)
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))

        async def runs() -> bool:
            return await node_of(plane) == "n2"

        await plane.until(runs, within=10)
        assert set((await states(plane)).values()) == {HoldState.COMMITTED}
        assert any(said.startswith("VolumeCommitted") for said in await plane.said("a"))
        assert objects.UNUSED_LABEL not in (await plane.get(VOLUME, "n2-0")).metadata.labels

    play(scenario)


def test_without_a_coordinator_they_are_given_one_by_one() -> None:
    async def scenario(plane: Plane) -> None:
        await add_volumes(plane, "n2", 2)
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))

        async def runs() -> bool:
            return await node_of(plane) == "n2"

        await plane.until(runs, within=10)
        assert not any(said.startswith("VolumeCommitted") for said in await plane.said("a"))

    play(scenario, coordinated=False)


@pytest.mark.req("T38")
def test_a_hold_that_a_dead_scheduler_left_is_lifted_and_the_pod_runs_elsewhere() -> None:
    """The scheduler died after its first write; before the next one came, somebody took the other volume."""

    async def scenario(plane: Plane) -> None:
        claim = await plane.get(CLAIM, "a")
        held = volume_body(name="n1-0", node="n1")
        held["metadata"] |= objects.held_marks(claim, "n1", since="2026-01-02T03:04:05Z")
        held["metadata"]["annotations"].pop(objects.SINCE)
        held["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
        await plane.create(VOLUME, held)
        await add_volumes(plane, "n2", 2)
        await plane.create(POD, pod_body(name="p", claims=("a", "b")))

        async def runs() -> bool:
            return await node_of(plane) == "n2"

        await plane.until(runs, within=60)
        await plane.pass_time(5)
        assert (await states(plane))["n1-0"] is HoldState.FREE

    play(scenario)
