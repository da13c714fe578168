"""How many objects have come to be as they should, and when the last of them did.

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
from mooring.client.informer import Informer
from mooring.client.reflector import Scope
from mooring.clock import SystemClock


class Seen(NamedTuple):
    count: int
    #: When the last of them was seen; where there is none, when patience was over. Of the monotonic clock.
    last: float


async def seen(
    client: Client, kind: Kind[Any], scope: Scope, is_done: Callable[[Any], bool], *, count: int, patience: float
) -> Seen:
    """Wait until so many objects are done, or patience is over."""
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
        async with asyncio.timeout(patience):
            await complete.wait()
    except TimeoutError:
        last = last or time.monotonic()
    finally:
        running.cancel()
    return Seen(len(there), last)
