"""Cost in function calls: tests compare calls, never seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Counter:
    """Number of function calls, including functions written in C."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _: FrameType, event: str, __: object) -> None:
        self.calls += event in ("call", "c_call")


@contextmanager
def counted() -> Iterator[Counter]:
    """Count all calls of this thread inside the block, also between awaits."""
    counter, before = Counter(), sys.getprofile()
    sys.setprofile(counter)
    try:
        yield counter
    finally:
        sys.setprofile(before)


def calls_of(work: Callable[[], object]) -> int:
    """Number of function calls."""
    with counted() as counter:
        work()
    return counter.calls
