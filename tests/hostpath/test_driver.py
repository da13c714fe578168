"""The driver around its decisions: what is kept when, who waits, and what happens when things go wrong."""

import asyncio
import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from mooring.csi.contract import Code, DriverError, PluginCapability, Topology
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.files import Backing
from mooring.hostpath.records import (
    NODE_KEY,
    DriverLayout,
    HostpathSettings,
    Pool,
    Publication,
    Site,
    VolumeRecord,
    central,
    one_node,
)
from mooring.hostpath.state_file import MemoryState, RecordChange
from support.builders.hostpath import BLOCK, GIB, MOUNT, a_layout, a_pool, a_request, a_volume_store

INLINE = {"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.name": "cache-0"}


class Troubled(Backing):
    """Fails, or waits, where it is told to; remembers what it did."""

    def __init__(self, **errors: OSError) -> None:
        self.errors = errors
        self.done: list[str] = []
        self.gate: asyncio.Event | None = None

    async def _do(self, what: str) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if what in self.errors:
            raise self.errors[what]
        self.done.append(what)

    async def create(self, volume: VolumeRecord) -> None:
        await self._do("create")

    async def remove(self, volume: VolumeRecord) -> None:
        await self._do("remove")

    async def publish(self, volume: VolumeRecord, publication: Publication) -> None:
        await self._do("publish")

    async def withdraw(self, publication: Publication) -> None:
        await self._do("withdraw")


class FullDisk(MemoryState):
    full = False

    async def write(self, change: RecordChange) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        await super().write(change)


async def a_driver(layout: DriverLayout | None = None, **more: object) -> Hostpath:
    return Hostpath(await a_volume_store(layout, **more), "node-1")  # type: ignore[arg-type]


