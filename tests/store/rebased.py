"""A store that seems to begin at revision zero, on data whose counter is somewhere else.

etcd counts for everybody who uses it, and the tests of the contract name revisions from one on. Nobody else may write
while they run, so one number is all the difference.
"""

from collections.abc import AsyncIterator, Sequence

from mooring.store.contract import ABSENT, Change, Compacted, Listing, Mismatch, Record, Revision, Store, Watch


class Rebased:
    def __init__(self, store: Store, base: int) -> None:
        self._store = store
        self._base = base

    @property
    def revision(self) -> Revision:
        return Revision(self._store.revision - self._base)

    def count(self, prefix: str) -> int:
        return self._store.count(prefix)

    async def catch_up(self) -> None:
        await self._store.catch_up()

    async def get(self, key: str) -> Record | None:
        return self._record(await self._store.get(key))

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        there = None if at is None else Revision(at + self._base)
        try:
            found = await self._store.list(prefix, at=there, start=start, limit=limit)
        except Compacted as gone:
            raise self._gone(gone) from gone
        records = tuple(record for one in found.records if (record := self._record(one)))
        return Listing(records, Revision(found.revision - self._base), found.remaining)

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        there = Revision(expect + self._base) if expect else ABSENT
        try:
            relied = given and Record(
                given.key, given.value, Revision(given.revision + self._base), Revision(given.created + self._base)
            )
            return self.change(await self._store.write(key, value, expect=there, given=relied))
        except Mismatch as mismatch:
            raise Mismatch(key, self._record(mismatch.current)) from mismatch

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        try:
            return _RebasedWatch(await self._store.watch(prefix, after=Revision(after + self._base)), self)
        except Compacted as gone:
            raise self._gone(gone) from gone

    async def close(self) -> None:
        await self._store.close()

    def change(self, change: Change) -> Change:
        before, after = self._record(change.before), self._record(change.after)
        return Change(change.key, Revision(change.revision - self._base), before, after)

    def _record(self, record: Record | None) -> Record | None:
        if record is None:
            return None
        revision, created = record.revision - self._base, record.created - self._base
        return Record(record.key, record.value, Revision(revision), Revision(created))

    def _gone(self, gone: Compacted) -> Compacted:
        return Compacted(0, gone.oldest - self._base)


class _RebasedWatch:
    def __init__(self, watch: Watch, store: Rebased) -> None:
        self._watch = watch
        self._store = store

    def __aiter__(self) -> AsyncIterator[Sequence[Change]]:
        return self

    async def __anext__(self) -> Sequence[Change]:
        return self._moved(await anext(self._watch))

    def waiting(self) -> Sequence[Change]:
        return self._moved(self._watch.waiting())

    def wake(self) -> None:
        self._watch.wake()

    def close(self) -> None:
        self._watch.close()

    def _moved(self, batch: Sequence[Change]) -> Sequence[Change]:
        return [self._store.change(change) for change in batch] if batch else batch


_contract: type[Store] = Rebased
