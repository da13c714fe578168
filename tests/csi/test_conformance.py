"""One driver, asked directly and over gRPC: both must answer alike. The suite any implementation has to pass."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.csi.client import CsiClient
from mooring.csi.contract import (
    Capacity,
    Code,
    ControllerCapability,
    Driver,
    DriverError,
    DriverVolume,
    NodeCapability,
    NodeInfo,
    PluginCapability,
    Topology,
)
from mooring.csi.server import CsiServer
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.records import HostpathSettings, central
from support.builders.hostpath import ALONE, BLOCK, GIB, MOUNT, SHARED, a_pool, a_request, a_volume_store

ZONE = "example.com/zone"
NODES = {"node-1": {ZONE: "a"}, "node-2": {ZONE: "a"}, "node-3": {ZONE: "b"}}
UNKNOWN = "v999999-0000000000000000"


@pytest.fixture(params=["in process", "over gRPC"])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Driver]:
    settings = HostpathSettings(name="hostpath.example.com", version="1.2.3", max_volumes_per_node=2, attach=True)
    hostpath = Hostpath(
        await a_volume_store(central(NODES, pools=(a_pool(size=10 * GIB),)), settings=settings), "node-1"
    )
    if request.param == "in process":
        yield hostpath
        return
    socket = tmp_path / "csi.sock"
    async with CsiServer(hostpath, socket), CsiClient(socket) as channel:
        yield channel


async def code_of(call: object) -> Code:
    with pytest.raises(DriverError) as caught:
        await call  # type: ignore[misc]
    assert caught.value.message
    return caught.value.code


async def test_plugin_info(driver: Driver) -> None:
    assert await driver.name() == "hostpath.example.com"
    assert await driver.vendor_version() == "1.2.3"
    assert await driver.probe()
    assert await driver.plugin_capabilities() == {
        PluginCapability.CONTROLLER_SERVICE,
        PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS,
    }
    assert await driver.controller_capabilities() == set(ControllerCapability)
    assert await driver.node_capabilities() == set(NodeCapability)
    assert await driver.info() == NodeInfo("node-1", 2, Topology({ZONE: "a"}))


async def test_volume_is_created_and_counted_in_its_topology(driver: Driver) -> None:
    request = a_request(size=4 * GIB, preferred=({ZONE: "b"},), parameters={"kind": "mirrored"})
    volume = await driver.create_volume(request, secrets={"key": "value"})
    assert volume == DriverVolume(
        volume_id=volume.volume_id,
        capacity_bytes=4 * GIB,
        context={"pool": "default", "kind": "mirrored", "csi.storage.k8s.io/pv/name": request.name},
        accessible_from=(Topology({ZONE: "b"}),),
    )
    assert await driver.create_volume(request, secrets={}) == volume

    async def capacity(zone: str) -> Capacity:
        return await driver.get_capacity(capabilities=(), parameters={}, accessible_from=Topology({ZONE: zone}))

    assert await capacity("a") == Capacity(10 * GIB, 10 * GIB)
    assert await capacity("b") == Capacity(2 * GIB, 2 * GIB)
    assert await capacity("nowhere") == Capacity(0, 0)
    everywhere = await driver.get_capacity(capabilities=(MOUNT,), parameters={}, accessible_from=None)
    assert everywhere == Capacity(12 * GIB, 10 * GIB)


async def test_volumes_are_listed_found_and_gone(driver: Driver) -> None:
    made = [await driver.create_volume(a_request(f"pvc-{number}"), secrets={}) for number in range(5)]
    assert await driver.list_volumes() == sorted(made, key=lambda volume: volume.volume_id)
    assert await driver.get_volume(made[0].volume_id) == made[0]
    await driver.delete_volume(made[0].volume_id, secrets={})
    await driver.delete_volume(made[0].volume_id, secrets={})
    assert await code_of(driver.get_volume(made[0].volume_id)) is Code.NOT_FOUND
    assert made[0] not in await driver.list_volumes()


async def test_it_says_what_a_volume_is_good_for(driver: Driver) -> None:
    volume = await driver.create_volume(a_request(), secrets={})
    assert await driver.validate_capabilities(volume.volume_id, capabilities=[MOUNT, SHARED]) is None
    assert await driver.validate_capabilities(volume.volume_id, capabilities=[BLOCK]) == "the volume is a mount volume"
    told = "the volume was created with other parameters"
    for parameters in ({"kind": "mirrored"}, {"colour": "red"}):
        assert await driver.validate_capabilities(volume.volume_id, capabilities=[MOUNT], parameters=parameters) == told
    context = driver.validate_capabilities(volume.volume_id, capabilities=[MOUNT], context={"pool": "gold"})
    assert await context == "the volume has another context"
    assert await driver.validate_capabilities(volume.volume_id, capabilities=[MOUNT], context=volume.context) is None
    assert await code_of(driver.validate_capabilities(UNKNOWN, capabilities=[MOUNT])) is Code.NOT_FOUND


async def test_the_way_of_a_volume_to_a_pod_and_back(driver: Driver) -> None:
    made = await driver.create_volume(a_request(preferred=({ZONE: "a"},)), secrets={})
    volume = made.volume_id
    for _ in range(2):
        assert await driver.controller_publish(volume, node_id="node-1", capability=MOUNT) == {}
        await driver.stage(volume, staging_target="/staging", capability=MOUNT)
        await driver.publish(volume, target="/pod", staging_target="/staging", capability=MOUNT, read_only=False)
    assert [entry.published_on for entry in await driver.list_volumes()] == [("node-1",)]
    assert (await driver.get_volume(volume)).published_on == ("node-1",)
    assert await code_of(driver.delete_volume(volume, secrets={})) is Code.FAILED_PRECONDITION
    for _ in range(2):
        await driver.unpublish(volume, target="/pod")
        await driver.unstage(volume, staging_target="/staging")
        await driver.controller_unpublish(volume, node_id="node-1")
    await driver.delete_volume(volume, secrets={})
    assert await code_of(driver.unpublish(volume, target="/pod")) is Code.NOT_FOUND
    assert await code_of(driver.unstage(volume, staging_target="/staging")) is Code.NOT_FOUND
    await driver.controller_unpublish(volume, node_id="")


async def test_refusals_keep_their_codes(driver: Driver) -> None:
    made = await driver.create_volume(a_request(size=GIB, preferred=({ZONE: "a"},)), secrets={})
    volume = made.volume_id

    async def create(**different: object) -> Code:
        return await code_of(driver.create_volume(a_request(**different), secrets={}))  # type: ignore[arg-type]

    assert await create(size=2 * GIB) is Code.ALREADY_EXISTS
    assert await create(preferred=({ZONE: "b"},)) is Code.ALREADY_EXISTS
    assert await create(capability=BLOCK) is Code.ALREADY_EXISTS
    assert await create(name="large", size=11 * GIB) is Code.RESOURCE_EXHAUSTED
    assert await create(name="huge", size=1 << 41) is Code.OUT_OF_RANGE
    assert await create(name="odd", parameters={"colour": "red"}) is Code.INVALID_ARGUMENT

    async def attach(volume_id: str, node: str, **how: bool) -> Code:
        return await code_of(driver.controller_publish(volume_id, node_id=node, capability=MOUNT, **how))

    assert await attach(UNKNOWN, "node-1") is Code.NOT_FOUND
    assert await attach(volume, "node-9") is Code.NOT_FOUND
    assert await attach(volume, "node-3") is Code.FAILED_PRECONDITION
    await driver.controller_publish(volume, node_id="node-1", capability=MOUNT)
    assert await attach(volume, "node-2") is Code.FAILED_PRECONDITION
    assert await attach(volume, "node-1", read_only=True) is Code.ALREADY_EXISTS
    assert await code_of(driver.stage(volume, staging_target="/s", capability=BLOCK)) is Code.FAILED_PRECONDITION
    publish = driver.publish(volume, target="/pod", staging_target="/s", capability=MOUNT, read_only=False)
    assert await code_of(publish) is Code.FAILED_PRECONDITION


async def test_a_single_writer_stays_alone(driver: Driver) -> None:
    made = await driver.create_volume(a_request(preferred=({ZONE: "a"},), capability=ALONE), secrets={})
    volume = made.volume_id
    await driver.controller_publish(volume, node_id="node-1", capability=ALONE)
    await driver.stage(volume, staging_target="/s", capability=ALONE)
    await driver.publish(volume, target="/one", staging_target="/s", capability=ALONE, read_only=False)
    other = driver.publish(volume, target="/two", staging_target="/s", capability=ALONE, read_only=False)
    assert await code_of(other) is Code.FAILED_PRECONDITION


async def test_a_node_has_its_limit(driver: Driver) -> None:
    request = {"preferred": ({ZONE: "a"},)}
    volumes = [(await driver.create_volume(a_request(f"v{n}", **request), secrets={})).volume_id for n in range(3)]  # type: ignore[arg-type]
    for volume in volumes[:2]:
        await driver.controller_publish(volume, node_id="node-1", capability=MOUNT)
    third = driver.controller_publish(volumes[2], node_id="node-1", capability=MOUNT)
    assert await code_of(third) is Code.RESOURCE_EXHAUSTED
    await driver.controller_publish(volumes[2], node_id="node-2", capability=MOUNT)
