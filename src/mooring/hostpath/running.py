"""Volumes in custody on real files, opened and closed again; the simulated world puts together its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from mooring.hostpath.custody import Custody
from mooring.hostpath.files import Files
from mooring.hostpath.layout import Layout, Settings
from mooring.hostpath.mounts import Publisher
from mooring.hostpath.state_file import StateFile


@asynccontextmanager
async def on_files(
    layout: Layout, settings: Settings, folder: Path, publisher: Publisher, *, chance: Random
) -> AsyncIterator[Custody]:
    """Volumes below `folder`, which nobody else may use meanwhile. Raises StateUnusable."""
    store = StateFile(folder)
    store.open()
    try:
        custody = Custody(layout, settings, store, Files(folder / "volumes", publisher), chance=chance)
        await custody.open()
        try:
            yield custody
        finally:
            await custody.close()
    finally:
        store.close()
