"""Pod specs that were found sound lately: a workload's replicas differ in their names, not in what has to be judged.

A memory for `pod`, which decides what sound means. Specs are told apart by their whole content, so nothing passes here
that would not pass there; those with faults are judged, and explained, every time.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from mooring.server.body import Body

#: As many workloads as create pods at the same time, and then some.
KEPT: Final = 256
#: Longer specs are judged each time: what is remembered stays below a megabyte or two.
MAX_BYTES: Final = 8192

_encode = msgspec.json.Encoder().encode


class SoundSpecs:
    def __init__(self, *, kept: int = KEPT) -> None:
        self._kept = kept
        #: Ordered, because taking the oldest out is then one step: large requests are judged in another thread.
        self._specs: OrderedDict[bytes, None] = OrderedDict()

    def key(self, spec: Body) -> bytes:
        return _encode(spec)

    def __contains__(self, key: bytes) -> bool:
        return key in self._specs

    def add(self, key: bytes) -> None:
        """The oldest makes room."""
        if len(key) > MAX_BYTES:
            return
        self._specs[key] = None
        if len(self._specs) > self._kept:
            self._specs.popitem(last=False)
