"""API server throughput: durable creates, a long list, many watchers, and a hundred thousand objects.

    python -m bench.api_server [--clients N] [--creates N] [--objects N] [--directory DIR]

A `mooring apiserver` in its own process on an SQLite file, over TLS on loopback; the clients in this process are
hand-written HTTP on asyncio streams, so that what is measured is the server. On two cores, server and clients share
them: read the figures as those of a laptop, and the ratios as the cost of the server.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import ssl
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from mooring.api.kinds import NAMESPACE, POD
from mooring.clock import SystemClock
from mooring.server.api import ApiServer
from mooring.server.contract import Target, User, WriteOptions
from mooring.store.sqlite import SqliteStore

#: Variables of its container that make a pod weigh 2 kB once it is stored.
VARIABLES: Final = 18
USER: Final = User("bench", ("system:masters",))
PODS: Final = "/api/v1/namespaces/default/pods"


def pod(name: str) -> bytes:
    environment = [{"name": f"VARIABLE_{n}", "value": "x" * 20} for n in range(VARIABLES)]
    container = {
        "name": "main",
        "image": "registry.example/app:1.0",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "env": environment,
    }
    labels = {"app": "bench", "tier": "front", "version": "v1"}
    return msgspec.json.encode({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}})


class Connection:
    """One keep-alive connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        self.send(method, path, body)
        return await self.answer()

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        line = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode()
        self._writer.write(line + self._head + body)

    async def answer(self) -> tuple[int, bytes]:
        code, length = await self.headers()
        return code, await self._reader.readexactly(length)

    async def headers(self) -> tuple[int, int]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        return int(head[9:12]), int(length[1]) if length else 0

    async def chunk(self) -> bytes:
        """One piece of a chunked response."""
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    def close(self) -> None:
        self._writer.transport.abort()


