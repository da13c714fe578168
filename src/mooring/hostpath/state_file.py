"""State stores of volume records: in memory, and in SQLite with group commit.

A lock excludes a second driver on the same directory. Format 0 was one JSON document, `state.json`, which is imported.
"""

import asyncio
import errno
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from mooring.hostpath.records import PersistedState, VolumeRecord

T = TypeVar("T")


class GroupCommit(Generic[T]):
    """Concurrent callers share one flush: items that arrive during a flush go into the next one."""

    def __init__(self, flush: Callable[[Sequence[T]], None]) -> None:
        """`flush` blocks until the items are durable and raises OSError when they are not; it runs in a thread, never
        twice at once."""
        self._flush = flush
        self._queue: list[tuple[T, asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> None:
        """Return when a flush that began after this call has succeeded; raise the OSError of that flush."""
        done = asyncio.get_running_loop().create_future()
        self._queue.append((item, done))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._run(), name="group commit")
        await done

    async def _run(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                failure: Exception | None = None
                try:
                    await asyncio.to_thread(self._flush, [item for item, _ in batch])
                except Exception as error:
                    failure = error
                for _, done in batch:
                    if done.done():
                        continue
                    if failure is None:
                        done.set_result(None)
                    else:
                        done.set_exception(failure)
        finally:
            self._flusher = None


class RecordChange(NamedTuple):
    """A volume's new record, None if the volume is deleted. `serial` counts the ids assigned until then."""

    volume_id: str
    record: VolumeRecord | None
    serial: int


class StateStore(Protocol):
    async def load(self) -> PersistedState: ...

    async def write(self, change: RecordChange) -> None:
        """Durable on return. OSError: the change is not persisted. After a crash `load` returns a change in whole or
        not at all; changes of one volume are awaited one after the other."""


class MemoryState:
    def __init__(self) -> None:
        self._serial = 0
        self._volumes: dict[str, VolumeRecord] = {}

    async def load(self) -> PersistedState:
        return PersistedState(self._serial, tuple(self._volumes.values()))

    async def write(self, change: RecordChange) -> None:
        self._serial = max(self._serial, change.serial)
        if change.record is None:
            self._volumes.pop(change.volume_id, None)
        else:
            self._volumes[change.volume_id] = change.record


NAME: Final = "state.db"
JSON_NAME: Final = "state.json"
IMPORTED_SUFFIX: Final = ".imported"
#: Kept in SQLite's `user_version`.
FORMAT: Final = 1
SCHEMA: Final = (
    "CREATE TABLE volumes (volume_id TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE serial (value INTEGER NOT NULL) STRICT",
    "INSERT INTO serial VALUES (0)",
    f"PRAGMA user_version = {FORMAT}",
)
PUT: Final = "INSERT INTO volumes VALUES (?, ?) ON CONFLICT (volume_id) DO UPDATE SET record = excluded.record"
REMOVE: Final = "DELETE FROM volumes WHERE volume_id = ?"
COUNT: Final = "UPDATE serial SET value = max(value, ?)"


class StateUnusable(Exception):
    """The state folder cannot be used; the text says why and what to do."""


class StateFile:
    """`open` before use, `close` at the end; the system lifts the lock when the process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / NAME
        self._lock: int | None = None
        self._opened: sqlite3.Connection | None = None
        #: Held by the thread that uses the database: a caller that was cancelled leaves its thread behind, and closing
        #: a database that is in use ends the process.
        self._in_use = threading.Lock()
        self._commits = GroupCommit(self._commit)

    def open(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateUnusable(f"cannot use {self._folder}: {error.strerror}") from error
        self._lock = lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._opened = self._open()
        except BlockingIOError as error:
            self.close()
            raise StateUnusable(f"another driver uses {self._folder}: give each its own --state-dir") from error
        except OSError as error:
            self.close()
            raise StateUnusable(f"cannot use {self._file}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._in_use:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def load(self) -> PersistedState:
        return await asyncio.to_thread(self._load)

    async def write(self, change: RecordChange) -> None:
        await self._commits.submit(change)

    @property
    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            raise OSError(errno.EBADF, "the state database is not open")
        return self._opened

    def _open(self) -> sqlite3.Connection:
        # Volume ids keep other users of the machine out of the volumes: only the owner may read them.
        os.close(os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        # Flushes run in threads of a pool, one at a time.
        database = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL"):
                database.execute(f"PRAGMA {pragma}")
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if found > FORMAT:
                raise StateUnusable(f"{self._file} has format {found}: start a driver that is as new as the last one")
            if found == 0:
                self._create(database)
            self._set_aside_json()
        except sqlite3.Error as error:
            database.close()
            raise self._damaged(error) from error
        except BaseException:
            database.close()
            raise
        return database

    def _create(self, database: sqlite3.Connection) -> None:
        """Tables and the records of format 0 in one transaction: a crash leaves both or neither."""
        earlier = self._load_json()
        with database:
            database.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                database.execute(statement)
            database.execute(COUNT, (earlier.serial,))
            database.executemany(PUT, [(volume.volume_id, msgspec.json.encode(volume)) for volume in earlier.volumes])

    def _load_json(self) -> PersistedState:
        file = self._folder / JSON_NAME
        try:
            return msgspec.json.decode(file.read_bytes(), type=PersistedState)
        except FileNotFoundError:
            return PersistedState()
        except msgspec.DecodeError as error:
            raise StateUnusable(
                f"{file} is damaged: {error}; repair it, or move it away to start without volumes"
            ) from error

    def _set_aside_json(self) -> None:
        file = self._folder / JSON_NAME
        if file.exists():
            file.replace(file.with_name(JSON_NAME + IMPORTED_SUFFIX))

    def _load(self) -> PersistedState:
        try:
            with self._in_use:
                database = self._database
                (report,) = database.execute("PRAGMA quick_check(1)").fetchone()
                if report != "ok":
                    raise self._damaged(report)
                (serial,) = database.execute("SELECT value FROM serial").fetchone()
                rows = database.execute("SELECT record FROM volumes ORDER BY volume_id").fetchall()
            return PersistedState(serial, tuple(msgspec.json.decode(record, type=VolumeRecord) for (record,) in rows))
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise self._damaged(error) from error

    def _commit(self, changes: Sequence[RecordChange]) -> None:
        try:
            with self._in_use, self._database as database:
                database.execute("BEGIN IMMEDIATE")
                for change in changes:
                    if change.record is None:
                        database.execute(REMOVE, (change.volume_id,))
                    else:
                        database.execute(PUT, (change.volume_id, msgspec.json.encode(change.record)))
                database.execute(COUNT, (max(change.serial for change in changes),))
        except sqlite3.Error as error:
            is_full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
            raise OSError(errno.ENOSPC if is_full else errno.EIO, str(error)) from error

    def _damaged(self, why: object) -> StateUnusable:
        return StateUnusable(f"{self._file} is damaged: {why}; put a copy in its place, or move it away to start empty")
