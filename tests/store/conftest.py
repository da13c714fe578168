"""Stores for the tests of this folder, closed again at the end of each.

etcd is a real one, for all tests of a run; each has a part of it for itself. Where it was not built (`make conformance`
does that), its tests are left out, and one line says so.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from mooring.clock import SystemClock
from mooring.store.contract import Store
from mooring.store.etcd.settings import EtcdSettings, etcd_settings
from mooring.store.etcd.store import EtcdStore
from mooring.store.fanout import BACKLOG
from mooring.store.history import HISTORY, Limits
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore

from .etcd_process import EtcdProcess, require_etcd
from .rebased import Rebased

HERE: Final = Path(__file__).parent

#: Opens an empty store of the kind under test, by default with the limits it has in production.
OpenStore = Callable[..., Awaitable[Store]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skipped tests count as skipped by this folder: one line of the summary for all, not one for each."""
    report = yield
    if isinstance(report.longrepr, tuple):
        report.longrepr = (str(HERE), 0, report.longrepr[2])
    return report


def quick_directory() -> "tempfile.TemporaryDirectory[str]":
    """In memory where the machine can: these tests kill processes, not the power, and a disk would make them wait."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


@pytest.fixture
def path() -> Iterator[Path]:
    with quick_directory() as directory:
        yield Path(directory) / "objects.db"


@pytest.fixture(scope="session")
def etcd_binary() -> Path:
    return require_etcd()


@pytest.fixture(scope="session")
def etcd(etcd_binary: Path) -> Iterator[EtcdProcess]:
    """One for all; whoever breaks it starts one of their own."""
    with quick_directory() as directory:
        process = EtcdProcess(etcd_binary, Path(directory))
        process.start()
        yield process
        process.stop()


@pytest.fixture
def own_etcd(etcd_binary: Path) -> Iterator[EtcdProcess]:
    """One for a single test, to stop, to kill and to start again."""
    with quick_directory() as directory:
        process = EtcdProcess(etcd_binary, Path(directory))
        process.start()
        yield process
        process.stop()


_PARTS: Final = count()


def a_part_of(etcd: EtcdProcess) -> EtcdSettings:
    """A prefix that nobody used yet."""
    return etcd_settings(etcd.url, prefix=f"/part-{next(_PARTS)}")


@pytest.fixture(params=["memory", "sqlite", "etcd"])
async def open_store(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[OpenStore]:
    etcd = request.getfixturevalue("etcd") if request.param == "etcd" else None
    async with AsyncExitStack() as opened:

        async def open_one(*, history: Limits = HISTORY, backlog: Limits = BACKLOG) -> Store:
            store: Store
            if request.param == "memory":
                store = MemoryStore(history=history, backlog=backlog)
            elif etcd is not None:
                part = await EtcdStore.open(a_part_of(etcd), SystemClock(), history=history, backlog=backlog)
                store = Rebased(part, part.revision)
            else:
                store = await SqliteStore.open(path, "normal", history=history, backlog=backlog)
            opened.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