class Server:
    """A running `mooring apiserver`."""

    def __init__(self, process: asyncio.subprocess.Process, kubeconfig: Path) -> None:
        self.process = process
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._port = int(cluster["server"].rpartition(":")[2])
        self._trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        token = config["users"][0]["user"]["token"]
        head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\r\n"
        self._head = head.encode()

    async def connect(self) -> Connection:
        streams = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust, limit=1 << 26)
        return Connection(*streams, self._head)

    @property
    def resident(self) -> float:
        """Megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found
        return int(found[1]) / 1024

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[Server]:
    command = (sys.executable, "-m", "mooring", "apiserver", "--data-dir", str(data), "--secure-port", "0")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    while await process.stdout.readline() != b"ready\n":
        assert process.returncode is None
    try:
        yield Server(process, data / "kubeconfig")
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def create(server: Server, names: list[str], clients: int) -> list[float]:
    """Create all of them; return the seconds of each."""
    waiting = iter(names)
    took: list[float] = []

    async def client() -> None:
        connection = await server.connect()
        for name in waiting:
            began = time.perf_counter()
            code, answer = await connection.ask("POST", PODS, pod(name))
            took.append(time.perf_counter() - began)
            assert code == 201, answer
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return took


async def watchers(server: Server, count: int, rate: int, seconds: float) -> tuple[int, float, float]:
    """`count` watches of one kind during `rate` writes a second: completed writes, and the delay of events."""
    late: list[float] = []
    sent: dict[bytes, float] = {}
    numbered = re.compile(rb'"n":"(\d+)"')

    async def watch(version: bytes, expected: asyncio.Event) -> None:
        connection = await server.connect()
        connection.send("GET", f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version.decode()}")
        await connection.headers()
        expected.set()
        seen = b""
        while True:
            lines = await connection.chunk()
            now = time.perf_counter()
            for number in numbered.findall(lines):
                if number != seen:
                    late.append(now - sent[number])
                    seen = number

    configs = "/api/v1/namespaces/default/configmaps"
    writer = await server.connect()
    _, listing = await writer.ask("GET", configs)
    version = msgspec.json.decode(listing)["metadata"]["resourceVersion"].encode()
    ready = [asyncio.Event() for _ in range(count)]
    tasks = [asyncio.create_task(watch(version, one)) for one in ready]
    await asyncio.gather(*(one.wait() for one in ready))
    writers = [await server.connect() for _ in range(16)]
    for number, connection in enumerate(writers):
        await connection.ask("POST", configs, msgspec.json.encode({"metadata": {"name": f"c{number}"}}))
    began, done = time.perf_counter(), 0

    async def write(own: int, connection: Connection) -> None:
        nonlocal done
        while (now := time.perf_counter()) - began < seconds:
            if done >= (now - began) * rate:
                await asyncio.sleep(0.002)
                continue
            done += 1
            number = b"%d" % done
            sent[number] = time.perf_counter()
            body = b'{"metadata":{"name":"c%d"},"data":{"n":"%b"}}' % (own, number)
            code, answer = await connection.ask("PUT", f"{configs}/c{own}", body)
            assert code == 200, answer

    await asyncio.gather(*(write(own, connection) for own, connection in enumerate(writers)))
    await asyncio.sleep(1.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    late.sort()
    assert len(late) >= done * count * 0.99, (len(late), done * count)
    return done, late[len(late) // 2], late[-1]


def per_mille(values: list[float], part: int) -> float:
    return sorted(values)[min(len(values) * part // 1000, len(values) - 1)]


async def timed(server: Server, path: str) -> tuple[float, int]:
    connection = await server.connect()
    best, size = 9e9, 0
    for _ in range(5):
        began = time.perf_counter()
        code, answer = await connection.ask("GET", path)
        best = min(best, time.perf_counter() - began)
        assert code == 200
        size = len(answer)
    connection.close()
    return best, size


async def main(options: Any, scratch: Path) -> None:  # noqa: ANN401
    data = scratch / "data"
    async with serving(data) as server:
        await create(server, [f"warm-{n}" for n in range(200)], options.clients)
        before, began = server.cpu_seconds, time.perf_counter()
        took = await create(server, [f"pod-{n:06}" for n in range(options.creates)], options.clients)
        seconds, used = time.perf_counter() - began, server.cpu_seconds - before
        print(f"durable creates, {options.clients} clients  {options.creates / seconds:10,.0f}/s", end="")
        print(f"   {used / options.creates * 1e6:6.0f} µs of the server each", end="")
        print(f"   p50 {per_mille(took, 500) * 1e3:.1f} ms, p99 {per_mille(took, 990) * 1e3:.1f} ms")
        best, size = await timed(server, PODS)
        print(f"list of {options.creates + 200:,} pods ({size / 1e6:.0f} MB)       {best * 1e3:8.0f} ms")
        best, size = await timed(server, f"{PODS}?limit=500")
        print(f"page of 500                          {best * 1e3:8.1f} ms")
        before = server.cpu_seconds
        done, middle, last = await watchers(server, options.watchers, options.rate, options.seconds)
        used = server.cpu_seconds - before
        print(f"{options.watchers} watchers, {done / options.seconds:,.0f} writes/s           ", end="")
        print(f"p50 {middle * 1e3:.0f} ms behind, worst {last * 1e3:.0f} ms", end="")
        print(f"   {used / done * 1e6:.0f} µs of the server per write")
    if options.objects:
        await many(scratch, options.objects)


async def many(data: Path, count: int) -> None:
    """A server on a file with many objects: seconds until ready, memory, and response times."""
    store = await SqliteStore.open(data / "state.db", "normal")
    api = ApiServer(store, SystemClock(), random.Random(1))
    await api.create(USER, Target(NAMESPACE), {"metadata": {"name": "default"}}, WriteOptions())
    names = iter(f"pod-{number:06}" for number in range(count))

    async def fill() -> None:
        for name in names:
            await api.create(USER, Target(POD, "default"), msgspec.json.decode(pod(name)), WriteOptions())

    await asyncio.gather(*(fill() for _ in range(256)))
    await store.close()
    began, used = time.perf_counter(), time.process_time()
    store = await SqliteStore.open(data / "state.db")
    took, used = time.perf_counter() - began, time.process_time() - used
    print(f"{count:,} objects: the store opens in {took * 1e3:.0f} ms ({used * 1e3:.0f} ms of a core)", end="")
    await store.close()
    began = time.perf_counter()
    async with serving(data) as server:
        print(f", the server is ready after {(time.perf_counter() - began) * 1e3:.0f} ms", end="")
        print(f" and holds {server.resident:.0f} MB")
        best, size = await timed(server, PODS)
        print(f"list of all ({size / 1e6:.0f} MB)               {best * 1e3:8.0f} ms")
        best, _ = await timed(server, f"{PODS}?limit=500")
        print(f"page of 500                          {best * 1e3:8.1f} ms")
        best, _ = await timed(server, f"{PODS}?labelSelector=app%3Dnone")
        print(f"list by a label that none has        {best * 1e3:8.0f} ms")
        began = time.perf_counter()
        watch = await server.connect()
        watch.send(
            "GET", f"{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
        )
        await watch.headers()
        while b"initial-events-end" not in await watch.chunk():
            pass
        print(f"watch until all are there            {(time.perf_counter() - began) * 1e3:8.0f} ms")
        watch.close()
        print(f"afterwards it holds {server.resident:.0f} MB")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--clients", type=int, default=16)
    arguments.add_argument("--creates", type=int, default=10_000)
    arguments.add_argument("--watchers", type=int, default=200)
    arguments.add_argument("--rate", type=int, default=1000, help="writes a second while there are watchers")
    arguments.add_argument("--seconds", type=float, default=5, help="how long the watchers are kept busy")
    arguments.add_argument("--objects", type=int, default=0, help="also create this many objects, and restart")
    arguments.add_argument("--directory", type=Path, help="where to put the file: the disk to measure")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as folder:
        asyncio.run(main(asked, Path(folder)))
