"""Write rates of the stores: SQLite at full durability, etcd and memory, with one and with several writers.

    python -m bench.store_writes [--writes N] [--size BYTES] [--directory DIR]

Each writer creates objects one after the other and waits for every acknowledgement. Read the ratios: the rates are the
machine's, above all its disk's. `commit` is one bare transaction with one row on the same file system, the minimal cost
of a durable write without group commit. CPU is that of the process of the store, all threads, and then that of etcd;
`catch up` is the revision read of a server on etcd before it serves a read. etcd is the one that `make conformance`
builds; without it its rows are left out.
"""

import argparse
import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from mooring.clock import SystemClock
from mooring.store.contract import ABSENT, Store
from mooring.store.etcd.settings import etcd_settings
from mooring.store.etcd.store import EtcdStore
from mooring.store.sqlite import SqliteFile, SqliteStore
from mooring.store.watch_cache import MemoryStore

DRIVER = Path(__file__).parents[1] / "conformance" / "build.py"


class Cost(NamedTuple):
    """Seconds of one write: on the clock, of this process's CPU, and of etcd's."""

    wall: float
    cpu: float
    etcd: float = 0.0


class Etcd(NamedTuple):
    url: str
    pid: int

    def cpu(self) -> float:
        user, system = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def etcd_binary() -> Path | None:
    looked = subprocess.run([sys.executable, DRIVER, "--check", "etcd"], capture_output=True, text=True, check=False)
    return Path(looked.stdout.strip()) / "etcd" if looked.returncode == 0 else None


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def running_etcd(binary: Path, directory: Path) -> Iterator[Etcd]:
    """As durable as it comes: every write waits for the disk. The store waits until it is there."""
    clients, peers = free_address(), free_address()
    flags = {
        "data-dir": directory / "etcd",
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"default={peers}",
        "log-level": "error",
    }
    process = subprocess.Popen([binary, *(f"--{name}={value}" for name, value in flags.items())])
    try:
        yield Etcd(clients, process.pid)
    finally:
        process.kill()
        process.wait()


async def cost_per_write(store: Store, *, writers: int, writes: int, value: bytes, etcd: Etcd | None = None) -> Cost:
    each = writes // writers

    async def write(writer: int) -> None:
        for n in range(each):
            await store.write(f"/core/pods/ns-{writer}/pod-{n}", value, expect=ABSENT)

    return await cost_per_call(lambda: asyncio.gather(*(write(n) for n in range(writers))), each * writers, etcd)


async def cost_per_call(run: Callable[[], Awaitable[object]], calls: int, etcd: Etcd | None) -> Cost:
    before = etcd.cpu() if etcd else 0.0
    wall, cpu = time.perf_counter(), time.process_time()
    await run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Cost(wall / calls, cpu / calls, ((etcd.cpu() - before) if etcd else 0.0) / calls)


def cost_per_commit(path: Path, *, writes: int, value: bytes) -> Cost:
    SqliteFile.open(path, "full").close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA synchronous = FULL")
        wall, cpu = time.perf_counter(), time.process_time()
        for n in range(writes):
            database.execute("INSERT INTO objects VALUES (?, ?, 1, 1)", (f"/core/pods/ns/pod-{n}", value))
        return Cost((time.perf_counter() - wall) / writes, (time.process_time() - cpu) / writes)


async def main(writes: int, size: int, directory: Path) -> None:
    value = os.urandom(size)

    async def on_disk(writers: int) -> Cost:
        store = await SqliteStore.open(directory / f"{writers}.db")
        try:
            return await cost_per_write(store, writers=writers, writes=writes, value=value)
        finally:
            await store.close()

    async def in_memory() -> Cost:
        return await cost_per_write(MemoryStore(), writers=1, writes=writes, value=value)

    async def bare() -> Cost:
        return cost_per_commit(directory / "bare.db", writes=writes, value=value)

    async def in_etcd(etcd: Etcd, writers: int) -> Cost:
        store = await EtcdStore.open(etcd_settings(etcd.url, prefix=f"/{writers}"), SystemClock())
        try:
            return await cost_per_write(store, writers=writers, writes=writes, value=value, etcd=etcd)
        finally:
            await store.close()

    async def caught_up(etcd: Etcd, readers: int) -> Cost:
        store = await EtcdStore.open(etcd_settings(etcd.url, prefix="/read"), SystemClock())

        async def read() -> None:
            for _ in range(writes // readers):
                await store.wait_current()

        try:
            return await cost_per_call(lambda: asyncio.gather(*(read() for _ in range(readers))), writes, etcd)
        finally:
            await store.close()

    rows: list[tuple[str, Callable[[], Awaitable[Cost]]]] = [
        ("commit, 1 row", bare),
        ("sqlite full, 1 writer", lambda: on_disk(1)),
        ("sqlite full, 16 writers", lambda: on_disk(16)),
        ("memory, 1 writer", in_memory),
    ]
    commit = 0.0
    print(f"{writes} creates of {size} bytes{'writes/s':>14}{'µs/write':>12}{'x commit':>12}{'µs CPU':>12}{'etcd':>10}")

    async def show(name: str, measure: Callable[[], Awaitable[Cost]]) -> None:
        nonlocal commit
        cost = await measure()
        commit = commit or cost.wall
        rates = f"{1 / cost.wall:14,.0f}{cost.wall * 1e6:12.1f}{cost.wall / commit:12.3g}"
        print(f"{name:28}{rates}{cost.cpu * 1e6:12.1f}{cost.etcd * 1e6:10.1f}")

    for name, measure in rows:
        await show(name, measure)
    if (binary := etcd_binary()) is None:
        return
    with running_etcd(binary, directory) as etcd:
        await show("etcd, 1 writer", lambda: in_etcd(etcd, 1))
        await show("etcd, 16 writers", lambda: in_etcd(etcd, 16))
        await show("etcd, catch up, 1 reader", lambda: caught_up(etcd, 1))
        await show("etcd, catch up, 16 readers", lambda: caught_up(etcd, 16))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--writes", type=int, default=8000)
    arguments.add_argument("--size", type=int, default=2000, help="bytes of each value (a small pod has 2,000)")
    arguments.add_argument("--directory", type=Path, help="where to put the files: the disk to measure")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as scratch:
        asyncio.run(main(asked.writes, asked.size, Path(scratch)))
