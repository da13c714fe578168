"""Guarantees of the SQLite store: durability, file lock, atomic batches."""

import asyncio
import resource
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.store.contract import (
    ABSENT,
    Compacted,
    Record,
    Revision,
    RevisionConflict,
    StoreClosed,
    StoreError,
    StoreUnusable,
)
from mooring.store.sqlite import Durability, SqliteFile, SqliteStore
from mooring.store.watch_cache import WatchHub
from support.store import writing_process

# Restart


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_records_survive_restart(path: Path, durability: Durability) -> None:
    store = await SqliteStore.open(path, durability)
    await store.write("/a", b"1", expect=ABSENT)
    await store.write("/b", b"2", expect=ABSENT)
    await store.write("/a", b"3", expect=Revision(1))
    before = await store.list("")
    await store.close()

    store = await SqliteStore.open(path, durability)
    assert await store.list("") == before
    change = await store.write("/a", None, expect=Revision(3))
    assert change.before == Record("/a", b"3", Revision(3), Revision(1))
    await store.close()


async def test_revision_survives_restart_after_deletion(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.write("/a", b"", expect=ABSENT)
    await store.write("/a", None, expect=Revision(1))
    await store.close()

    store = await SqliteStore.open(path)
    assert store.revision == 2
    assert (await store.write("/a", b"", expect=ABSENT)).revision == 3
    await store.close()


async def test_restart_keeps_no_history(path: Path) -> None:
    store = await SqliteStore.open(path)
    for n in range(3):
        await store.write(f"/{n}", b"", expect=ABSENT)
    await store.close()

    store = await SqliteStore.open(path)
    with pytest.raises(Compacted) as compacted:
        await store.watch("/", after=Revision(2))
    assert compacted.value.oldest == 3
    watch = await store.watch("/", after=Revision(3))
    change = await store.write("/new", b"", expect=ABSENT)
    assert await anext(aiter(watch)) == [change]
    await store.close()


async def test_files_are_readable_by_owner_only(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.write("/a", b"secret", expect=ABSENT)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await store.close()
    assert modes == {path.name: 0o600, f"{path.name}-wal": 0o600}


# File lock


async def test_file_is_locked_while_open(path: Path) -> None:
    store = await SqliteStore.open(path)
    with pytest.raises(StoreUnusable, match="is in use: stop the process"):
        await SqliteStore.open(path)
    # Another process, after an attempt in this one, which must not have dropped the lock.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, writing_process.__file__, str(path), "/"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, complaint = await asyncio.wait_for(process.communicate(), timeout=5)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 1
    assert b"is in use: stop the process" in complaint
    await store.write("/a", b"", expect=ABSENT)
    await store.close()
    store = await SqliteStore.open(path)
    assert store.revision == 1
    await store.close()


async def test_concurrent_creation_opens_at_most_once(path: Path) -> None:
    opened = await asyncio.gather(*(SqliteStore.open(path) for _ in range(4)), return_exceptions=True)
    stores = [one for one in opened if isinstance(one, SqliteStore)]
    assert len(stores) <= 1
    assert len([one for one in opened if isinstance(one, StoreUnusable) and "is in use" in str(one)]) == 4 - len(stores)
    for store in stores:
        await store.close()
    await (await SqliteStore.open(path)).close()


# Committing


async def test_queued_writes_share_a_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    commit = SqliteFile.commit

    def counted(file: SqliteFile, outcome: dict[str, Record | None], revision: Revision) -> None:
        commits.append(len(outcome))
        commit(file, outcome, revision)

    monkeypatch.setattr(SqliteFile, "commit", counted)
    store = await SqliteStore.open(path)
    await asyncio.gather(*(store.write(f"/{n}", b"", expect=ABSENT) for n in range(100)))
    await asyncio.gather(*(store.write("/0", b"", expect=Revision(1)) for n in range(100)), return_exceptions=True)
    await store.close()
    assert commits == [100, 1]


async def test_uncommitted_writes_are_invisible(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_is_ready = threading.Event()
    commit = SqliteFile.commit

    def slow(file: SqliteFile, outcome: dict[str, Record | None], revision: Revision) -> None:
        assert disk_is_ready.wait(timeout=5)
        commit(file, outcome, revision)

    monkeypatch.setattr(SqliteFile, "commit", slow)
    store = await SqliteStore.open(path)
    waiting = asyncio.create_task(anext(aiter(await store.watch("/", after=ABSENT))))
    writing = asyncio.create_task(store.write("/a", b"", expect=ABSENT))
    await asyncio.wait([waiting, writing], timeout=0.05)
    assert (store.revision, await store.get("/a"), (await store.list("/")).records) == (0, None, ())
    assert not waiting.done()
    assert not writing.done()
    disk_is_ready.set()
    assert await waiting == [await writing]
    await store.close()


@contextmanager
def no_file_may_grow_beyond(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_failed_commit_fails_whole_batch(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.write("/a", b"1", expect=ABSENT)
    before = await store.list("")
    watch = await store.watch("/", after=store.revision)
    with no_file_may_grow_beyond(200_000):
        answers = await asyncio.gather(
            store.write("/a", b"2", expect=Revision(1)),
            store.write("/large", b"x" * 1_000_000, expect=ABSENT),
            store.write("/a", b"meets the first", expect=Revision(1)),
            return_exceptions=True,
        )
    for answer in answers:
        assert type(answer) is StoreError
        assert str(answer) == f"nothing was written to {path}: disk I/O error"
        assert isinstance(answer.__cause__, sqlite3.OperationalError)
    assert await store.list("") == before

    change = await store.write("/a", b"3", expect=Revision(1))
    assert change.revision == 2
    assert await anext(aiter(watch)) == [change], "the next revision follows as if nothing had been tried"
    after = await store.list("")
    await store.close()
    store = await SqliteStore.open(path)
    assert await store.list("") == after
    await store.close()


async def test_unexpected_commit_error_fails_waiting_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(WatchHub, "publish", fail)
    store = await SqliteStore.open(path)
    with pytest.raises(StoreClosed, match="before the write was committed"):
        await asyncio.wait_for(store.write("/a", b"", expect=ABSENT), timeout=5)
    with pytest.raises(StoreClosed):
        await store.write("/b", b"", expect=ABSENT)
    with pytest.raises(RuntimeError, match="a bug"):
        await store.close()


async def test_cancelled_caller_does_not_affect_others(path: Path) -> None:
    store = await SqliteStore.open(path)
    gone = asyncio.create_task(store.write("/a", b"1", expect=ABSENT))
    loser = asyncio.create_task(store.write("/a", b"2", expect=ABSENT))
    other = asyncio.create_task(store.write("/b", b"", expect=ABSENT))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await other).revision == 2
    with pytest.raises(RevisionConflict):
        await loser
    assert gone.cancelled()
    assert await store.get("/a") == Record("/a", b"1", Revision(1), Revision(1))
    await store.close()


async def test_cancelled_close_still_closes(path: Path) -> None:
    store = await SqliteStore.open(path)
    write = asyncio.create_task(store.write("/a", b"", expect=ABSENT))
    await asyncio.sleep(0)
    closing_it = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing_it.cancel()
    assert (await write).revision == 1
    with pytest.raises(StoreClosed):
        await store.get("/a")
    await store.close()
    store = await SqliteStore.open(path)
    assert store.revision == 1
    await store.close()
