"""A process that writes without end and says what was acknowledged, for a test that kills it.

    python writing_process.py PLACE DIRECTORY

The place is a file for the SQLite store, or the address of etcd and a prefix in it, `http://127.0.0.1:2379/prefix`.

Each of 16 writers owns one key of the directory and writes numbers to it, one after the other; `content` says
what the key holds after each. A line `writer number revision` goes out once the store has acknowledged. Two watches
follow from where the store was opened; each says `watch revision` of what it sees, in the order in which it does.
"""

import asyncio
import os
import sys
from pathlib import Path

from mooring.clock import SystemClock
from mooring.store.contract import ABSENT, Store
from mooring.store.etcd.settings import etcd_settings
from mooring.store.etcd.store import EtcdStore
from mooring.store.sqlite import SqliteStore

WRITERS = 16
WATCHES = ("here", "everywhere")


def content(number: int) -> bytes | None:
    """What a key holds after its write of this number: every fifth deletes it."""
    return None if number % 5 == 4 else b"%d" % number


async def write(store: Store, directory: str, writer: int) -> None:
    expect, number = ABSENT, 0
    while True:
        change = await store.write(f"{directory}{writer}", content(number), expect=expect)
        os.write(1, b"%d %d %d\n" % (writer, number, change.revision))
        expect = change.after.revision if change.after else ABSENT
        number += 1


async def follow(store: Store, name: str, prefix: str) -> None:
    async for batch in await store.watch(prefix, after=store.revision):
        os.write(1, b"".join(b"%b %d\n" % (name.encode(), change.revision) for change in batch))


async def opened(place: str) -> Store:
    if not place.startswith("http://"):
        return await SqliteStore.open(Path(place))
    address, _, prefix = place.rpartition("/")
    return await EtcdStore.open(etcd_settings(address, prefix=prefix), SystemClock())


async def main(place: str, directory: str) -> None:
    store = await opened(place)
    os.write(1, b"opened %d\n" % store.revision)
    prefixes = zip(WATCHES, (directory, ""), strict=True)
    followers = [asyncio.create_task(follow(store, name, prefix)) for name, prefix in prefixes]
    await asyncio.gather(*followers, *(write(store, directory, writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
