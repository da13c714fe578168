"""Kill a store, or etcd below it, under sixteen writers: no acknowledged write is lost.

200 rounds with `MOORING_SOAK_SECONDS`, which the long test run sets.
"""

import asyncio
import os
import random
import signal
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

import msgspec

from mooring.clock import SystemClock
from mooring.store.contract import ABSENT, Revision, Store, StoreChange
from mooring.store.etcd.store import EtcdStore
from store.conftest import unused_prefix
from support.store import writing_process
from support.store.etcd_process import EtcdProcess

ROUNDS: Final = 200 if "MOORING_SOAK_SECONDS" in os.environ else 5
#: From the first line to the kill: between the first commits and some hundreds.
MAX_SECONDS: Final = 0.15


class ProcessOutput(msgspec.Struct):
    """Output of a process until it was killed."""

    opened: int
    #: Number and revision of each acknowledged write, by writer.
    acknowledged: dict[int, list[tuple[int, int]]]
    #: The revisions each watch saw, in its order.
    watched: dict[str, list[int]]


async def run_and_kill(location: str, directory: str, seconds: float) -> ProcessOutput:
    process = await asyncio.create_subprocess_exec(
        sys.executable, writing_process.__file__, location, directory, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    word, revision = (await process.stdout.readline()).split()
    assert word == b"opened"
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines = await process.stdout.read()
    assert await process.wait() == -signal.SIGKILL
    output = ProcessOutput(int(revision), defaultdict(list), defaultdict(list))
    for line in lines.decode().splitlines():
        match line.split():
            case [watch, seen] if watch in writing_process.WATCHES:
                output.watched[watch].append(int(seen))
            case [writer, number, written]:
                output.acknowledged[int(writer)].append((int(number), int(written)))
    return output


def check_output(output: ProcessOutput) -> None:
    """Revisions increase, also per writer, and no watch skips or repeats one."""
    for writes in output.acknowledged.values():
        assert [number for number, _ in writes] == list(range(len(writes)))
        revisions = [revision for _, revision in writes]
        assert revisions == sorted(set(revisions))
    everything = sorted(revision for writes in output.acknowledged.values() for _, revision in writes)
    assert len(set(everything)) == len(everything)
    assert not everything or everything[0] > output.opened
    for seen in output.watched.values():
        assert seen == list(range(output.opened + 1, output.opened + 1 + len(seen)))


async def check_kept(store: Store, directory: str, output: ProcessOutput) -> None:
    """Each key holds the last acknowledged write, or the one in flight."""
    for writer, writes in output.acknowledged.items():
        number, revision = writes[-1]
        found = await store.get(f"{directory}{writer}")
        if found is None:
            assert None in (writing_process.content(number), writing_process.content(number + 1))
        elif found.revision == revision:
            assert found.value == writing_process.content(number)
        else:
            assert found.revision > revision
            assert found.value == writing_process.content(number + 1)
    seen = max((revisions[-1] for revisions in output.watched.values() if revisions), default=0)
    assert store.revision >= seen, "a watch saw what was not durable"


async def check_kills(location: str, rounds: int) -> None:
    rng = random.Random(20261115)
    reached, acknowledged = Revision(0), 0
    for number in range(rounds):
        directory = f"/round/{number}/"
        output = await run_and_kill(location, directory, rng.uniform(0, MAX_SECONDS))
        assert output.opened >= reached
        check_output(output)
        store = await writing_process.opened(location)
        last = max((revision for writes in output.acknowledged.values() for _, revision in writes), default=0)
        assert store.revision >= max(output.opened, last)
        await check_kept(store, directory, output)
        reached = store.revision
        acknowledged += sum(map(len, output.acknowledged.values()))
        await store.close()
    assert acknowledged > rounds, "killed before anything happened"


async def test_acknowledged_writes_survive_kills_of_sqlite_store(path: Path) -> None:
    await check_kills(str(path), ROUNDS)


async def test_acknowledged_writes_survive_kills_of_etcd_store(etcd: EtcdProcess) -> None:
    # Three and not five: each of its processes takes half a second to load gRPC.
    await check_kills(f"{etcd.url}{unused_prefix(etcd).prefix.rstrip('/')}", ROUNDS * 3 // 5)


async def test_acknowledged_writes_survive_kills_of_etcd(own_etcd: EtcdProcess) -> None:
    """The store keeps running: its writers wait for etcd, and its watch delivers each change once."""
    store = await EtcdStore.open(unused_prefix(own_etcd), SystemClock())
    begin, over = store.revision, asyncio.Event()
    watch = await store.watch("/", after=begin)

    async def write(writer: int) -> list[StoreChange]:
        written, expect = list[StoreChange](), ABSENT
        while not over.is_set():
            change = await store.write(f"/{writer}", b"%d" % len(written), expect=expect)
            expect = change.revision
            written.append(change)
        return written

    async def read() -> list[StoreChange]:
        """All the time: a watch that nothing reads overflows."""
        seen: list[StoreChange] = []
        async for changes in watch:
            seen.extend(changes)
            if seen[-1].key == "/end":
                break
        return seen

    reading = asyncio.create_task(read())
    writers = [asyncio.create_task(write(n)) for n in range(16)]
    loop, rng = asyncio.get_running_loop(), random.Random(20261115)
    for _ in range(ROUNDS // 2):
        await asyncio.sleep(rng.uniform(0.1, 0.3))
        await loop.run_in_executor(None, own_etcd.stop)
        await loop.run_in_executor(None, own_etcd.start)
    await asyncio.sleep(0.3)
    over.set()
    written = sorted((one for some in await asyncio.gather(*writers) for one in some), key=lambda one: one.revision)
    written.append(await store.write("/end", b"", expect=ABSENT))
    seen = await asyncio.wait_for(reading, timeout=10)
    assert seen == written
    assert [change.revision for change in seen] == list(range(begin + 1, begin + 1 + len(seen)))
    await store.close()
