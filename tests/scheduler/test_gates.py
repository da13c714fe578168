"""What the scheduler does while a feature gate is off."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.control.feature_gates import parse_feature_gates
from mooring.scheduler.component import FAILED, Scheduler
from support.builders import (
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    driver_body,
    node_body,
    pod_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.scheduler.cluster import SmallWorld, in_world


def with_gates(gates: str, scenario: Callable[[SmallWorld], Awaitable[None]]) -> None:
    async def whole(world: SmallWorld) -> None:
        world.put(NODE, node_body(name="n1"))
        scheduler = Scheduler(dataclasses.replace(world.context, gates=parse_feature_gates(gates)))
        task = asyncio.create_task(scheduler.run())
        await world.settle()
        await scenario(world)
        task.cancel()

    in_world(whole)


def bind(world: SmallWorld, claim: str, volume: str) -> None:
    """What a person does by hand, and the PV controller then completes."""
    reference = claim_ref(name=claim, uid=world.body(CLAIM, claim)["metadata"]["uid"])
    world.change(VOLUME, volume, {"spec": {"claimRef": reference}})
    world.finish_binding(claim, volume)


@pytest.mark.req("T31.volume-scheduling-off")
def test_without_volume_scheduling_a_late_bound_claim_keeps_its_pod_waiting_until_it_is_bound() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(STORAGE_CLASS, class_body())
        world.put(VOLUME, volume_body(name="v1", node="n1"))
        world.put(CLAIM, claim_body(name="data"))
        world.put(POD, pod_body(claims=["data"]))
        await world.settle()
        refusal = 'persistentvolumeclaim "data" waits for a consumer, but the feature gate VolumeScheduling is off'
        assert world.recorder.messages(FAILED) == [f"0/1 nodes are available: {refusal}."]
        assert "claimRef" not in world.body(VOLUME, "v1")["spec"]
        bind(world, "data", "v1")
        await world.settle(2)
        assert world.node_of("pod-1") == "n1"

    with_gates("VolumeScheduling=false", scenario)


@pytest.mark.req("T31.volume-scheduling-off")
def test_without_volume_scheduling_other_pods_are_placed() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(POD, pod_body(name="plain"))
        world.put(VOLUME, volume_body(name="v1", node="n1"))
        world.put(CLAIM, claim_body(name="data"))
        bind(world, "data", "v1")
        world.put(POD, pod_body(name="bound", claims=["data"]))
        await world.settle()
        assert [world.node_of(name) for name in ("plain", "bound")] == ["n1", "n1"]

    with_gates("VolumeScheduling=false", scenario)


async def _full_pool(world: SmallWorld) -> None:
    """A claim of a class whose driver reports less room than it asks for."""
    world.put(CSI_DRIVER, driver_body(tracks_capacity=True))
    world.put(STORAGE_CLASS, class_body(name="made", provisioner=DRIVER))
    world.put(STORAGE_CAPACITY, capacity_body(topology={}, capacity="1Gi"))
    world.put(CLAIM, claim_body(name="data", storage_class="made"))
    world.put(POD, pod_body(claims=["data"]))
    await world.settle()


def _sent_to(world: SmallWorld) -> str | None:
    notes: dict[str, str] = world.body(CLAIM, "data")["metadata"].get("annotations", {})
    return notes.get("volume.kubernetes.io/selected-node")


@pytest.mark.req("T31.capacity-off")
def test_capacity_objects_count_while_their_gate_is_on() -> None:
    async def scenario(world: SmallWorld) -> None:
        await _full_pool(world)
        assert _sent_to(world) is None
        said = "0/1 nodes are available: 1 node(s) did not have enough free storage."
        assert world.recorder.messages(FAILED) == [said]

    with_gates("", scenario)


@pytest.mark.req("T31.capacity-off")
def test_capacity_objects_are_not_looked_at_while_their_gate_is_off() -> None:
    async def scenario(world: SmallWorld) -> None:
        await _full_pool(world)
        assert _sent_to(world) == "n1"

    with_gates("CSIStorageCapacity=false", scenario)
