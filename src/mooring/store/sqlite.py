"""The store on disk: every acknowledged write is in an SQLite file, and every read is answered from memory.

    write ──► queue ──► draft ──► commit, in the file's thread ──► state ──► watches ──► `write` returns
              └── all that waits, at once ──┘

All decisions are taken on the event loop; the thread only carries a finished batch to the file. While it does,
the next batch gathers, so one wait for the disk serves everybody who came meanwhile. Nothing of a batch is seen
before it is committed, and a batch that fails leaves nothing behind. The file itself is `sqlite_file`.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, Self

from mooring.store.contract import (
    Change,
    Record,
    Revision,
    Store,
    StoreClosed,
    StoreError,
)
from mooring.store.fanout import BACKLOG
from mooring.store.history import HISTORY, Limits
from mooring.store.mirror import Mirror
from mooring.store.sqlite_file import Durability, SqliteFile
from mooring.store.state import Draft, State, Write

#: Publishing holds the event loop for 5 µs a change, 50 with 200 watches: a larger batch would be felt elsewhere,
#: and gains little (a write costs 22 µs in batches of 64, 18 in those of 512).
LARGEST_BATCH: Final = 512


class _Asked(NamedTuple):
    """A write that waits for its turn, and the future its caller waits on."""

    write: Write
    answer: asyncio.Future[Change]


class SqliteStore(Mirror):
    def __init__(
        self, file: SqliteFile, state: State, thread: ThreadPoolExecutor, *, history: Limits, backlog: Limits
    ) -> None:
        """Use `open`."""
        super().__init__(state, history=history, backlog=backlog)
        self._file = file
        self._thread = thread
        self._queue: deque[_Asked] = deque()
        self._news = asyncio.Event()
        self._committing = asyncio.create_task(self._commit_until_closed(), name="store commits")

    @classmethod
    async def open(
        cls, path: Path, durability: Durability = "full", *, history: Limits = HISTORY, backlog: Limits = BACKLOG
    ) -> Self:
        """Open the file, or make it, and read it whole. Raises StoreUnusable."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        try:
            file, state = await asyncio.get_running_loop().run_in_executor(thread, _open, path, durability)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(file, state, thread, history=history, backlog=backlog)

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        """As the contract says. A caller that is cancelled while it waits does not know the outcome."""
        self._refuse_if_closed()
        asked = _Asked(Write(key, value, expect, given), asyncio.get_running_loop().create_future())
        self._queue.append(asked)
        self._news.set()
        return await asked.answer

    async def close(self) -> None:
        self._closed = True
        self._news.set()
        await asyncio.shield(self._committing)

    async def _commit_until_closed(self) -> None:
        loop = asyncio.get_running_loop()
        batch: tuple[_Asked, ...] = ()
        try:
            while self._queue or not self._closed:
                if not self._queue:
                    self._news.clear()
                    await self._news.wait()
                    continue
                # Requests that came in together are about to ask for their writes too: one commit for all of them.
                await _next_turn(loop)
                batch = tuple(self._queue.popleft() for _ in range(min(len(self._queue), LARGEST_BATCH)))
                await self._settle(batch)
        finally:
            # Whatever ended it, nobody is left waiting for an answer that will not come.
            self._closed = True
            self._fanout.close()
            for asked in (*batch, *self._queue):
                _refuse(asked, StoreClosed("the store ended before the write was answered"))
            await loop.run_in_executor(self._thread, self._file.close)
            self._thread.shutdown(wait=False)

    async def _settle(self, batch: Sequence[_Asked]) -> None:
        draft = Draft(self._state)
        outcomes = [draft.decide(asked.write) for asked in batch]
        if draft.changes:
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._thread, self._file.commit, draft.outcome, draft.revision)
            except StoreError as error:
                # Those that mismatched may have met a write that is now undone, so they fail with the rest.
                for asked in batch:
                    _refuse(asked, _again(error))
                return
            self._show(draft.changes)
        for asked, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, Change):
                _refuse(asked, outcome)
            elif not asked.answer.done():
                asked.answer.set_result(outcome)


async def _next_turn(loop: asyncio.AbstractEventLoop) -> None:
    """Lets everybody else who is ready go first, once."""
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn


def _open(path: Path, durability: Durability) -> tuple[SqliteFile, State]:
    file = SqliteFile.open(path, durability)
    try:
        return file, file.load()
    except StoreError:
        file.close()
        raise


def _refuse(asked: _Asked, error: StoreError) -> None:
    if not asked.answer.done():  # else the caller was cancelled and is gone
        asked.answer.set_exception(error)


def _again(error: StoreError) -> StoreError:
    """A copy: an error collects the traceback of whoever raises it, so everybody gets one of their own."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


_contract: type[Store] = SqliteStore
