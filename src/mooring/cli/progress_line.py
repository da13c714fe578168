"""One line on standard error that shows how far long work has come; nothing where nobody watches, or for a second."""

import sys
from typing import Final, Self

from mooring.clock import Clock

#: Seconds: what is over sooner needs no line, and a line that changes more often cannot be read.
PATIENCE: Final = 1.0
PAUSE: Final = 0.1
#: Letters between the brackets.
WIDTH: Final = 30
_ERASE: Final = "\r\x1b[K"


class ProgressLine:
    """Call it with what is done, how much and of how much, 0 where nobody knows; leaving the block removes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched = sys.stderr.isatty()
        self._due = clock.monotonic() + PATIENCE
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock.monotonic()
        if not self._watched or now < self._due:
            return
        self._due = now + PAUSE
        self._shown = True
        filled = WIDTH * done // total if total else 0
        share = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total}" if total else str(done)
        sys.stderr.write(f"{_ERASE}{what} {share}")
        sys.stderr.flush()
