"""The operating system's randomness, fetched in blocks: every object needs a uid, and a system call each would show.

As good as `random.SystemRandom`, and as little repeatable; where runs must repeat, a seeded `random.Random` is passed
instead.
"""

import os
import random
from typing import Final

#: Sixteen bytes a uid: one system call for 256 of them.
BLOCK_BYTES: Final = 4096


class SystemEntropy(random.SystemRandom):
    """For one event loop: blocks are not shared between threads."""

    def __init__(self) -> None:
        super().__init__()
        self._block = b""
        self._used = 0

    def getrandbits(self, k: int, /) -> int:
        size = (k + 7) // 8
        return int.from_bytes(self.randbytes(size)) >> (size * 8 - k)

    def randbytes(self, n: int) -> bytes:
        if n > BLOCK_BYTES:
            return os.urandom(n)
        if self._used + n > len(self._block):
            self._block, self._used = os.urandom(BLOCK_BYTES), 0
        taken = self._block[self._used : self._used + n]
        self._used += n
        return taken
