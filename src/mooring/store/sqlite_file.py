"""The file under the SQLite store: made, checked, read whole, and written one transaction at a time.

Plain blocking code that belongs to one thread, the store's. It keeps the current records and the newest revision,
no history. The file is locked while it is open, since the store answers reads from memory and nobody else may
change what is underneath; so it is copied while the store is stopped.
"""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, Self

from mooring.store.contract import Record, Revision, StoreError, StoreUnusable
from mooring.store.state import State

#: `full` waits for the disk at every commit; `normal` may lose the last commits when the power fails, never when
#: only the process dies.
Durability = Literal["full", "normal"]

#: "Moor" in the file's header, where SQLite and file(1) look for the owner.
APPLICATION_ID: Final = 0x4D6F6F72
#: Kept in SQLite's `user_version`. Raised whenever an older Mooring could not read the file any more.
FORMAT: Final = 2

#: The key of the row that is no record: its revision is the newest there was, which may have been a deletion. It lies
#: among the records so that one statement can write both; no object has an empty key.
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
#: From format 1, which had the counter in a table of its own.
UPGRADE: Final = (
    f"INSERT INTO objects (key, value, revision, created) SELECT '{COUNTER}', x'', revision, 0 FROM meta",
    "DROP TABLE meta",
    f"PRAGMA user_version = {FORMAT}",
)
DELETE: Final = "DELETE FROM objects WHERE key = ?"

#: Sizes of batches whose statements are kept ready.
_STATEMENTS_KEPT: Final = 128

#: What to do about a file that SQLite itself refuses, by its primary result code.
REFUSALS: Final = {
    sqlite3.SQLITE_BUSY: "is in use: stop the process that has it open, or name another file",
    sqlite3.SQLITE_NOTADB: "is not a database: name another file, or move this one away",
    sqlite3.SQLITE_CORRUPT: "is damaged: put a copy in its place, or move it and its -wal file away to start empty",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that it is a file and that its directory may be written",
    sqlite3.SQLITE_READONLY: "cannot be written: check its permissions and those of its directory",
    sqlite3.SQLITE_FULL: "cannot be written because the disk is full: make room",
}


class SqliteFile:
    """An open, locked and checked file. Use `open`; all calls from one thread."""

    def __init__(self, path: Path, database: sqlite3.Connection, revision: Revision) -> None:
        self._path = path
        self._database = database
        self._revision = revision
        #: Why nothing more may be written, once the file's state is not known to be the memory's.
        self._lost: str | None = None

    @classmethod
    def open(cls, path: Path, durability: Durability) -> Self:
        """Open the file, or make it. Raises StoreUnusable and leaves a file that is not ours as it was."""
        _touch(path)
        try:
            database = sqlite3.connect(path, isolation_level=None, timeout=0, cached_statements=_STATEMENTS_KEPT)
            try:
                found = _take(database, path)
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

    def load(self) -> State:
        """Everything there is. Raises StoreUnusable where rows contradict each other."""
        try:
            # Both together take 0.7 s for 100,000 records of 2 kB, half of it the check.
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
        return State(records, self._revision)

    def commit(self, outcome: Mapping[str, Record | None], revision: Revision) -> None:
        """Make one batch durable: what each key comes to, and the newest revision.

        Raises StoreError when the file is as it was, StoreUnusable when that is not certain.
        """
        if self._lost:
            raise StoreUnusable(self._lost)
        puts: list[object] = [COUNTER, b"", revision, 0]
        for record in filter(None, outcome.values()):
            puts += (record.key, record.value, record.revision, record.created)
        put = _put(len(puts) // 4)
        deletions = [(key,) for key, record in outcome.items() if record is None]
        try:
            if deletions:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany(DELETE, deletions)
                self._database.execute(put, puts)
                self._database.execute("COMMIT")
            else:
                # A transaction by itself. Between any two statements, and any two rows of an `executemany`, this
                # thread would ask for the interpreter, and wait for as long as the event loop has something to do.
                self._database.execute(put, puts)
        except Exception as cause:
            self._roll_back()
            raise StoreError(f"nothing was written to {self._path}: {cause}") from cause
        self._revision = revision

    def close(self) -> None:
        self._database.close()

    def _roll_back(self) -> None:
        """After an error, see that the file is where memory is, for a failed commit says nothing about that."""
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            found = _revision(self._database, self._path)
        except (sqlite3.Error, StoreUnusable) as cause:
            self._lost = f"writing to {self._path} failed and could not be undone ({cause}): check the disk, restart"
            raise StoreUnusable(self._lost) from cause
        if found != self._revision:
            self._lost = f"{self._path} is at revision {found} instead of {self._revision}: restart to read it anew"
            raise StoreUnusable(self._lost)


def _touch(path: Path) -> None:
    """Make the file if it is missing, for SQLite would ask the umask; its side files take the mode of this one."""
    try:
        # Never an existing one: to close it would drop the lock of whoever has it open in this process.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as cause:
        raise StoreUnusable(f"{path} cannot be made ({cause.strerror}): check its directory") from cause


def _take(database: sqlite3.Connection, path: Path) -> int:
    """Lock the file and see whose it is before anything is written: the format of ours, 0 where it is nobody's yet."""
    # What the first read locks stays locked: a file of ours against all others, an empty one against writers. Of two
    # processes that find it empty at the same moment, at most one can go on.
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
        raise StoreUnusable(f"{path} is on a file system without what SQLite's WAL needs: name a file on another")
    match durability:
        case "full":
            database.execute("PRAGMA synchronous = FULL")
        case "normal":
            database.execute("PRAGMA synchronous = NORMAL")


def _execute_together(database: sqlite3.Connection, statements: Sequence[str]) -> None:
    """In one transaction: a file whose making was cut short is still empty, one whose upgrade was is as it was."""
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


@lru_cache(maxsize=_STATEMENTS_KEPT)
def _put(rows: int) -> str:
    """The statement that writes so many rows."""
    return (
        f"INSERT INTO objects (key, value, revision, created) VALUES {', '.join(['(?, ?, ?, ?)'] * rows)}"
        " ON CONFLICT (key) DO UPDATE"
        " SET value = excluded.value, revision = excluded.revision, created = excluded.created"
    )


def _number(database: sqlite3.Connection, query: str) -> int:
    (number,) = database.execute(query).fetchone()
    return int(number)


def _unusable(path: Path, cause: sqlite3.Error) -> StoreUnusable:
    # The low byte is the primary code; an error of the Python module itself has none.
    advice = REFUSALS.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF, "cannot be used: check the disk")
    return StoreUnusable(f"{path} {advice} ({cause})")


def _damaged(path: Path, detail: str) -> StoreUnusable:
    return StoreUnusable(f"{path} {REFUSALS[sqlite3.SQLITE_CORRUPT]} ({detail})")
