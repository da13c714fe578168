"""Stores for the tests of this folder, closed again at the end of each."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mooring.store.contract import Store
from mooring.store.fanout import BACKLOG, HISTORY, Limits
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore

#: Opens an empty store of the kind under test, by default with the limits it has in production.
OpenStore = Callable[..., Awaitable[Store]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "objects.db"


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