async def code_of(call: object) -> Code:
    with pytest.raises(DriverError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code


async def available(driver: Hostpath, parameters: Mapping[str, str] = {}) -> int:
    to_csi = await driver.get_capacity(capabilities=(), parameters=parameters, accessible_from=None)
    return to_csi.available_bytes


async def test_a_node_without_topology_is_everywhere() -> None:
    layout = DriverLayout(sites=(Site({}, (a_pool(),)),), nodes={"node-1": {}})
    driver = await a_driver(layout)
    assert await driver.plugin_capabilities() == {PluginCapability.CONTROLLER_SERVICE}
    assert (await driver.info()).accessible_from is None
    assert (await driver.create_volume(a_request(), secrets={})).accessible_from == ()


def test_default_topology_is_the_node() -> None:
    assert one_node("n").nodes == {"n": {NODE_KEY: "n"}}
    assert one_node("n", segments={"zone": "a"}).sites[0].segments == {"zone": "a"}


async def test_central_driver_serves_many_nodes_from_one_store() -> None:
    volume_store = await a_volume_store(central({"n1": {"zone": "a"}, "n2": {"zone": "b"}}, pools=(a_pool(size=GIB),)))
    one, two = Hostpath(volume_store, "n1"), Hostpath(volume_store, "n2")
    here = await one.create_volume(a_request("pvc-1", preferred=({"zone": "a"},)), secrets={})
    there = await two.create_volume(a_request("pvc-2", preferred=({"zone": "b"},)), secrets={})
    assert await one.list_volumes() == await two.list_volumes() == [here, there]
    await one.stage(here.volume_id, staging_target="/s", capability=MOUNT)
    assert await code_of(two.stage(here.volume_id, staging_target="/s", capability=MOUNT)) is Code.FAILED_PRECONDITION
    assert await code_of(Hostpath(volume_store, "n3").info()) is Code.NOT_FOUND


class SmallDisk(Backing):
    def __init__(self) -> None:
        self.reserved: dict[str, int] = {}

    def reserve(self, volume: VolumeRecord) -> None:
        self.reserved[volume.volume_id] = volume.cost

    def release(self, volume_id: str) -> None:
        self.reserved.pop(volume_id, None)

    async def free(self) -> int:
        return 5 * GIB - sum(self.reserved.values())


async def test_without_pools_the_disk_below_is_asked() -> None:
    driver = await a_driver(one_node("node-1"), backing=SmallDisk())
    await driver.create_volume(a_request(size=3 * GIB), secrets={})
    assert await available(driver) == 2 * GIB
    assert await code_of(driver.create_volume(a_request("pvc-2", 3 * GIB), secrets={})) is Code.RESOURCE_EXHAUSTED
    with_pools = await a_driver(backing=SmallDisk())
    assert await available(with_pools) == 100 * GIB


async def test_pools_grow_between_two_runs() -> None:
    store = MemoryState()
    driver = await a_driver(a_layout(a_pool(size=GIB)), store=store)
    await driver.create_volume(a_request(), secrets={})
    assert await available(driver) == 0
    grown = await a_driver(a_layout(a_pool(size=3 * GIB)), store=store)
    assert await available(grown) == 2 * GIB


async def test_a_node_that_is_gone_no_longer_uses_anything() -> None:
    both = central({"n1": {"zone": "a"}, "n2": {"zone": "a"}}, pools=(a_pool(size=4 * GIB),))
    one = central({"n1": {"zone": "a"}}, pools=(a_pool(size=4 * GIB),))
    settings, store, backing = HostpathSettings(attach=True), MemoryState(), Troubled()
    volume_store = await a_volume_store(both, settings=settings, store=store, backing=backing)
    lost, here = Hostpath(volume_store, "n2"), Hostpath(volume_store, "n1")
    volume = (await here.create_volume(a_request(), secrets={})).volume_id
    await lost.controller_publish(volume, node_id="n2", capability=MOUNT)
    await lost.stage(volume, staging_target="/s", capability=MOUNT)
    await lost.publish(volume, target="/pod", staging_target="/s", capability=MOUNT, read_only=False)
    await lost.publish("csi-1", target="/inline", capability=MOUNT, read_only=False, context=INLINE)
    assert await code_of(here.delete_volume(volume, secrets={})) is Code.FAILED_PRECONDITION
    here = Hostpath(await a_volume_store(one, settings=settings, store=store, backing=backing), "n1")
    assert backing.done.count("withdraw") == 2
    assert (await here.get_volume(volume)).published_on == ()
    await here.delete_volume(volume, secrets={})
    assert await available(here) == 4 * GIB, "the inline volume went with its node"


async def test_volume_ids_are_never_given_twice() -> None:
    """Not after deletion, not after a restart, and not when the dice fall the same way again."""
    store, seen = MemoryState(), set()
    for _ in range(3):
        driver = await a_driver(store=store, seed=1)
        for _ in range(3):
            volume = await driver.create_volume(a_request(), secrets={})
            await driver.delete_volume(volume.volume_id, secrets={})
            seen.add(volume.volume_id)
    assert len(seen) == 9


async def test_volumes_survive_a_restart() -> None:
    store = MemoryState()
    volume = await (await a_driver(store=store)).create_volume(a_request(), secrets={})
    driver = await a_driver(store=store)
    assert await driver.list_volumes() == [volume]
    assert await driver.create_volume(a_request(), secrets={}) == volume


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, Code.RESOURCE_EXHAUSTED), (errno.EIO, Code.INTERNAL)], ids=["full", "broken"]
)
async def test_a_volume_that_cannot_be_made_leaves_nothing(number: int, code: Code) -> None:
    backing = Troubled(create=OSError(number, "no luck"))
    driver = await a_driver(backing=backing)
    before = await available(driver)
    with pytest.raises(DriverError, match="cannot create volume pvc-1: no luck") as caught:
        await driver.create_volume(a_request(), secrets={})
    assert caught.value.code is code
    assert caught.value.final
    assert backing.done == ["remove"]
    assert await driver.list_volumes() == []
    assert await available(driver) == before


async def test_volume_with_failed_cleanup_keeps_its_record() -> None:
    backing = Troubled(create=OSError(errno.EIO, "no luck"), remove=OSError(errno.EIO, "nor here"))
    driver = await a_driver(backing=backing)
    assert await code_of(driver.create_volume(a_request(), secrets={})) is Code.ABORTED
    assert len(await driver.list_volumes()) == 1, "it can be found and deleted later"
    backing.errors.clear()
    volume = await driver.create_volume(a_request(), secrets={})
    assert await driver.list_volumes() == [volume]


async def test_a_removal_that_fails_is_taken_up_again() -> None:
    backing = Troubled(remove=OSError(errno.EBUSY, "busy"))
    driver = await a_driver(backing=backing)
    volume = await driver.create_volume(a_request(), secrets={})
    assert await code_of(driver.delete_volume(volume.volume_id, secrets={})) is Code.ABORTED
    assert await code_of(driver.create_volume(a_request(), secrets={})) is Code.ABORTED, "the name is not free yet"
    backing.errors.clear()
    await driver.delete_volume(volume.volume_id, secrets={})
    assert await driver.list_volumes() == []


