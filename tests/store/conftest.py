"""Stores for the tests of this folder, closed at the end of each test.

All tests share one real etcd under different prefixes. Without a build of etcd (`make conformance` builds it) its tests
are skipped.
"""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from mooring.clock import SystemClock
from mooring.store.contract import Store
from mooring.store.etcd.settings import EtcdSettings, etcd_settings
from mooring.store.etcd.store import EtcdStore
from mooring.store.sqlite import SqliteStore
from mooring.store.state import HISTORY, Limits
from mooring.store.watch_cache import BACKLOG, MemoryStore
from support.store.etcd_process import EtcdProcess, require_etcd
from support.store.rebased import Rebased

HERE: Final = Path(__file__).parent

#: Opens an empty store of the kind under test, by default with production limits.
OpenStore = Callable[..., Awaitable[Store]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skipped tests count as skipped by this folder: one line of the summary for all, not one for each."""
    report = yield
    if isinstance(report.longrepr, tuple):
        report.longrepr = (str(HERE), 0, report.longrepr[2])
    return report


def quick_directory() -> "tempfile.TemporaryDirectory[str]":
    """In /dev/shm if possible: these tests kill processes, not the power, and do not need a disk."""
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
    """Shared; a test that stops etcd uses `own_etcd`."""
    with quick_directory() as directory:
        process = EtcdProcess(etcd_binary, Path(directory))
        process.start()
        yield process
        process.stop()


@pytest.fixture
def own_etcd(etcd_binary: Path) -> Iterator[EtcdProcess]:
    """For one test, which may stop and restart it."""
    with quick_directory() as directory:
        process = EtcdProcess(etcd_binary, Path(directory))
        process.start()
        yield process
        process.stop()


def unused_prefix(etcd: EtcdProcess) -> EtcdSettings:
    """Random, because pytest and the tests import this module under two names: a counter would repeat."""
    return etcd_settings(etcd.url, prefix=f"/test-{secrets.token_hex(8)}")


@pytest.fixture(params=["memory", "sqlite", "etcd"])
async def open_store(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[OpenStore]:
    etcd = request.getfixturevalue("etcd") if request.param == "etcd" else None
    async with AsyncExitStack() as opened:

        async def open_one(*, history: Limits = HISTORY, backlog: Limits = BACKLOG) -> Store:
            store: Store
            if request.param == "memory":
                store = MemoryStore(history=history, backlog=backlog)
            elif etcd is not None:
                part = await EtcdStore.open(unused_prefix(etcd), SystemClock(), history=history, backlog=backlog)
                store = Rebased(part, part.revision)
            else:
                store = await SqliteStore.open(path, "normal", history=history, backlog=backlog)
            opened.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
