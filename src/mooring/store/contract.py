"""What a store promises, on one screen.

Every accepted write gets a higher revision of one global counter, so revisions order all changes of all keys;
the server uses them as `resourceVersion`. A store of one process gives the next; where several share their data, others
may have had some in between. A write names the revision it replaces, and fails with `Mismatch` if
that is not the current one: compare-and-swap is the only way to write. Once `write` returns, the change is
durable (as far as the store is), readable, and on its way to every watch. Watches see each change after their
start exactly once, in order, or end with an error; they never skip.

    write ──► durable ──► readable ──► watches ──► `write` returns
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NewType, Protocol

import msgspec

Revision = NewType("Revision", int)

#: What `expect` says when the key must not exist yet.
ABSENT: Final = Revision(0)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One key's current value. `created` is the revision that brought the key into being."""

    key: str
    value: bytes
    revision: Revision
    created: Revision


class Change(msgspec.Struct, frozen=True, gc=False):
    """One accepted write: what was, and what is. Creation has no `before`, deletion no `after`."""

    key: str
    revision: Revision
    before: Record | None
    after: Record | None


class Listing(msgspec.Struct, frozen=True, gc=False):
    """Records under a prefix in key order, and the revision at which that was so; `remaining` more come after them."""

    records: tuple[Record, ...]
    revision: Revision
    remaining: int = 0


class StoreError(Exception):
    """StoreError > Mismatch, Moved, Compacted, Overrun, TooLarge, StoreClosed, StoreUnusable"""


class Mismatch(StoreError):
    """The key is not at the revision the writer expected; `current` is what is there instead."""

    def __init__(self, key: str, current: Record | None) -> None:
        super().__init__(f"{key} is at revision {current.revision if current else 'none'}")
        self.current = current


class Moved(StoreError):
    """What the write relied on is no longer as it was; nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} has changed")


class Compacted(StoreError):
    """The changes a reader asked for are no longer kept; `oldest` is the first revision that still works."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.oldest = oldest


class Overrun(StoreError):
    """A watcher did not keep up and was cut off: better than to buffer without bound or to skip."""


class TooLarge(StoreError):
    """The value is larger than the store takes; nothing was written."""


class StoreClosed(StoreError):
    """The store was used after it was closed."""


class StoreUnusable(StoreError):
    """The data is corrupt, foreign, newer, in use, or out of reach; the text says what to do."""


class Watch(Protocol):
    """Changes in order, in batches as they come. Ends with Overrun, or with StopAsyncIteration once closed."""

    def __aiter__(self) -> AsyncIterator[Sequence[Change]]: ...

    async def __anext__(self) -> Sequence[Change]: ...

    def waiting(self) -> Sequence[Change]:
        """What has come and was not taken yet, without waiting for more. Raises Overrun."""
        ...

    def wake(self) -> None:
        """Give whoever waits, or will, an empty batch: everything up to the store's revision has been taken."""
        ...

    def close(self) -> None:
        """Idempotent; wakes whoever waits."""
        ...


class Store(Protocol):
    @property
    def revision(self) -> Revision:
        """The newest revision that reads see."""
        ...

    def count(self, prefix: str) -> int:
        """How many keys there are under a prefix."""
        ...

    async def catch_up(self) -> None:
        """Returns once reads see everything that was acknowledged before the call, by whichever process.

        Nothing to wait for where there is only this one. Its own writes a store shows without being asked.
        """
        ...

    async def get(self, key: str) -> Record | None: ...

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        """Everything under the prefix from the key `start` on, at most `limit` records unless that is 0.

        As it is now, or as it was at a revision, which must not be one to come. Raises Compacted where what
        happened since then is no longer kept.
        """
        ...

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        """Replace, create (`expect=ABSENT`) or delete (`value=None`). Raises Mismatch and changes nothing.

        `given` is a record of another key that the write relies on: it must still be there as it is, else Moved.
        """
        ...

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        """Every change under the prefix with a revision above `after`. Raises Compacted."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then refuse everything. Idempotent."""
        ...
