"""Cost in function calls: tests compare calls, never seconds."""

import gc
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
    """Count all calls of this thread inside the block, also between awaits.

    The garbage collector is off: it runs at any allocation, and its callbacks and finalizers, which depend on the
    tests that ran before in this process, would be counted too. Hypothesis registers such a callback.
    """
    counter, before, collecting = Counter(), sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(counter)
    try:
        yield counter
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


def calls_of(work: Callable[[], object]) -> int:
    """Number of function calls."""
    with counted() as counter:
        work()
    return counter.calls
