"""Stores for the tests of this folder, closed again at the end of each."""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mooring.store.contract import Store
from mooring.store.fanout import BACKLOG
from mooring.store.history import HISTORY, Limits
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore

#: Opens an empty store of the kind under test, by default with the limits it has in production.
OpenStore = Callable[..., Awaitable[Store]]


def quick_directory() -> "tempfile.TemporaryDirectory[str]":
    """In memory where the machine can: these tests kill processes, not the power, and a disk would make them wait."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


@pytest.fixture
def path() -> Iterator[Path]:
    with quick_directory() as directory:
        yield Path(directory) / "objects.db"


@pytest.fixture(params=["memory", "sqlite"])
async def open_store(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[OpenStore]:
    async with AsyncExitStack() as opened:

        async def open_one(*, history: Limits = HISTORY, backlog: Limits = BACKLOG) -> Store:
            store: Store
            if request.param == "memory":
                store = MemoryStore(history=history, backlog=backlog)
            else:
                store = await SqliteStore.open(path, "normal", history=history, backlog=backlog)
            opened.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
