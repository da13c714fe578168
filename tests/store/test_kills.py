"""A store killed in the midst of sixteen writers, again and again on one file: nothing acknowledged is lost.

`MOORING_SOAK_SECONDS`, which the long test run sets, makes it 200 rounds.
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

from mooring.store.contract import Revision
from mooring.store.sqlite import SqliteStore

from . import writing_process

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


async def lived(path: Path, directory: str, seconds: float) -> Life:
    process = await asyncio.create_subprocess_exec(
        sys.executable, writing_process.__file__, str(path), directory, stdout=asyncio.subprocess.PIPE
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


async def check_file(store: SqliteStore, directory: str, life: Life) -> None:
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


async def test_acknowledged_writes_survive_kills_at_any_moment(path: Path) -> None:
    rng = random.Random(20261115)
    reached, acknowledged = Revision(0), 0
    for number in range(ROUNDS):
        directory = f"/round/{number}/"
        life = await lived(path, directory, rng.uniform(0, LONGEST_LIFE))
        assert life.opened >= reached
        check_life(life)
        store = await SqliteStore.open(path)
        last = max((revision for writes in life.acknowledged.values() for _, revision in writes), default=0)
        assert store.revision >= max(life.opened, last)
        await check_file(store, directory, life)
        reached = store.revision
        acknowledged += sum(map(len, life.acknowledged.values()))
        await store.close()
    assert acknowledged > ROUNDS, "killed before anything happened"
