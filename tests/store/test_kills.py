"""A store killed in the midst of sixteen writers, again and again on one place: nothing acknowledged is lost.

So is etcd under a store that goes on. `MOORING_SOAK_SECONDS`, which the long test run sets, makes it 200 rounds.
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
from mooring.store.contract import ABSENT, Change, Revision, Store
from mooring.store.etcd.store import EtcdStore

from . import writing_process
from .conftest import a_part_of
from .etcd_process import EtcdProcess

ROUNDS: Final = 200 if "MOORING_SOAK_SECONDS" in os.environ else 5
#: Seconds from the first line to the kill: anywhere between the first commits and some hundreds.
LONGEST_LIFE: Final = 0.15


class Life(msgspec.Struct):
    """What a process said before it was killed."""

    opened: int
    #: Number and revision of each acknowledged write, by writer.
    acknowledged: dict[int, list[tuple[int, int]]]
    #: The revisions each watch saw, in its order.
    watched: dict[str, list[int]]


async def lived(place: str, directory: str, seconds: float) -> Life:
    process = await asyncio.create_subprocess_exec(
        sys.executable, writing_process.__file__, place, directory, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    word, revision = (await process.stdout.readline()).split()
    assert word == b"opened"
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    said = await process.stdout.read()
    assert await process.wait() == -signal.SIGKILL
    life = Life(int(revision), defaultdict(list), defaultdict(list))
    for line in said.decode().splitlines():
        match line.split():
            case [watch, seen] if watch in writing_process.WATCHES:
                life.watched[watch].append(int(seen))
            case [writer, number, written]:
                life.acknowledged[int(writer)].append((int(number), int(written)))
    return life


def check_life(life: Life) -> None:
    """Revisions only grow, every writer's own as well, and no watch skips or repeats one."""
    for writes in life.acknowledged.values():
        assert [number for number, _ in writes] == list(range(len(writes)))
        revisions = [revision for _, revision in writes]
        assert revisions == sorted(set(revisions))
    everything = sorted(revision for writes in life.acknowledged.values() for _, revision in writes)
    assert len(set(everything)) == len(everything)
    assert not everything or everything[0] > life.opened
    for seen in life.watched.values():
        assert seen == list(range(life.opened + 1, life.opened + 1 + len(seen)))


async def check_kept(store: Store, directory: str, life: Life) -> None:
    """Each key holds the last acknowledged write, or the one that was under way."""
    for writer, writes in life.acknowledged.items():
        number, revision = writes[-1]
        found = await store.get(f"{directory}{writer}")
        if found is None:
            assert None in (writing_process.content(number), writing_process.content(number + 1))
        elif found.revision == revision:
            assert found.value == writing_process.content(number)
        else:
            assert found.revision > revision
            assert found.value == writing_process.content(number + 1)
    seen = max((revisions[-1] for revisions in life.watched.values() if revisions), default=0)
    assert store.revision >= seen, "a watch saw what was not durable"


async def check_kills(place: str, rounds: int) -> None:
    rng = random.Random(20261115)
    reached, acknowledged = Revision(0), 0
    for number in range(rounds):
        directory = f"/round/{number}/"
        life = await lived(place, directory, rng.uniform(0, LONGEST_LIFE))
        assert life.opened >= reached
        check_life(life)
        store = await writing_process.opened(place)
        last = max((revision for writes in life.acknowledged.values() for _, revision in writes), default=0)
        assert store.revision >= max(life.opened, last)
        await check_kept(store, directory, life)
        reached = store.revision
        acknowledged += sum(map(len, life.acknowledged.values()))
        await store.close()
    assert acknowledged > rounds, "killed before anything happened"


async def test_acknowledged_writes_survive_kills_at_any_moment(path: Path) -> None:
    await check_kills(str(path), ROUNDS)


async def test_acknowledged_writes_survive_kills_of_a_store_on_etcd(etcd: EtcdProcess) -> None:
    # Three and not five: each of its processes takes half a second to load gRPC.
    await check_kills(f"{etcd.url}{a_part_of(etcd).prefix.rstrip('/')}", ROUNDS * 3 // 5)


async def test_acknowledged_writes_survive_kills_of_etcd(own_etcd: EtcdProcess) -> None:
    """The store goes on: its writers wait until etcd is back, and its watch sees each change once."""
    store = await EtcdStore.open(a_part_of(own_etcd), SystemClock())
    begin, over = store.revision, asyncio.Event()
    watch = await store.watch("/", after=begin)

    async def write(writer: int) -> list[Change]:
        written, expect = list[Change](), ABSENT
        while not over.is_set():
            change = await store.write(f"/{writer}", b"%d" % len(written), expect=expect)
            expect = change.revision
            written.append(change)
        return written

    writers = [asyncio.create_task(write(n)) for n in range(16)]
    loop, rng = asyncio.get_running_loop(), random.Random(20261115)
    for _ in range(ROUNDS // 2):
        await asyncio.sleep(rng.uniform(0.1, 0.3))
        await loop.run_in_executor(None, own_etcd.stop)
        await loop.run_in_executor(None, own_etcd.start)
    await asyncio.sleep(0.3)
    over.set()
    written = sorted((one for some in await asyncio.gather(*writers) for one in some), key=lambda one: one.revision)
    seen: list[Change] = []
    while len(seen) < len(written):
        seen += await asyncio.wait_for(anext(watch), timeout=10)
    assert seen == written
    assert [change.revision for change in seen] == list(range(begin + 1, begin + 1 + len(seen)))
    await store.close()
