"""A driver that dies at any step of its work on real files, and the one that is started after it."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from mooring.csi.contract import DriverVolume, VolumeCapability
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.files import Files, Links
from mooring.hostpath.records import HostpathSettings, Publication, VolumeRecord
from mooring.hostpath.state_file import RecordChange, StateFile
from mooring.hostpath.volume_store import VolumeStore
from support.builders.hostpath import BLOCK, MOUNT, a_layout, a_pool, a_request

SIZE = 1 << 20


class Crash(BaseException):
    """The process is gone; no handler runs."""


class Fuse:
    """Burns down with every step, before and after it; at zero the process dies."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps

    def burn(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Crash


class FusedState(StateFile):
    def __init__(self, folder: Path, fuse: Fuse) -> None:
        super().__init__(folder)
        self._fuse = fuse

    async def write(self, change: RecordChange) -> None:
        self._fuse.burn()
        await super().write(change)
        self._fuse.burn()


class FusedFiles(Files):
    def __init__(self, folder: Path, fuse: Fuse) -> None:
        super().__init__(folder, Links())
        self._fuse = fuse

    async def create(self, volume: VolumeRecord) -> None:
        self._fuse.burn()
        await super().create(volume)
        self._fuse.burn()

    async def remove(self, volume: VolumeRecord) -> None:
        self._fuse.burn()
        await super().remove(volume)
        self._fuse.burn()

    async def publish(self, volume: VolumeRecord, publication: Publication) -> None:
        self._fuse.burn()
        await super().publish(volume, publication)
        self._fuse.burn()

    async def withdraw(self, publication: Publication) -> None:
        self._fuse.burn()
        await super().withdraw(publication)
        self._fuse.burn()


@asynccontextmanager
async def started(folder: Path, steps: int | None = None) -> AsyncIterator[Hostpath]:
    fuse = Fuse(steps)
    state = FusedState(folder, fuse)
    state.open()
    volume_store = VolumeStore(
        a_layout(a_pool(size=10 * SIZE)),
        HostpathSettings(),
        state,
        FusedFiles(folder / "volumes", fuse),
        chance=Random(1),
    )
    try:
        await volume_store.open()
        yield Hostpath(volume_store, "node-1")
    finally:
        # As the system does for a process that died.
        state.close()


async def live(driver: Hostpath, pods: Path, capability: VolumeCapability) -> None:
    """The whole life of a volume, as a caller who repeats everything would drive it."""
    volume = (await driver.create_volume(a_request(size=SIZE, capability=capability), secrets={})).volume_id
    target = str(pods / "pod")
    await driver.stage(volume, staging_target="/staging", capability=capability)
    await driver.publish(volume, target=target, staging_target="/staging", capability=capability, read_only=False)
    await driver.unpublish(volume, target=target)
    await driver.unstage(volume, staging_target="/staging")
    await driver.delete_volume(volume, secrets={})


def on_disk(folder: Path) -> set[str]:
    volumes = folder / "volumes"
    return {path.name for path in volumes.iterdir()} if volumes.exists() else set()


async def listed(driver: Hostpath) -> list[DriverVolume]:
    return list(await driver.list_volumes())


@pytest.mark.parametrize("capability", [MOUNT, BLOCK], ids=["folder", "file"])
async def test_crash_at_any_step_loses_and_leaks_nothing(tmp_path: Path, capability: VolumeCapability) -> None:
    died = 0
    for steps in itertools.count():
        folder, pods = tmp_path / str(steps) / "state", tmp_path / str(steps) / "pods"
        pods.mkdir(parents=True)
        try:
            async with started(folder, steps) as driver:
                await live(driver, pods, capability)
        except Crash:
            died += 1
        else:
            break

        async with started(folder) as again:
            known = {volume.volume_id for volume in await listed(again)}
            assert on_disk(folder) <= known, "every file has a record"
            assert len(known) <= 1
            if known:
                (volume_id,) = known
                existing_volume = await again.create_volume(a_request(size=SIZE, capability=capability), secrets={})
                assert existing_volume.volume_id == volume_id
                assert on_disk(folder) == known, "a volume that can be used has its files"
                # Whatever of its life is over or not, undoing it step by step works.
                await again.unpublish(volume_id, target=str(pods / "pod"))
                await again.unstage(volume_id, staging_target="/staging")
                await again.delete_volume(volume_id, secrets={})
            fresh = await again.create_volume(a_request(size=SIZE, capability=capability), secrets={})
            assert fresh.volume_id not in known
            await again.delete_volume(fresh.volume_id, secrets={})
            assert on_disk(folder) == set()
            assert list(pods.iterdir()) == []
    assert died > 15, "there are that many steps in a life"
