"""Durable stores compared with the memory store by Hypothesis: same calls, same results, also after restarts."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from mooring.clock import SystemClock
from mooring.store.contract import (
    ABSENT,
    Compacted,
    Record,
    Revision,
    RevisionConflict,
    Store,
    StoreChange,
    Watch,
    WatchOverflow,
)
from mooring.store.etcd.store import EtcdStore
from mooring.store.sqlite import SqliteStore
from mooring.store.state import Limits
from mooring.store.watch_cache import MemoryStore
from store.conftest import quick_directory, unused_prefix
from support.store.etcd_process import EtcdProcess
from support.store.rebased import Rebased

KEYS = ("/a/x", "/a/y", "/b/x", "/b/xy", "/b")
PREFIXES = ("", "/", "/a/", "/b", "/b/x", "/c/")
HISTORY = Limits(changes=12, bytes=60)
BACKLOG = Limits(changes=8, bytes=40)

#: A write with `expect` still to be found: the key's current revision, or that many less.
Attempt: TypeAlias = tuple[str, bytes | None, int]
ATTEMPTS = st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=8), st.sampled_from([0, 0, 0, 1, 99]))


async def attempt(store: Store, key: str, value: bytes | None, expect: Revision) -> StoreChange | Record | str | None:
    """Result of a write: the change, the conflicting record, or the text of a ValueError."""
    try:
        return await store.write(key, value, expect=expect)
    except RevisionConflict as mismatch:
        return mismatch.current
    except ValueError as mistake:
        return str(mistake)


async def open_watch(store: Store, prefix: str, after: Revision) -> Watch | int:
    try:
        return await store.watch(prefix, after=after)
    except Compacted as compacted:
        return compacted.oldest


async def drain(watch: Watch) -> list[StoreChange] | type[WatchOverflow]:
    """The buffered changes of a watch."""
    changes: list[StoreChange] = []
    try:
        async with asyncio.timeout(0):
            async for batch in watch:
                changes += batch
    except TimeoutError:
        pass
    except WatchOverflow:
        return WatchOverflow
    return changes


class SideBySide(RuleBasedStateMachine):
    watches = Bundle("watches")
    #: Whether concurrent writes are executed in call order.
    ordered: ClassVar[bool]
    #: Whether a restart loses the history.
    forgetful: ClassVar[bool]

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.prepare()
        self.memory = MemoryStore(history=HISTORY, backlog=BACKLOG)
        self.other = self.runner.run(self.open())
        self.reopened_at = ABSENT
        self.opened: list[tuple[Watch, Watch]] = []
        #: What was under each prefix, by revision.
        self.seen: dict[tuple[str, Revision], tuple[Record, ...]] = {}

    def prepare(self) -> None:
        raise NotImplementedError

    async def open(self) -> Store:
        raise NotImplementedError

    def teardown(self) -> None:
        if hasattr(self, "other"):
            self.runner.run(self.other.close())
            self.runner.close()

    @rule(attempts=st.lists(ATTEMPTS, min_size=1, max_size=6))
    def write_at_once(self, attempts: Sequence[Attempt]) -> None:
        """Several concurrent writes; sequential in the memory store."""

        async def both() -> None:
            asked = []
            for key, value, less in attempts:
                current = await self.memory.get(key)
                asked.append((key, value, Revision(max((current.revision if current else ABSENT) - less, ABSENT))))
            expected = [await attempt(self.memory, *one) for one in asked]
            if self.ordered:
                assert await asyncio.gather(*(attempt(self.other, *one) for one in asked)) == expected
            else:
                assert [await attempt(self.other, *one) for one in asked] == expected

        self.runner.run(both())

    @rule(target=watches, prefix=st.sampled_from(PREFIXES), back=st.integers(-2, 20))
    def watch(self, prefix: str, back: int) -> object:
        async def both() -> object:
            after = Revision(max(self.memory.revision - back, ABSENT))
            found = await open_watch(self.other, prefix, after)
            if after < self.reopened_at:
                assert isinstance(found, int)
                assert found >= self.reopened_at
                return multiple()
            expected = await open_watch(self.memory, prefix, after)
            if isinstance(expected, int):
                assert found == expected
                return multiple()
            assert not isinstance(found, int)
            self.opened.append((found, expected))
            return found, expected

        return self.runner.run(both())

    @rule(prefix=st.sampled_from(PREFIXES), back=st.integers(0, 8))
    def list_what_was(self, prefix: str, back: int) -> None:
        async def both() -> None:
            at = Revision(max(self.memory.revision - back, ABSENT))
            for store in (self.memory, self.other):
                try:
                    was = await store.list(prefix, at=at)
                except Compacted:
                    continue
                assert was.revision == at
                # Revisions within a batch were never listed.
                assert was.records == self.seen.get((prefix, at), was.records)

        self.runner.run(both())

    @rule(watch=watches)
    def take(self, watch: tuple[Watch, Watch]) -> None:
        found, expected = (self.runner.run(drain(one)) for one in watch)
        assert found == expected

    @rule(watch=consumes(watches))
    def close_watch(self, watch: tuple[Watch, Watch]) -> None:
        for one in watch:
            one.close()
            assert self.runner.run(drain(one)) == []

    @rule()
    def restart(self) -> None:
        """Watches deliver buffered changes after the store is closed, then end."""
        self.runner.run(self.other.close())
        for watch in self.opened:
            self.take(watch)
            self.close_watch(watch)
        self.opened.clear()
        self.other = self.runner.run(self.open())
        if self.forgetful:
            self.reopened_at = self.memory.revision

    @invariant()
    def they_list_and_find_the_same(self) -> None:
        async def both() -> None:
            assert self.other.revision == self.memory.revision
            for prefix in PREFIXES:
                found = await self.memory.list(prefix)
                self.seen[prefix, found.revision] = found.records
                assert await self.other.list(prefix) == found
            for key in KEYS:
                assert await self.other.get(key) == await self.memory.get(key)

        self.runner.run(both())


class SqliteBesideMemory(SideBySide):
    ordered, forgetful = True, True

    def prepare(self) -> None:
        self.directory = quick_directory()

    async def open(self) -> Store:
        path = Path(self.directory.name) / "objects.db"
        return await SqliteStore.open(path, "normal", history=HISTORY, backlog=BACKLOG)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "directory"):
            self.directory.cleanup()


class EtcdBesideMemory(SideBySide):
    ordered, forgetful = False, False
    etcd: ClassVar[EtcdProcess]

    def prepare(self) -> None:
        self.part = unused_prefix(self.etcd)
        self.base = 0

    async def open(self) -> Store:
        store = await EtcdStore.open(self.part, SystemClock(), history=HISTORY, backlog=BACKLOG)
        self.base = self.base or store.revision
        return Rebased(store, self.base)


class TestSqlite(SqliteBesideMemory.TestCase):  # type: ignore[name-defined,misc]  # made by Hypothesis at run time
    settings = settings(max_examples=30, stateful_step_count=30)


class TestEtcd(EtcdBesideMemory.TestCase):  # type: ignore[name-defined,misc]  # made by Hypothesis at run time
    settings = settings(max_examples=15, stateful_step_count=25)

    @pytest.fixture(autouse=True)
    def find_etcd(self, etcd: EtcdProcess) -> None:
        EtcdBesideMemory.etcd = etcd
