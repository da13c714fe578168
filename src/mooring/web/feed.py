"""Frames for everybody who looks: serialised once, numbered, kept for a while, handed out to all.

    publish ──► the last frames ──► resume: what a tab missed
           └──► every reader's queue ──► too far behind: the reader is cut off and comes back for a whole picture

An `epoch` names one unbroken numbering; after a restart it is another, and nobody resumes across it. Bounded on all
sides: frames kept, bytes waiting per reader. Sockets are not known here.
"""

import asyncio
from collections import deque
from typing import Final

#: Frames a tab may have missed and still resume; at ten a second, half a minute of constant change.
KEPT_FRAMES: Final = 300
#: And what they may take in memory.
KEPT_BYTES: Final = 4 << 20
#: What may wait for one reader, besides what its socket holds.
WAITING_BYTES: Final = 4 << 20


class TooFarBehind(Exception):
    """The reader did not take its frames in time."""


class Ended(Exception):
    """There will be no more frames."""


class Reader:
    """One open tab's queue."""

    def __init__(self, feed: "Feed", *, most: int = WAITING_BYTES) -> None:
        self._feed = feed
        self._most = most
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._end: Exception | None = None

    def offer(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._bytes += len(frame)
        if self._bytes > self._most:
            self._waiting.clear()
            self.end(TooFarBehind())
        self._wake.set()

    def end(self, why: Exception) -> None:
        self._end = why
        self._wake.set()

    async def news(self) -> bytes:
        """All frames that wait, or the next one. Raises TooFarBehind and Ended."""
        while not self._waiting:
            if self._end is not None:
                raise self._end
            self._wake.clear()
            await self._wake.wait()
        frames = b"".join(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return frames

    def close(self) -> None:
        self._feed.leave(self)


class Feed:
    def __init__(self, epoch: str, *, kept_frames: int = KEPT_FRAMES, kept_bytes: int = KEPT_BYTES) -> None:
        self.epoch = epoch
        #: The number of the newest frame.
        self.number = 0
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._kept_frames = kept_frames
        self._kept_bytes = kept_bytes
        self._readers: set[Reader] = set()

    def publish(self, frame: bytes) -> None:
        """The frame after `number`."""
        self.number += 1
        self._frames.append(frame)
        self._bytes += len(frame)
        while len(self._frames) > self._kept_frames or self._bytes > self._kept_bytes:
            self._bytes -= len(self._frames.popleft())
        for reader in tuple(self._readers):
            reader.offer(frame)

    def missed(self, epoch: str, number: int) -> bytes | None:
        """The frames after one that a reader has; None when they are no longer all there."""
        behind = self.number - number
        if epoch != self.epoch or not 0 <= behind <= len(self._frames):
            return None
        return b"".join(list(self._frames)[len(self._frames) - behind :])

    def join(self) -> Reader:
        """A reader of all that is published from now on."""
        reader = Reader(self)
        self._readers.add(reader)
        return reader

    def leave(self, reader: Reader) -> None:
        self._readers.discard(reader)

    def end(self) -> None:
        for reader in tuple(self._readers):
            reader.end(Ended())
