"""A process that writes until it is killed and prints what was acknowledged.

    python writing_process.py LOCATION DIRECTORY

The location is a file of the SQLite store, or address and prefix of etcd: `http://127.0.0.1:2379/prefix`. Each of 16
writers writes numbers to one key of the directory and prints `writer number revision` after the acknowledgement. Two
watches since the opening print `watch revision` of each change.
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
    """Value of a key after its write of this number: every fifth deletes it."""
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


async def opened(location: str) -> Store:
    if not location.startswith("http://"):
        return await SqliteStore.open(Path(location))
    address, _, prefix = location.rpartition("/")
    return await EtcdStore.open(etcd_settings(address, prefix=prefix), SystemClock())


async def main(location: str, directory: str) -> None:
    store = await opened(location)
    os.write(1, b"opened %d\n" % store.revision)
    prefixes = zip(WATCHES, (directory, ""), strict=True)
    followers = [asyncio.create_task(follow(store, name, prefix)) for name, prefix in prefixes]
    await asyncio.gather(*followers, *(write(store, directory, writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
