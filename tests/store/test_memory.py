"""What only the memory store promises."""

import asyncio
import threading

import pytest

from mooring.store.contract import ABSENT
from mooring.store.memory import MemoryStore


async def test_it_needs_neither_threads_nor_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a thread was started")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_soon", refuse)
    store = MemoryStore()
    change = await store.write("/a", b"1", expect=ABSENT)
    watch = await store.watch("/", after=ABSENT)
    assert await store.get("/a") == change.after
    assert (await store.list("/")).records == (change.after,)
    assert await anext(aiter(watch)) == [change]
    await store.close()
