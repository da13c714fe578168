"""An informer behind a faulty proxy: every connection is cut ten times a second under continuous writes.

`check_informer_under_cuts` runs against any API server; it fails if a version is delivered out of order, if the cache
does not converge, or, in long runs, if memory of this process grows.
"""

import asyncio
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Final

from mooring.api.kinds import CONFIG_MAP
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.client.informer import Informer
from mooring.clock import SystemClock
from support.network.cuttable_proxy import CuttableProxy

#: `make soak` sets a longer duration.
SECONDS: Final = float(os.environ.get("MOORING_SOAK_SECONDS", "2"))
WRITES_PER_SECOND: Final = 1_000
OBJECTS: Final = 60


class FastClock(SystemClock):
    """Sleeps a fiftieth of the time: with real backoff there would hardly be a connection to cut."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50)


async def write_without_pause(client: Client, writer: int, writers: int) -> int:
    """Create, change and delete a few objects, so that each has a long history. Returns the number of writes."""
    rng = random.Random(writer)
    names = [f"item-{writer}-{number}" for number in range(OBJECTS // writers)]
    there: set[str] = set()
    began = asyncio.get_running_loop().time()
    written = 0
    while (passed := asyncio.get_running_loop().time() - began) < SECONDS:
        if written > passed * WRITES_PER_SECOND / writers:
            await asyncio.sleep(0.001)
            continue
        name = rng.choice(names)
        if name not in there:
            await client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")
            there.add(name)
        elif rng.random() < 0.1:
            await client.delete(CONFIG_MAP, name, namespace="default")
            there.remove(name)
        else:
            patch = MergePatch({"metadata": {"labels": {"written": str(written)}}})
            await client.patch(CONFIG_MAP, name, patch, namespace="default")
        written += 1
    return written


async def cut_every(link: CuttableProxy, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        link.cut()


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def sample_memory(samples: list[float]) -> None:
    """Resident memory of this process once a second: writer and informer, and the server if it is embedded."""
    while True:
        await asyncio.sleep(1)
        samples.append(resident_megabytes())


def assert_flat(samples: list[float]) -> None:
    """Once every bounded history is full, memory must not grow. Short runs end before that."""
    if len(samples) >= 40:
        quarter = len(samples) // 4
        early, late = max(samples[quarter : 2 * quarter]), max(samples[-quarter:])
        print(f"{early:.1f} MB at most in the second quarter, {late:.1f} MB in the last")
        assert late - early < 16


class OrderCheck:
    """Checks the order of the informer's events."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.present: dict[str, ApiObject] = {}
        self.events = 0

    def __call__(self, before: ApiObject | None, after: ApiObject | None) -> None:
        self.events += 1
        item = after or before
        assert item is not None
        assert self.present.get(item.key) == before
        if after is None:
            del self.present[item.key]
            return
        version = int(after.metadata.resource_version)
        assert version > self.versions.get(item.key, 0)
        self.versions[item.key] = version
        self.present[item.key] = after


async def check_informer_under_cuts(access: Access, *, writers: int) -> None:
    clock = SystemClock()
    writer = HttpClient(access, component="writer", clock=clock)
    link = CuttableProxy("127.0.0.1", int(access.server.rpartition(":")[2]))
    async with link.serving() as port:
        reader = HttpClient(replace(access, server=f"https://127.0.0.1:{port}"), component="reader", clock=clock)
        informer: Informer[ApiObject] = Informer(reader, CONFIG_MAP, clock=FastClock(), rng=random.Random(2))
        order_check = OrderCheck()
        informer.on_change(order_check)
        running = asyncio.create_task(informer.run())
        cutting = asyncio.create_task(cut_every(link, 0.1))
        samples: list[float] = []
        sampling = asyncio.create_task(sample_memory(samples))
        written = await asyncio.gather(*(write_without_pause(writer, number, writers) for number in range(writers)))
        print(f"{sum(written) / SECONDS:.0f} writes a second, {link.connections} connections")
        cutting.cancel()
        sampling.cancel()
        assert_flat(samples)
        truth = {item.key: item for item in (await writer.list(CONFIG_MAP)).items}
        async with asyncio.timeout(60):
            while order_check.present != truth:
                assert not running.done()
                await asyncio.sleep(0.05)
        assert {item.key: item for item in informer.items()} == truth
        assert link.connections > 2, "no connection was cut"
        running.cancel()
        await asyncio.gather(running, cutting, sampling, return_exceptions=True)
        await reader.close()
        await writer.close()
