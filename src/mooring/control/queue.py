"""A keyed work queue: every key is handled by one worker at a time, and never forgotten.

    add ──► waiting ──► next() ──► working ──► done()
               ▲                      │ add while working: once more after done()
               └── retry / add_after ─┘

Adding a key that already waits changes nothing; adding one that is being worked on makes it come again. `retry`
waits 5 ms doubling to 1000 s per key, as upstream's controllers do, until `forget`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from mooring.clock import Clock

K = TypeVar("K", bound=Hashable)

#: client-go's per-item exponential limiter.
FIRST_RETRY: Final = 0.005
LONGEST_RETRY: Final = 1000.0
