"""Number of completed objects, and the time of the last completion.

By an informer: lists would cost the server more than the work itself, and a bare watch is ended by the server when its
reader is busy, as this program is.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.client.informer import Informer, Scope
from mooring.clock import SystemClock


class Seen(NamedTuple):
    count: int
    #: When the last of them was observed, or the time of the timeout. Of the monotonic clock.
    last: float


async def seen(
    client: Client, kind: Kind[Any], scope: Scope, is_done: Callable[[Any], bool], *, count: int, timeout: float
) -> Seen:
    """Wait until this many objects are complete, or until the timeout."""
    there: set[str] = set()
    last = 0.0
    complete = asyncio.Event()

    def note(_: ApiObject | None, after: ApiObject | None) -> None:
        nonlocal last
        if after is not None and after.name not in there and is_done(after):
            there.add(after.name)
            last = time.monotonic()
            if len(there) == count:
                complete.set()

    informer = Informer(client, kind, clock=SystemClock(), rng=random.SystemRandom(), scope=scope)
    informer.on_change(note)
    running = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(timeout):
            await complete.wait()
    except TimeoutError:
        last = last or time.monotonic()
    finally:
        running.cancel()
    return Seen(len(there), last)
