"""The lines of a watch, put together from the chunks they arrive in. Pure; knows bytes, not events."""

from collections.abc import Iterator
from typing import Final

#: Far above any object (etcd takes 1.5 MiB) and low enough that a broken peer cannot fill the memory.
LONGEST_LINE: Final = 8 * 1024 * 1024


class LineTooLong(Exception):
    """A line grew past all bounds before it ended."""


class WatchLines:
    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def unfinished(self) -> bool:
        """Whether the last chunk ended within a line."""
        return self._size > 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines this chunk completes, without their ends; empty ones are left out. Raises LineTooLong."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._keep(piece)
            line = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            if line:
                yield line
        self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._longest:
            raise LineTooLong(f"a line of the watch is longer than {self._longest} bytes")
        if piece:
            self._parts.append(piece)
