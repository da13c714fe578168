"""SQLite store: reads from memory, batched writes to one file.

    write ──► queue ──► WriteBatch ──► commit, in the writer thread ──► state ──► watches ──► `write` returns

Writes are decided on the event loop and committed in batches by one thread; while it commits, the next batch gathers.
No change of a batch is visible before the commit, and a failed batch leaves no trace. The file holds the current
records and the revision, no history. It is locked while open, so it can be copied only while the store is stopped.
"""

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from mooring.store.contract import Record, Revision, StoreChange, StoreClosed, StoreError, StoreUnusable
from mooring.store.state import HISTORY, Limits, StoreState, Write, WriteBatch
from mooring.store.watch_cache import BACKLOG, WatchCache

#: `full` syncs every commit to disk; `normal` may lose the last commits on a power failure, not on a process crash.
Durability = Literal["full", "normal"]

#: "Moor" in the file's header, read by SQLite and file(1).
APPLICATION_ID: Final = 0x4D6F6F72
#: Stored in SQLite's `user_version`. Increased when an older Mooring could not read the file.
FORMAT: Final = 2

#: Key of the row with the newest revision, which may have been a deletion. In the same table, so that one statement
#: writes both; no object has an empty key.
COUNTER: Final = ""

SCHEMA: Final = (
    """CREATE TABLE objects (
        key TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        revision INTEGER NOT NULL,
        created INTEGER NOT NULL
    ) STRICT""",
    f"INSERT INTO objects (key, value, revision, created) VALUES ('{COUNTER}', x'', 0, 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
#: From format 1, which had the counter in a separate table.
UPGRADE: Final = (
    f"INSERT INTO objects (key, value, revision, created) SELECT '{COUNTER}', x'', revision, 0 FROM meta",
    "DROP TABLE meta",
    f"PRAGMA user_version = {FORMAT}",
)
DELETE: Final = "DELETE FROM objects WHERE key = ?"

#: Prepared statements, one per batch size.
_CACHED_STATEMENTS: Final = 128

#: Advice by SQLite's primary result code.
REFUSALS: Final = {
    sqlite3.SQLITE_BUSY: "is in use: stop the process that has it open, or name another file",
    sqlite3.SQLITE_NOTADB: "is not a database: name another file, or move this one away",
    sqlite3.SQLITE_CORRUPT: "is damaged: put a copy in its place, or move it and its -wal file away to start empty",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that it is a file and that its directory may be written",
    sqlite3.SQLITE_READONLY: "cannot be written: check its permissions and those of its directory",
    sqlite3.SQLITE_FULL: "cannot be written because the disk is full: free disk space",
}


class SqliteFile:
    """An open, locked and checked file. Use `open`; all calls from one thread."""

    def __init__(self, path: Path, database: sqlite3.Connection, revision: Revision) -> None:
        self._path = path
        self._database = database
        self._revision = revision
        #: Why writes are refused: the file may differ from the records in memory.
        self._lost: str | None = None

    @classmethod
    def open(cls, path: Path, durability: Durability) -> Self:
        """Open or create the file. Raises StoreUnusable and leaves a foreign file unchanged."""
        _touch(path)
        try:
            database = sqlite3.connect(path, isolation_level=None, timeout=0, cached_statements=_CACHED_STATEMENTS)
            try:
                found = _lock(database, path)
                _configure(database, path, durability)
                if found == 0:
                    _execute_together(database, SCHEMA)
                elif found < FORMAT:
                    _check(database, path)
                    _execute_together(database, UPGRADE)
                return cls(path, database, _revision(database, path))
            except BaseException:
                database.close()
                raise
        except sqlite3.Error as cause:
            raise _unusable(path, cause) from cause

    def load(self) -> StoreState:
        """All records. Raises StoreUnusable if rows contradict each other."""
        try:
            # Check and load take 0.7 s for 100,000 records of 2 kB, half of it the check.
            _check(self._database, self._path)
            rows = self._database.execute(
                "SELECT key, value, revision, created FROM objects WHERE key <> ?", (COUNTER,)
            )
            records = [Record(key, value, revision, created) for key, value, revision, created in rows]
        except sqlite3.Error as cause:
            raise _unusable(self._path, cause) from cause
        for record in records:
            if not 0 < record.created <= record.revision <= self._revision:
                raise _damaged(self._path, f"{record.key} is newer than the file")
        return StoreState(records, self._revision)

    def commit(self, results: Mapping[str, Record | None], revision: Revision) -> None:
        """Write one batch: the final record of each key (None: deleted) and the newest revision.

        Raises StoreError if the file is unchanged, StoreUnusable if that is not certain.
        """
        if self._lost:
            raise StoreUnusable(self._lost)
        puts: list[object] = [COUNTER, b"", revision, 0]
        for record in filter(None, results.values()):
            puts += (record.key, record.value, record.revision, record.created)
        put = _put(len(puts) // 4)
        deletions = [(key,) for key, record in results.items() if record is None]
        try:
            if deletions:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany(DELETE, deletions)
                self._database.execute(put, puts)
                self._database.execute("COMMIT")
            else:
                # One statement is a transaction. Between two statements, or two rows of an `executemany`, this thread
                # would have to acquire the GIL and wait while the event loop is busy.
                self._database.execute(put, puts)
        except Exception as cause:
            self._roll_back()
            raise StoreError(f"nothing was written to {self._path}: {cause}") from cause
        self._revision = revision

    def close(self) -> None:
        self._database.close()

    def _roll_back(self) -> None:
        """Check after an error that the file has the revision in memory: a failed commit may have been written."""
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            found = _revision(self._database, self._path)
        except (sqlite3.Error, StoreUnusable) as cause:
            self._lost = f"writing to {self._path} failed and could not be undone ({cause}): check the disk, restart"
            raise StoreUnusable(self._lost) from cause
        if found != self._revision:
            self._lost = f"{self._path} is at revision {found} instead of {self._revision}: restart to reload it"
            raise StoreUnusable(self._lost)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Keeps every other process from opening the file inside the block, also a damaged one, which may be deleted there.

    Raises StoreUnusable if a process has it open.
    """
    database = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as cause:
            if cause.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise _unusable(path, cause) from cause
        yield
    finally:
        database.close()


def _touch(path: Path) -> None:
    """Create a missing file with mode 0600; SQLite would apply the umask. Its side files get the mode of this one."""
    try:
        # O_EXCL: closing an existing file would drop the POSIX locks this process has on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as cause:
        raise StoreUnusable(f"{path} cannot be created ({cause.strerror}): check its directory") from cause


def _lock(database: sqlite3.Connection, path: Path) -> int:
    """Lock the file and check its owner before any write: the format of a Mooring file, 0 for an empty one."""
    # The lock of the first read is kept: exclusive for a Mooring file, against writers for an empty one. Of two
    # processes that find it empty at the same time, at most one continues.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    owner, version = _number(database, "PRAGMA application_id"), _number(database, "PRAGMA user_version")
    tables = _number(database, "SELECT count(*) FROM sqlite_schema")
    if owner == version == tables == 0:
        return 0
    if owner != APPLICATION_ID:
        raise StoreUnusable(f"{path} belongs to another application: name another file, or move this one away")
    if version > FORMAT:
        raise StoreUnusable(
            f"{path} was written by a newer Mooring (format {version}, this one reads up to {FORMAT}):"
            " run the newer one, or name another file"
        )
    if version < 1:
        raise _damaged(path, f"format {version}")
    return version


def _configure(database: sqlite3.Connection, path: Path, durability: Durability) -> None:
    (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnusable(f"{path} is on a file system that does not support SQLite's WAL: name a file on another")
    match durability:
        case "full":
            database.execute("PRAGMA synchronous = FULL")
        case "normal":
            database.execute("PRAGMA synchronous = NORMAL")


def _execute_together(database: sqlite3.Connection, statements: Sequence[str]) -> None:
    """In one transaction: after a crash the file is as it was before."""
    database.execute("BEGIN EXCLUSIVE")
    for statement in statements:
        database.execute(statement)
    database.execute("COMMIT")


def _check(database: sqlite3.Connection, path: Path) -> None:
    for (verdict,) in database.execute("PRAGMA quick_check(1)"):
        if verdict != "ok":
            raise _damaged(path, verdict)


def _revision(database: sqlite3.Connection, path: Path) -> Revision:
    row = database.execute("SELECT revision FROM objects WHERE key = ?", (COUNTER,)).fetchone()
    if row is None:
        raise _damaged(path, "its revision is missing")
    return Revision(row[0])


@lru_cache(maxsize=_CACHED_STATEMENTS)
def _put(rows: int) -> str:
    """The statement that writes this many rows."""
    return (
        f"INSERT INTO objects (key, value, revision, created) VALUES {', '.join(['(?, ?, ?, ?)'] * rows)}"
        " ON CONFLICT (key) DO UPDATE"
        " SET value = excluded.value, revision = excluded.revision, created = excluded.created"
    )


def _number(database: sqlite3.Connection, query: str) -> int:
    (number,) = database.execute(query).fetchone()
    return int(number)


def _unusable(path: Path, cause: sqlite3.Error) -> StoreUnusable:
    # The low byte is the primary code; errors of the Python module have none.
    advice = REFUSALS.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF, "cannot be used: check the disk")
    return StoreUnusable(f"{path} {advice} ({cause})")


def _damaged(path: Path, detail: str) -> StoreUnusable:
    return StoreUnusable(f"{path} {REFUSALS[sqlite3.SQLITE_CORRUPT]} ({detail})")


#: Publishing blocks the event loop for 5 µs per change, 50 with 200 watches. Larger batches gain little: a write costs
#: 22 µs in batches of 64, 18 in those of 512.
MAX_BATCH_WRITES: Final = 512


class _QueuedWrite(NamedTuple):
    """A write before its commit, and the future its caller awaits."""

    write: Write
    result: asyncio.Future[StoreChange]


class SqliteStore(WatchCache):
    def __init__(
        self, file: SqliteFile, state: StoreState, thread: ThreadPoolExecutor, *, history: Limits, backlog: Limits
    ) -> None:
        """Use `open`."""
        super().__init__(state, history=history, backlog=backlog)
        self._file = file
        self._thread = thread
        self._queue: deque[_QueuedWrite] = deque()
        self._ready = asyncio.Event()
        self._committing = asyncio.create_task(self._commit_until_closed(), name="store commits")

    @classmethod
    async def open(
        cls, path: Path, durability: Durability = "full", *, history: Limits = HISTORY, backlog: Limits = BACKLOG
    ) -> Self:
        """Open or create the file and load it. Raises StoreUnusable."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        try:
            file, state = await asyncio.get_running_loop().run_in_executor(thread, _open, path, durability)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(file, state, thread, history=history, backlog=backlog)

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        """As in the contract. A cancelled call may have been committed."""
        self._refuse_if_closed()
        queued = _QueuedWrite(Write(key, value, expect, precondition), asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        self._ready.set()
        return await queued.result

    async def close(self) -> None:
        self._closed = True
        self._ready.set()
        await asyncio.shield(self._committing)

    async def _commit_until_closed(self) -> None:
        loop = asyncio.get_running_loop()
        batch: tuple[_QueuedWrite, ...] = ()
        try:
            while self._queue or not self._closed:
                if not self._queue:
                    self._ready.clear()
                    await self._ready.wait()
                    continue
                # Requests received together are about to queue their writes too: one commit for all of them.
                await _yield_once(loop)
                batch = tuple(self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH_WRITES)))
                await self._settle(batch)
        finally:
            # Also after an error: no caller may wait for a write that will not be committed.
            self._closed = True
            self._hub.close()
            for queued in (*batch, *self._queue):
                _refuse(queued, StoreClosed("the store closed before the write was committed"))
            await loop.run_in_executor(self._thread, self._file.close)
            self._thread.shutdown(wait=False)

    async def _settle(self, batch: Sequence[_QueuedWrite]) -> None:
        merged = WriteBatch(self._state)
        decisions = [merged.decide(queued.write) for queued in batch]
        if merged.changes:
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._thread, self._file.commit, merged.results, merged.revision)
            except StoreError as error:
                # A conflict may be with another write of this batch, so all of them fail.
                for queued in batch:
                    _refuse(queued, _copy_of(error))
                return
            self._apply(merged.changes)
        for queued, decided in zip(batch, decisions, strict=True):
            if not isinstance(decided, StoreChange):
                _refuse(queued, decided)
            elif not queued.result.done():
                queued.result.set_result(decided)


async def _yield_once(loop: asyncio.AbstractEventLoop) -> None:
    """Let all ready callbacks run first."""
    resumed = loop.create_future()
    loop.call_soon(resumed.set_result, None)
    await resumed


def _open(path: Path, durability: Durability) -> tuple[SqliteFile, StoreState]:
    file = SqliteFile.open(path, durability)
    try:
        return file, file.load()
    except StoreError:
        file.close()
        raise


def _refuse(queued: _QueuedWrite, error: StoreError) -> None:
    if not queued.result.done():  # else the caller was cancelled
        queued.result.set_exception(error)


def _copy_of(error: StoreError) -> StoreError:
    """One exception per caller: raising it adds to its traceback."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
