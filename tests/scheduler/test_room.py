"""Free storage as pods meet it: what they are told where there is none, and that it is promised once."""

import pytest

from builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    driver_body,
    pod_body,
    volume_body,
)
from builders.drivers import DRIVER
from mooring.api import keys
from mooring.api.kinds import CLAIM, CSI_DRIVER, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.timestamps import to_micro_time
from mooring.scheduler.component import FAILED, NO_ROOM
from mooring.volumes.shortage import ACTION
from scheduler.test_component import with_scheduler
from scheduler.worlds import SmallWorld


def with_room(world: SmallWorld, capacity: str, *, polled: float) -> None:
    """The driver on n1 reports so much, asked at that time."""
    body = capacity_body(
        topology={}, capacity=capacity, largest=capacity, annotations={keys.CAPACITY_POLLED_AT: to_micro_time(polled)}
    )
    if world.api.list(STORAGE_CAPACITY):
        world.change(STORAGE_CAPACITY, "capacity-1", body)
    else:
        world.put(STORAGE_CLASS, class_body(name="made", provisioner=DRIVER))
        world.put(CSI_DRIVER, driver_body(tracks_capacity=True))
        world.put(STORAGE_CAPACITY, body)


def make_volume(world: SmallWorld, claim: str, *, created: float) -> None:
    """What provisioner and PV controller do for a claim."""
    body = world.body(CLAIM, claim)
    notes = {keys.VOLUME_CREATED_AT: to_micro_time(created)}
    reference = claim_ref(name=claim, uid=body["metadata"]["uid"])
    size = body["spec"]["resources"]["requests"]["storage"]
    source = {"csi": {"driver": DRIVER, "volumeHandle": claim}}
    name = f"for-{claim}"
    world.put(
        VOLUME,
        volume_body(
            name=name,
            size=size,
            storage_class="made",
            source=source,
            claim_ref=reference,
            annotations=notes,
            phase="Bound",
        ),
    )
    world.finish_binding(claim, name)


@pytest.mark.req("C12")
def test_a_pod_that_finds_no_room_is_told_the_figures() -> None:
    async def scenario(world: SmallWorld) -> None:
        with_room(world, "10Gi", polled=1.0)
        world.put(CLAIM, claim_body(storage_class="made", size="20Gi"))
        world.put(POD, pod_body(claims=["claim-1"]))
        await world.settle()
        assert world.recorder.messages(FAILED) == [
            "0/1 nodes are available: 1 node(s) did not have enough free storage."
        ]
        told = f"asked for: claim-1 20Gi of class made; free: everywhere (10Gi). {ACTION}"
        assert world.recorder.messages(NO_ROOM) == [told]

    with_scheduler(scenario, "n1")


@pytest.mark.req("C16.in-flight", "C16.end")
def test_room_is_promised_once_and_given_again_when_it_is_there() -> None:
    async def scenario(world: SmallWorld) -> None:
        with_room(world, "10Gi", polled=1.0)
        for name in ("a", "b"):
            world.put(CLAIM, claim_body(name=name, storage_class="made", size="6Gi"))
            world.put(POD, pod_body(name=name, claims=[name]))
        await world.settle()
        first, second = ("a", "b") if keys.SELECTED_NODE in annotations(world, "a") else ("b", "a")
        assert keys.SELECTED_NODE not in annotations(world, second), "there is room for one"
        make_volume(world, first, created=2.0)
        await world.settle(5.0)
        assert world.node_of(first) == "n1"
        with_room(world, "10Gi", polled=1.5)
        await world.settle(60.0)
        assert keys.SELECTED_NODE not in annotations(world, second), "the driver was asked before the volume was made"

        with_room(world, "10Gi", polled=3.0)
        await world.settle(1.0)
        assert annotations(world, second)[keys.SELECTED_NODE] == "n1", "somebody has made the pool larger"

    with_scheduler(scenario, "n1")


@pytest.mark.req("C16.in-flight")
def test_room_that_a_provisioner_gives_back_is_news_for_who_waits_for_it() -> None:
    async def scenario(world: SmallWorld) -> None:
        with_room(world, "10Gi", polled=1.0)
        world.put(CLAIM, claim_body(name="other", storage_class="made", size="6Gi", selected_node="n1"))
        world.put(CLAIM, claim_body(storage_class="made", size="6Gi"))
        world.put(POD, pod_body(claims=["claim-1"]))
        await world.settle(20.0)
        assert keys.SELECTED_NODE not in annotations(world, "claim-1")
        world.change(CLAIM, "other", {"metadata": {"annotations": {keys.SELECTED_NODE: None}}})
        await world.settle()
        assert annotations(world, "claim-1")[keys.SELECTED_NODE] == "n1"

    with_scheduler(scenario, "n1")


def annotations(world: SmallWorld, claim: str) -> Body:
    return world.body(CLAIM, claim)["metadata"].get("annotations", {})
