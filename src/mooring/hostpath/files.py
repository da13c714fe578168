"""Backing of volumes: directories for mount volumes, sparse files for block volumes, published by bind mount or link.

Sizes are not enforced: a pod can write more into a directory than its volume has. File operations run in threads;
concurrent calls share one fsync of the directory.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mooring.hostpath.records import Publication, VolumeRecord
from mooring.hostpath.state_file import GroupCommit


class Backing:
    """Volumes without files, for simulations. All methods are idempotent and raise OSError."""

    async def create(self, volume: VolumeRecord) -> None: ...

    async def remove(self, volume: VolumeRecord) -> None: ...

    async def publish(self, volume: VolumeRecord, publication: Publication) -> None: ...

    async def withdraw(self, publication: Publication) -> None:
        """Undo `publish`, the target included."""

    def reserve(self, volume: VolumeRecord) -> None:
        """From now on its full size counts as taken, whether or not it exists already."""

    def release(self, volume_id: str) -> None:
        """Undo `reserve`."""

    async def free(self) -> int:
        """Free bytes of the file system without what is reserved; of no use to sized pools."""
        return 0


def sync_folder(folder: Path) -> None:
    """Make created, renamed and removed entries of the directory durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


MOUNTS: Final = Path("/proc/self/mountinfo")
#: Field of a line of mountinfo that holds the mount point, counted from 0.
MOUNT_POINT: Final = 4
SECONDS: Final = 30.0


class Publisher(Protocol):
    def publish(self, source: Path, target: Path, *, read_only: bool) -> None: ...


class Links:
    """Symbolic links: need no privileges, but cannot be read-only and are visible as links."""

    def publish(self, source: Path, target: Path, *, read_only: bool) -> None:
        if target.is_symlink() and target.readlink() == source:
            return
        if target.is_dir() and not target.is_symlink():
            # Some callers create the directory themselves; one that is not empty is not removed.
            target.rmdir()
        target.symlink_to(source)


class BindMounts:
    """What a kubelet expects; needs the privilege to mount."""

    def publish(self, source: Path, target: Path, *, read_only: bool) -> None:
        if mounted(target):
            return
        if source.is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.touch()
        try:
            _run("mount", "--bind", "--", str(source), str(target))
            if read_only:
                _run("mount", "-o", "remount,bind,ro", "--", str(target))
        except OSError:
            withdraw(target)
            raise


def withdraw(target: Path) -> None:
    if target.is_symlink():
        target.unlink()
        return
    if mounted(target):
        _run("umount", "--", str(target))
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)


def mounted(target: Path) -> bool:
    """`os.path.ismount` does not see a bind mount from the same file system."""
    point = os.fsencode(target.parent.resolve() / target.name)
    return any(_unescaped(line.split()[MOUNT_POINT]) == point for line in MOUNTS.read_bytes().splitlines())


def can_mount() -> bool:
    """Tested by a mount: root in a container often lacks the privilege."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.mkdir()
        try:
            BindMounts().publish(source, target, read_only=True)
            withdraw(target)
        except OSError:
            return False
    return True


def _unescaped(field: bytes) -> bytes:
    """mountinfo has blanks and backslashes as octal numbers."""
    for escaped, character in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(escaped, character)
    return field


def _run(*command: str) -> None:
    """Raises OSError with the command's stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]} did not end within {SECONDS:g} s") from error
    if done.returncode != 0:
        raise OSError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")


#: Unit of st_blocks, independent of the file system's block size.
STAT_BLOCK: Final = 512
#: Volumes that `free` measures at each call, in turn: its cost must not grow with their number. What pods have written
#: into the others since they were measured counts twice until then, so the result is rather too small than too large.
MEASURED_AT_ONCE: Final = 16


class _Unwritten(NamedTuple):
    volume: VolumeRecord
    size: int


class Files(Backing):
    def __init__(self, folder: Path, publisher: Publisher) -> None:
        self._folder = folder
        self._publisher = publisher
        self._syncs = GroupCommit[None](lambda _: sync_folder(folder))
        #: Bytes that volumes may still write: size less what they occupied when measured; the oldest measurement first.
        self._unwritten: OrderedDict[str, _Unwritten] = OrderedDict()
        self._promised = 0

    async def create(self, volume: VolumeRecord) -> None:
        await asyncio.to_thread(self._create, volume)
        await self._syncs.submit(None)

    async def remove(self, volume: VolumeRecord) -> None:
        if await asyncio.to_thread(self._remove, volume):
            await self._syncs.submit(None)

    async def publish(self, volume: VolumeRecord, publication: Publication) -> None:
        await asyncio.to_thread(
            self._publisher.publish, self._path(volume), Path(publication.target), read_only=publication.read_only
        )

    async def withdraw(self, publication: Publication) -> None:
        await asyncio.to_thread(withdraw, Path(publication.target))

    def reserve(self, volume: VolumeRecord) -> None:
        if volume.volume_id not in self._unwritten:
            self._unwritten[volume.volume_id] = _Unwritten(volume, volume.cost)
            self._promised += volume.cost

    def release(self, volume_id: str) -> None:
        if (entry := self._unwritten.pop(volume_id, None)) is not None:
            self._promised -= entry.size

    async def free(self) -> int:
        batch = [entry.volume for entry in islice(self._unwritten.values(), MEASURED_AT_ONCE)]
        free, measured = await asyncio.to_thread(self._measure, batch)
        for volume, size in zip(batch, measured, strict=True):
            if volume.volume_id in self._unwritten:
                self.release(volume.volume_id)
                self._unwritten[volume.volume_id] = _Unwritten(volume, size)
                self._promised += size
        return free - self._promised

    def _path(self, volume: VolumeRecord) -> Path:
        return self._folder / volume.volume_id

    def _create(self, volume: VolumeRecord) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Other users can traverse but not list it: volumes are found by id only.
        self._folder.chmod(0o711)
        path = self._path(volume)
        if volume.block:
            with path.open("ab") as file:
                file.truncate(volume.size)
        else:
            path.mkdir(exist_ok=True)
            # Pods run as any user.
            path.chmod(0o777)

    def _remove(self, volume: VolumeRecord) -> bool:
        """Whether the directory exists and has to be synced."""
        path = self._path(volume)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return self._folder.exists()

    def _measure(self, volumes: Sequence[VolumeRecord]) -> tuple[int, list[int]]:
        """Free bytes of the file system, and what each volume may still write."""
        unwritten = [max(0, volume.cost - _occupied(self._path(volume))) for volume in volumes]
        system = os.statvfs(self._folder if self._folder.exists() else self._folder.parent)
        return system.f_bavail * system.f_frsize, unwritten


def _occupied(path: Path) -> int:
    """Bytes on disk below the path."""
    total = 0
    pending = [path]
    while pending:
        current = pending.pop()
        try:
            total += current.lstat().st_blocks * STAT_BLOCK
            if current.is_dir() and not current.is_symlink():
                pending += current.iterdir()
        except FileNotFoundError:
            # Race: a pod removed the file meanwhile.
            continue
    return total
