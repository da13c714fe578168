"""How fast the store takes writes: SQLite at full durability, alone and in company, next to memory.

    python bench/store_writes.py [--writes N] [--size BYTES] [--directory DIR]

Each writer creates objects one after the other and waits for every acknowledgement. Read the ratios: the rates are
the machine's, above all its disk's. `commit` is one bare transaction with one row on the same file system, the
least a durable write can cost without company.
"""

import argparse
import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from mooring.store.contract import ABSENT, Store
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore
from mooring.store.sqlite_file import SqliteFile


async def seconds_per_write(store: Store, *, writers: int, writes: int, value: bytes) -> float:
    each = writes // writers

    async def write(writer: int) -> None:
        for n in range(each):
            await store.write(f"/core/pods/ns-{writer}/pod-{n}", value, expect=ABSENT)

    began = time.perf_counter()
    await asyncio.gather(*(write(writer) for writer in range(writers)))
    return (time.perf_counter() - began) / (each * writers)


def seconds_per_commit(path: Path, *, writes: int, value: bytes) -> float:
    SqliteFile.open(path, "full").close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA synchronous = FULL")
        began = time.perf_counter()
        for n in range(writes):
            database.execute("INSERT INTO objects VALUES (?, ?, 1, 1)", (f"/core/pods/ns/pod-{n}", value))
        return (time.perf_counter() - began) / writes


async def main(writes: int, size: int, directory: Path) -> None:
    value = os.urandom(size)

    async def on_disk(writers: int) -> float:
        store = await SqliteStore.open(directory / f"{writers}.db")
        try:
            return await seconds_per_write(store, writers=writers, writes=writes, value=value)
        finally:
            await store.close()

    async def in_memory() -> float:
        return await seconds_per_write(MemoryStore(), writers=1, writes=writes, value=value)

    async def bare() -> float:
        return seconds_per_commit(directory / "bare.db", writes=writes, value=value)

    rows: list[tuple[str, Callable[[], Awaitable[float]]]] = [
        ("commit, 1 row", bare),
        ("sqlite full, 1 writer", lambda: on_disk(1)),
        ("sqlite full, 16 writers", lambda: on_disk(16)),
        ("memory, 1 writer", in_memory),
    ]
    print(f"{writes} creates of {size} bytes{'writes/s':>14}{'µs/write':>12}{'x commit':>12}")
    commit = 0.0
    for name, measure in rows:
        seconds = await measure()
        commit = commit or seconds
        print(f"{name:28}{1 / seconds:14,.0f}{seconds * 1e6:12.1f}{seconds / commit:12.3g}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--writes", type=int, default=8000)
    arguments.add_argument("--size", type=int, default=2000, help="bytes of each value (a small pod has 2,000)")
    arguments.add_argument("--directory", type=Path, help="where to put the files: the disk to measure")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as scratch:
        asyncio.run(main(asked.writes, asked.size, Path(scratch)))
