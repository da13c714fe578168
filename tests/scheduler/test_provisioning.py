"""The scheduler together with a provisioner: selected nodes, capacity, limits."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.scheduler.component import FAILED
from mooring.volumes.state import ConflictReason
from scheduler.test_component import with_scheduler
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    pod_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.scheduler.cluster import SmallWorld

pytestmark = pytest.mark.level("s")

MADE = class_body(name="made", provisioner=DRIVER)


def selected(world: SmallWorld, claim: str = "claim-1") -> str | None:
    notes: Body = world.body(CLAIM, claim)["metadata"].get("annotations", {})
    return notes.get(well_known.SELECTED_NODE)


def make(world: SmallWorld, claim: str = "claim-1") -> None:
    """What a provisioner and the PV controller do together."""
    reference = claim_ref(name=claim, uid=world.body(CLAIM, claim)["metadata"]["uid"])
    node = selected(world, claim)
    assert node
    source = {"csi": {"driver": DRIVER, "volumeHandle": claim}}
    body = volume_body(name=f"pv-{claim}", storage_class="made", node=node, claim_ref=reference, source=source)
    world.put(VOLUME, body)
    world.finish_binding(claim, f"pv-{claim}")


def free_capacity(node: str, capacity: str) -> Body:
    return capacity_body(name=node, capacity=capacity, topology={"matchLabels": {well_known.HOSTNAME: node}})


def put_pod_with_tracked_capacity(world: SmallWorld, *capacities: Body) -> None:
    """A pod whose claim is to be made by a driver that reports these."""
    world.put(CSI_DRIVER, driver_body(tracks_capacity=True))
    world.put(STORAGE_CLASS, MADE)
    for body in capacities:
        world.put(STORAGE_CAPACITY, body)
    world.put(CLAIM, claim_body(storage_class="made"))
    world.put(POD, pod_body(claims=["claim-1"]))


@pytest.mark.req("T18.selected-node", "T20.provisioned", "T15.order")
def test_a_node_is_selected_and_the_pod_follows_its_volume() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(
            STORAGE_CLASS, class_body(name="made", provisioner=DRIVER, allowed_topologies=[{well_known.ZONE: ["b"]}])
        )
        world.put(NODE, node_body(name="in-a", zone="a"))
        world.put(NODE, node_body(name="in-b", zone="b"))
        world.put(CLAIM, claim_body(storage_class="made"))
        world.put(POD, pod_body(claims=["claim-1"]))
        await world.settle()
        assert selected(world) == "in-b"
        assert world.node_of("pod-1") == "", "it waits for its volume"

        make(world)
        await world.settle()
        assert world.node_of("pod-1") == "in-b"

    with_scheduler(scenario)


@pytest.mark.req("T17.cleared")
def test_where_a_pod_is_expected_is_taken_back_with_the_node() -> None:
    def expected(world: SmallWorld) -> str:
        return str(world.body(POD, "pod-1")["status"].get("nominatedNodeName") or "")

    async def scenario(world: SmallWorld) -> None:
        put_pod_with_tracked_capacity(world, free_capacity("n1", "10Gi"))
        await world.settle(60)
        assert expected(world) == "n1"

        world.change(STORAGE_CAPACITY, "n1", {"capacity": "0"})
        world.change(CLAIM, "claim-1", {"metadata": {"annotations": {well_known.SELECTED_NODE: None}}})
        await world.settle(60)
        assert expected(world) == "", "it waits for room anywhere"

        world.put(STORAGE_CAPACITY, free_capacity("n2", "10Gi"))
        await world.settle(60)
        assert expected(world) == "n2"
        make(world)
        await world.settle()
        assert world.node_of("pod-1") == "n2"

    with_scheduler(scenario, "n1", "n2")


@pytest.mark.req("T17.cleared", "T17.elsewhere")
def test_a_provisioner_that_gives_up_sends_the_pod_elsewhere() -> None:
    async def scenario(world: SmallWorld) -> None:
        put_pod_with_tracked_capacity(world, free_capacity("n1", "10Gi"))
        await world.settle()
        assert selected(world) == "n1"

        world.change(STORAGE_CAPACITY, "n1", {"capacity": "0"})
        world.put(STORAGE_CAPACITY, free_capacity("n2", "10Gi"))
        world.change(CLAIM, "claim-1", {"metadata": {"annotations": {well_known.SELECTED_NODE: None}}})
        await world.settle(5)
        assert selected(world) == "n2"
        make(world)
        await world.settle()
        assert world.node_of("pod-1") == "n2"

    with_scheduler(scenario, "n1", "n2")


@pytest.mark.req("T26.volumes")
def test_new_capacity_requeues_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        put_pod_with_tracked_capacity(world, free_capacity("n1", "1Gi"))
        await world.settle(30)
        assert world.recorder.messages(FAILED) == [f"0/1 nodes are available: 1 {ConflictReason.STORAGE_CAPACITY}."]

        world.change(STORAGE_CAPACITY, "n1", {"capacity": "10Gi"})
        await world.settle()
        assert selected(world) == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T26.volumes")
def test_a_driver_that_stops_counting_wakes_the_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        put_pod_with_tracked_capacity(world)
        await world.settle(30)
        assert selected(world) is None

        world.change(CSI_DRIVER, DRIVER, {"spec": {"storageCapacity": False}})
        await world.settle()
        assert selected(world) == "n1"

    with_scheduler(scenario, "n1")


@pytest.mark.req("T23.raised")
def test_raised_volume_limit_requeues_pod() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(CSI_NODE, csi_node_body(name="n1", limits={DRIVER: 2}))
        world.put(STORAGE_CLASS, MADE)
        for number in range(3):
            world.put(CLAIM, claim_body(name=f"c{number}", storage_class="made"))
            world.put(POD, pod_body(name=f"p{number}", claims=[f"c{number}"]))
        await world.settle()
        assert sorted(selected(world, f"c{number}") or "" for number in range(3)) == ["", "n1", "n1"]
        assert "0/1 nodes are available: 1 node(s) exceed max volume count." in world.recorder.messages(FAILED)

        world.change(CSI_NODE, "n1", csi_node_body(name="n1", limits={DRIVER: 3}))
        await world.settle(5)
        assert [selected(world, f"c{number}") for number in range(3)] == ["n1"] * 3

    with_scheduler(scenario, "n1")


def test_a_failed_attempt_frees_the_claim_for_another_pod_that_shares_it() -> None:
    """The second pod may only go to another node than the one the claim was sent to; once the first attempt is given
    up, the claim may go there too."""

    async def scenario(world: SmallWorld) -> None:
        world.put(STORAGE_CLASS, MADE)
        world.put(CLAIM, claim_body(storage_class="made"))
        world.put(POD, pod_body(name="first", claims=["claim-1"], node_selector={well_known.HOSTNAME: "n1"}))
        await world.settle()
        assert selected(world) == "n1"
        world.put(POD, pod_body(name="second", claims=["claim-1"], node_selector={well_known.HOSTNAME: "n2"}))
        await world.settle()
        assert any(ConflictReason.NO_VOLUME in message for message in world.recorder.messages(FAILED))

        world.delete(POD, "first")
        world.change(CLAIM, "claim-1", {"metadata": {"annotations": {well_known.SELECTED_NODE: None}}})
        await world.settle(5)
        assert selected(world) == "n2"

    with_scheduler(scenario, "n1", "n2")
