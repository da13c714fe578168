"""A store with revisions from zero, on an etcd whose counter is higher. Only this store may write meanwhile."""

from collections.abc import AsyncIterator, Sequence

from mooring.store.contract import (
    ABSENT,
    Compacted,
    Listing,
    Record,
    Revision,
    RevisionConflict,
    Store,
    StoreChange,
    Watch,
)


class Rebased:
    def __init__(self, store: Store, base: int) -> None:
        self._store = store
        self._base = base

    @property
    def revision(self) -> Revision:
        return Revision(self._store.revision - self._base)

    def count(self, prefix: str) -> int:
        return self._store.count(prefix)

    async def wait_current(self) -> None:
        await self._store.wait_current()

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

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        there = Revision(expect + self._base) if expect else ABSENT
        try:
            relied = precondition and Record(
                precondition.key,
                precondition.value,
                Revision(precondition.revision + self._base),
                Revision(precondition.created + self._base),
            )
            return self.change(await self._store.write(key, value, expect=there, precondition=relied))
        except RevisionConflict as mismatch:
            raise RevisionConflict(key, self._record(mismatch.current)) from mismatch

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        try:
            return _RebasedWatch(await self._store.watch(prefix, after=Revision(after + self._base)), self)
        except Compacted as gone:
            raise self._gone(gone) from gone

    async def close(self) -> None:
        await self._store.close()

    def change(self, change: StoreChange) -> StoreChange:
        before, after = self._record(change.before), self._record(change.after)
        return StoreChange(change.key, Revision(change.revision - self._base), before, after)

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

    def __aiter__(self) -> AsyncIterator[Sequence[StoreChange]]:
        return self

    async def __anext__(self) -> Sequence[StoreChange]:
        return self._rebased(await anext(self._watch))

    def waiting(self) -> Sequence[StoreChange]:
        return self._rebased(self._watch.waiting())

    def progress(self) -> None:
        self._watch.progress()

    def close(self) -> None:
        self._watch.close()

    def _rebased(self, batch: Sequence[StoreChange]) -> Sequence[StoreChange]:
        return [self._store.change(change) for change in batch] if batch else batch
