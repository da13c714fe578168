"""The event loop every command runs in: uvloop where it exists, asyncio's own elsewhere.

Processes only: the simulated world brings a loop with virtual time, and tests inside one process use asyncio's, so
both are exercised. Nothing else may depend on which one it is.
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[object, object, T]) -> T:
    """`asyncio.run` in the quicker loop."""
    if sys.platform == "win32":
        return asyncio.run(main)
    # A few milliseconds that commands without a loop do not pay.
    import uvloop

    return uvloop.run(main)
