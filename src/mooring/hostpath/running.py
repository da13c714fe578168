"""The volume store on real files, opened and closed again; the simulated environment builds its own in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from mooring.hostpath.files import Files
from mooring.hostpath.layout import Layout, Settings
from mooring.hostpath.mounts import Publisher
from mooring.hostpath.state_file import StateFile
from mooring.hostpath.volume_store import VolumeStore


@asynccontextmanager
async def on_files(
    layout: Layout, settings: Settings, folder: Path, publisher: Publisher, *, chance: Random
) -> AsyncIterator[VolumeStore]:
    """Volumes below `folder`, which no other driver may use meanwhile. Raises StateUnusable."""
    store = StateFile(folder)
    store.open()
    try:
        volumes = VolumeStore(layout, settings, store, Files(folder / "volumes", publisher), chance=chance)
        await volumes.open()
        try:
            yield volumes
        finally:
            await volumes.close()
    finally:
        store.close()
