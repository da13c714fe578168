"""What only the memory store promises."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from mooring.store.contract import ABSENT
from mooring.store.watch_cache import MemoryStore

T = TypeVar("T")


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Run a call that must not wait: there is no event loop here that could wake it."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for something")


def test_memory_store_never_waits() -> None:
    store = MemoryStore()
    watch = at_once(store.watch("/", after=ABSENT))
    change = at_once(store.write("/a", b"1", expect=ABSENT))
    assert at_once(store.get("/a")) == change.after
    assert at_once(store.list("/")).records == (change.after,)
    assert at_once(watch.__anext__()) == [change]
    at_once(store.close())
