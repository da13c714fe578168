"""Which files are opened or refused, and the state after a failed commit."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mooring.store.contract import ABSENT, Listing, Record, Revision, StoreError, StoreUnusable
from mooring.store.sqlite import APPLICATION_ID, COUNTER, FORMAT, Durability, SqliteFile, SqliteStore


def make(path: Path, *, records: int = 1) -> None:
    """A closed file with this many records."""
    file = SqliteFile.open(path, "normal")
    rows = [Record(f"/{n}", b"%d" % n * 300, Revision(n), Revision(n)) for n in range(1, records + 1)]
    file.commit({row.key: row for row in rows}, Revision(records))
    file.close()


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def not_a_database(path: Path) -> None:
    path.write_text("apiVersion: v1\n" * 100)


def of_another_application(path: Path) -> None:
    tamper(path, "PRAGMA application_id = 42", "CREATE TABLE theirs (x)")


def without_application_id(path: Path) -> None:
    tamper(path, "CREATE TABLE objects (key TEXT PRIMARY KEY, value BLOB)")


def newer(path: Path) -> None:
    make(path)
    tamper(path, f"PRAGMA user_version = {FORMAT + 1}")


def older_than_any(path: Path) -> None:
    tamper(path, f"PRAGMA application_id = {APPLICATION_ID}")


def cut_short(path: Path) -> None:
    make(path, records=100)
    path.write_bytes(path.read_bytes()[:-8192])


def behind_its_own_records(path: Path) -> None:
    make(path, records=3)
    tamper(path, f"UPDATE objects SET revision = 2 WHERE key = '{COUNTER}'")


def without_a_revision(path: Path) -> None:
    make(path)
    tamper(path, f"DELETE FROM objects WHERE key = '{COUNTER}'")


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        pytest.param(not_a_database, "is not a database: name another file", id="not a database"),
        pytest.param(of_another_application, "belongs to another application: name", id="another application's"),
        pytest.param(without_application_id, "belongs to another application: name", id="no application id"),
        pytest.param(newer, r"newer Mooring \(format 3, .* up to 2\): run the newer one", id="newer format"),
        pytest.param(older_than_any, "is damaged: put a copy in its place", id="unknown format"),
        pytest.param(cut_short, "is damaged: put a copy in its place", id="cut short"),
        pytest.param(behind_its_own_records, "is damaged: .* newer than the file", id="counter set back"),
        pytest.param(without_a_revision, r"is damaged: .* \(its revision is missing\)", id="counter lost"),
    ],
)
def test_unusable_file_is_refused_and_unchanged(path: Path, prepare: Callable[[Path], None], says: str) -> None:
    prepare(path)
    content = path.read_bytes()
    with pytest.raises(StoreUnusable, match=says) as refused:
        asyncio.run(SqliteStore.open(path))
    assert str(path) in str(refused.value)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def as_format_1(path: Path) -> None:
    """Format 1 had the counter in a separate table."""
    tamper(
        path,
        "CREATE TABLE meta (revision INTEGER NOT NULL) STRICT",
        f"INSERT INTO meta SELECT revision FROM objects WHERE key = '{COUNTER}'",
        f"DELETE FROM objects WHERE key = '{COUNTER}'",
        "PRAGMA user_version = 1",
    )


def test_format_1_file_is_upgraded(path: Path) -> None:
    make(path, records=3)
    as_format_1(path)
    for _ in ("upgraded", "opened again"):
        file = SqliteFile.open(path, "full")
        found = file.load()
        assert (found.revision, [record.key for record in found.under("").records]) == (3, ["/1", "/2", "/3"])
        file.close()


def test_damaged_format_1_file_is_unchanged(path: Path) -> None:
    make(path, records=100)
    as_format_1(path)
    content = path.read_bytes()[:-8192]
    path.write_bytes(content)
    with pytest.raises(StoreUnusable, match="is damaged"):
        SqliteFile.open(path, "full")
    assert path.read_bytes() == content


def test_overwritten_page_is_detected(path: Path) -> None:
    make(path, records=40)
    content = path.read_bytes()
    for start in range(4096, len(content), 4096):
        path.write_bytes(content[:start] + b"\xff" * 4096 + content[start + 4096 :])
        with pytest.raises(StoreUnusable, match="is damaged: put a copy in its place"):
            asyncio.run(SqliteStore.open(path))


async def test_invalid_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"cannot be created \(No such file or directory\): check its directory"):
        await SqliteStore.open(tmp_path / "missing" / "objects.db")
    with pytest.raises(StoreUnusable, match="cannot be opened: check that it is a file"):
        await SqliteStore.open(tmp_path)


def test_empty_file_is_initialized(path: Path) -> None:
    path.touch()
    make(path)
    assert path.stat().st_size > 0


@pytest.mark.parametrize(
    ("durability", "level"),
    [
        pytest.param("full", 2, id="full waits for the disk at every commit"),
        pytest.param("normal", 1, id="normal at checkpoints"),
    ],
)
def test_durability_sets_synchronous_pragma(path: Path, durability: Durability, level: int) -> None:
    """Read from the connection: only a power failure would show the difference."""
    for _ in ("made", "opened again"):
        file = SqliteFile.open(path, durability)
        assert file._database.execute("PRAGMA synchronous").fetchone() == (level,)
        assert file._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        file.close()


def test_interrupted_batch_is_rolled_back(path: Path) -> None:
    file = SqliteFile.open(path, "full")
    good = Record("/good", b"", Revision(1), Revision(1))
    bad = Record("/\ud800", b"", Revision(2), Revision(2))
    with pytest.raises(StoreError, match="nothing was written"):
        file.commit({"/good": good, bad.key: bad}, Revision(2))
    assert file.load().under("") == Listing((), ABSENT)
    file.commit({"/good": good}, Revision(1))
    assert file.load().under("") == Listing((good,), Revision(1))
    file.close()


def test_failed_rollback_refuses_further_writes(path: Path) -> None:
    file = SqliteFile.open(path, "full")
    file.close()
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=r"could not be undone .*: check the disk, restart"):
            file.commit({}, Revision(1))
