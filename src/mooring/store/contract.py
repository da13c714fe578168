"""The Store protocol, its records and its errors.

All keys share one increasing revision counter, the server's `resourceVersion`; with several servers on the same data a
process does not see consecutive numbers. Every write is a compare-and-swap on the key's revision. A change is durable,
readable and queued for every watch, in this order, before `write` returns. A watch delivers each change after its
start exactly once and in order, or ends with an error.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NewType, Protocol

import msgspec

Revision = NewType("Revision", int)

#: The `expect` of a write that creates its key.
ABSENT: Final = Revision(0)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One key's value. `created` is the revision that created the key."""

    key: str
    value: bytes
    revision: Revision
    created: Revision


class StoreChange(msgspec.Struct, frozen=True, gc=False):
    """One accepted write. A creation has no `before`, a deletion no `after`."""

    key: str
    revision: Revision
    before: Record | None
    after: Record | None


class Listing(msgspec.Struct, frozen=True, gc=False):
    """Records under a prefix in key order at a revision; `remaining` counts those after the last one returned."""

    records: tuple[Record, ...]
    revision: Revision
    remaining: int = 0


class StoreError(Exception):
    """Base of the errors below."""


class RevisionConflict(StoreError):
    """The key is not at the expected revision; `current` is its record."""

    def __init__(self, key: str, current: Record | None) -> None:
        super().__init__(f"{key} is at revision {current.revision if current else 'none'}")
        self.current = current


class PreconditionFailed(StoreError):
    """The precondition of the write has changed; nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} has changed")


class Compacted(StoreError):
    """The requested changes are no longer kept; `oldest` is the first revision a reader may use."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.oldest = oldest


class WatchOverflow(StoreError):
    """A watch had more undelivered changes than its buffer holds and was ended."""


class ValueTooLarge(StoreError):
    """The value exceeds the store's limit; nothing was written."""


class StoreClosed(StoreError):
    """The store was used after it was closed."""


class StoreUnusable(StoreError):
    """The data is corrupt, foreign, of a newer format, in use or unreachable; the text says what to do."""


class Watch(Protocol):
    """Changes in order, in batches. Ends with WatchOverflow, or with StopAsyncIteration once closed."""

    def __aiter__(self) -> AsyncIterator[Sequence[StoreChange]]: ...

    async def __anext__(self) -> Sequence[StoreChange]: ...

    def waiting(self) -> Sequence[StoreChange]:
        """The undelivered changes, without waiting for more. Raises WatchOverflow."""

    def progress(self) -> None:
        """Deliver an empty batch (bookmark): all changes up to the store's revision have been delivered."""

    def close(self) -> None:
        """Ends a pending `__anext__`. Idempotent."""


class Store(Protocol):
    @property
    def revision(self) -> Revision:
        """The revision of the data that reads return."""

    def count(self, prefix: str) -> int:
        """Number of keys under a prefix."""

    async def wait_current(self) -> None:
        """Read barrier: wait until reads return everything acknowledged before the call, by any process.

        A process reads its own writes without it.
        """

    async def get(self, key: str) -> Record | None: ...

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        """Records under the prefix from the key `start` on, at most `limit` unless that is 0.

        Current records, or those at the revision `at`, which must not be in the future. Raises Compacted if the
        changes since `at` are no longer kept.
        """

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        """Replace, create (`expect=ABSENT`) or delete (`value=None`). Raises RevisionConflict and changes nothing.

        `precondition` is the record of another key that must be unchanged, else PreconditionFailed.
        """

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        """Changes under the prefix with a revision above `after`. Raises Compacted."""

    async def close(self) -> None:
        """Finish accepted writes and refuse new calls. Idempotent."""