async def test_a_state_that_cannot_be_kept_is_not_acted_on() -> None:
    store, backing = FullDisk(), Troubled()
    driver = await a_driver(store=store, backing=backing)
    volume = await driver.create_volume(a_request(), secrets={})
    store.full = True
    backing.done.clear()
    assert await code_of(driver.create_volume(a_request("pvc-2"), secrets={})) is Code.UNAVAILABLE
    assert await code_of(driver.delete_volume(volume.volume_id, secrets={})) is Code.UNAVAILABLE
    assert backing.done == []
    assert await driver.list_volumes() == [volume]
    store.full = False
    await driver.delete_volume(volume.volume_id, secrets={})


async def test_concurrent_operation_on_volume_is_aborted() -> None:
    backing = Troubled()
    backing.gate = asyncio.Event()
    driver = await a_driver(backing=backing)
    making = asyncio.ensure_future(driver.create_volume(a_request(), secrets={}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await code_of(driver.create_volume(a_request(), secrets={})) is Code.ABORTED
    (unfinished,) = await driver.list_volumes()
    assert await code_of(driver.delete_volume(unfinished.volume_id, secrets={})) is Code.ABORTED
    stage = driver.stage(unfinished.volume_id, staging_target="/s", capability=MOUNT)
    assert await code_of(stage) is Code.ABORTED
    backing.gate.set()
    assert (await making).volume_id == unfinished.volume_id


async def test_what_was_begun_is_finished_without_the_caller() -> None:
    backing = Troubled()
    backing.gate = asyncio.Event()
    volume_store = await a_volume_store(backing=backing)
    driver = Hostpath(volume_store, "node-1")
    making = asyncio.ensure_future(driver.create_volume(a_request(), secrets={}))
    for _ in range(5):
        await asyncio.sleep(0)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert await code_of(driver.create_volume(a_request(), secrets={})) is Code.ABORTED, "it still goes on"
    backing.gate.set()
    await volume_store.close()
    assert backing.done == ["create"]
    assert len(await driver.list_volumes()) == 1


async def test_a_target_that_cannot_be_made_is_not_recorded() -> None:
    backing = Troubled(publish=OSError(errno.ENOENT, "No such file or directory"))
    driver = await a_driver(backing=backing)
    volume = (await driver.create_volume(a_request(), secrets={})).volume_id
    await driver.stage(volume, staging_target="/s", capability=MOUNT)
    publish = driver.publish(volume, target="/pod", staging_target="/s", capability=MOUNT, read_only=False)
    assert await code_of(publish) is Code.INTERNAL
    await driver.unstage(volume, staging_target="/s")
    await driver.delete_volume(volume, secrets={})


async def test_a_target_that_cannot_be_taken_away_stays_recorded() -> None:
    backing = Troubled(withdraw=OSError(errno.EBUSY, "target is busy"))
    driver = await a_driver(backing=backing)
    volume = (await driver.create_volume(a_request(), secrets={})).volume_id
    await driver.stage(volume, staging_target="/s", capability=MOUNT)
    await driver.publish(volume, target="/pod", staging_target="/s", capability=MOUNT, read_only=False)
    assert await code_of(driver.unpublish(volume, target="/pod")) is Code.INTERNAL
    assert await code_of(driver.delete_volume(volume, secrets={})) is Code.FAILED_PRECONDITION


async def test_inline_volume_is_deleted_with_its_pod() -> None:
    backing = Troubled()
    driver = await a_driver(a_layout(Pool("pmem", GIB)), backing=backing)
    wanted = {**INLINE, "size": "512Mi", "pool": "pmem"}
    for _ in range(2):
        await driver.publish("csi-4711", target="/pod", capability=MOUNT, read_only=False, context=wanted)
    assert await available(driver) == GIB // 2
    assert await driver.list_volumes() == []
    assert await code_of(driver.delete_volume("csi-4711", secrets={})) is Code.FAILED_PRECONDITION
    for _ in range(2):
        await driver.unpublish("csi-4711", target="/pod")
    assert await available(driver) == GIB
    assert backing.done == ["create", "publish", "create", "publish", "withdraw", "remove"]


@pytest.mark.parametrize(
    ("volume_id", "context", "code"),
    [
        pytest.param("csi-1", {"size": "2Gi"}, Code.RESOURCE_EXHAUSTED, id="no room"),
        pytest.param("csi-1", {"size": "much"}, Code.INVALID_ARGUMENT, id="no quantity"),
        pytest.param("csi-1", {"size": "-1"}, Code.INVALID_ARGUMENT, id="negative"),
        pytest.param("csi-1", {"colour": "red"}, Code.INVALID_ARGUMENT, id="unknown attribute"),
        pytest.param("csi-1", {"pool": "gold"}, Code.INVALID_ARGUMENT, id="unknown pool"),
        pytest.param("../../etc", {}, Code.INVALID_ARGUMENT, id="an id that leads elsewhere"),
        pytest.param("v000001-0000000000000000", {}, Code.INVALID_ARGUMENT, id="an id of the driver's own"),
    ],
)
async def test_inline_volumes_that_cannot_be(volume_id: str, context: Mapping[str, str], code: Code) -> None:
    backing = Troubled()
    driver = await a_driver(a_layout(a_pool(size=GIB)), backing=backing)
    publish = driver.publish(volume_id, target="/pod", capability=MOUNT, read_only=False, context=INLINE | context)
    assert await code_of(publish) is code
    assert backing.done == []
    assert await available(driver) == GIB


async def test_an_inline_volume_that_cannot_be_shown_is_gone_again() -> None:
    backing = Troubled(publish=OSError(errno.ENOENT, "No such file or directory"))
    driver = await a_driver(a_layout(a_pool(size=GIB)), backing=backing)
    publish = driver.publish("csi-1", target="/pod", capability=MOUNT, read_only=False, context=INLINE)
    assert await code_of(publish) is Code.INTERNAL
    assert backing.done == ["create", "remove"]
    assert await available(driver) == GIB


async def test_an_inline_volume_is_never_a_block_volume() -> None:
    publish = (await a_driver()).publish("csi-1", target="/p", capability=BLOCK, read_only=False, context=INLINE)
    assert await code_of(publish) is Code.INVALID_ARGUMENT


async def test_node_info_has_limit_and_topology(tmp_path: Path) -> None:
    driver = await a_driver(a_layout(segments={"zone": "a"}), settings=HostpathSettings(max_volumes_per_node=7))
    info = await driver.info()
    assert (info.node_id, info.max_volumes, info.accessible_from) == ("node-1", 7, Topology({"zone": "a"}))


async def test_a_slow_volume_holds_up_no_other() -> None:
    backing = Troubled()
    driver = await a_driver(backing=backing)
    volumes = [(await driver.create_volume(a_request(name), secrets={})).volume_id for name in ("pvc-1", "pvc-2")]
    for volume in volumes:
        await driver.stage(volume, staging_target=f"/s/{volume}", capability=MOUNT)
    backing.gate = asyncio.Event()
    slow = asyncio.ensure_future(
        driver.publish(
            volumes[0], target="/pod-1", staging_target=f"/s/{volumes[0]}", capability=MOUNT, read_only=False
        )
    )
    await asyncio.sleep(0.01)
    assert not slow.done()
    await driver.unstage(volumes[1], staging_target=f"/s/{volumes[1]}")
    waiting = asyncio.ensure_future(driver.unpublish(volumes[0], target="/pod-1"))
    await asyncio.sleep(0.01)
    assert not waiting.done(), "calls for one volume take turns"
    backing.gate.set()
    await asyncio.gather(slow, waiting)
    await driver.unstage(volumes[0], staging_target=f"/s/{volumes[0]}")


async def test_volumes_made_side_by_side_do_not_get_more_than_there_is() -> None:
    for layout, backing in ((a_layout(a_pool(size=5 * GIB)), Backing()), (one_node("node-1"), SmallDisk())):
        driver = await a_driver(layout, backing=backing)
        requests = [driver.create_volume(a_request(f"pvc-{number}"), secrets={}) for number in range(9)]
        results = await asyncio.gather(*requests, return_exceptions=True)
        refused = [result for result in results if isinstance(result, DriverError)]
        assert [error.code for error in refused] == [Code.RESOURCE_EXHAUSTED] * 4
        assert await available(driver) == 0


async def test_of_writes_that_fail_together_none_counts() -> None:
    store = FullDisk()
    driver = await a_driver(a_layout(a_pool(size=5 * GIB)), store=store)
    kept = await driver.create_volume(a_request("pvc-0"), secrets={})
    store.full = True
    requests = [driver.create_volume(a_request(f"pvc-{number}"), secrets={}) for number in range(1, 5)]
    for result in await asyncio.gather(*requests, return_exceptions=True):
        assert isinstance(result, DriverError)
        assert result.code is Code.UNAVAILABLE
    assert await driver.list_volumes() == [kept]
    assert await available(driver) == 4 * GIB
