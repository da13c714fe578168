"""Volumes as files: a folder for a file system volume, a sparse file of the full size for a block volume.

Sizes are promises, not quotas: nothing stops a pod from writing more into a folder than its volume has. File
operations run in a thread, so that removing a large folder does not hold up other calls; calls that wait for the disk
at the same time share one sync of the folder.
"""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mooring.hostpath.durability import sync_folder
from mooring.hostpath.group_commit import GroupCommit
from mooring.hostpath.mounts import Publisher, withdraw
from mooring.hostpath.records import Publication, Volume

#: Bytes per block as stat counts them, whatever the file system's own blocks are.
STAT_BLOCK: Final = 512


class Files:
    def __init__(self, folder: Path, publisher: Publisher) -> None:
        self._folder = folder
        self._publisher = publisher
        self._syncs = GroupCommit[None](lambda _: sync_folder(folder))

    async def create(self, volume: Volume) -> None:
        await asyncio.to_thread(self._create, volume)
        await self._syncs.submit(None)

    async def remove(self, volume: Volume) -> None:
        if await asyncio.to_thread(self._remove, volume):
            await self._syncs.submit(None)

    async def publish(self, volume: Volume, publication: Publication) -> None:
        await asyncio.to_thread(
            self._publisher.publish, self._path(volume), Path(publication.target), read_only=publication.read_only
        )

    async def withdraw(self, publication: Publication) -> None:
        await asyncio.to_thread(withdraw, Path(publication.target))

    async def free(self, volumes: Sequence[Volume]) -> int:
        return await asyncio.to_thread(self._free, volumes)

    def _path(self, volume: Volume) -> Path:
        return self._folder / volume.volume_id

    def _create(self, volume: Volume) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Other users may pass through but not list: a volume is found by its id only.
        self._folder.chmod(0o711)
        path = self._path(volume)
        if volume.block:
            with path.open("ab") as file:
                file.truncate(volume.size)
        else:
            path.mkdir(exist_ok=True)
            # Pods run as any user.
            path.chmod(0o777)

    def _remove(self, volume: Volume) -> bool:
        """Whether there is a folder to sync."""
        path = self._path(volume)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return self._folder.exists()

    def _free(self, volumes: Sequence[Volume]) -> int:
        below = self._folder if self._folder.exists() else self._folder.parent
        system = os.statvfs(below)
        promised = sum(max(0, volume.cost - _occupied(self._path(volume))) for volume in volumes)
        return system.f_bavail * system.f_frsize - promised


def _occupied(path: Path) -> int:
    """Bytes on disk, of all there is below a folder."""
    total = 0
    pending = [path]
    while pending:
        current = pending.pop()
        try:
            total += current.lstat().st_blocks * STAT_BLOCK
            if current.is_dir() and not current.is_symlink():
                pending += current.iterdir()
        except FileNotFoundError:
            # Gone while we looked: a pod is free to remove its own files.
            continue
    return total
