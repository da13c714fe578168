"""One line on standard error that shows how far long work has come, once it has taken a second.

Where standard error is no terminal nothing is shown, or, if asked for, a line of its own now and then.
"""

import sys
from typing import Final, Self

from mooring.cli import terminal
from mooring.clock import Clock

#: Seconds: what is over sooner needs no line, and a line that changes more often cannot be read.
PATIENCE: Final = 1.0
PAUSE: Final = 0.1
#: Seconds between two lines in a file.
FILE_PAUSE: Final = 10.0
#: Letters between the brackets.
WIDTH: Final = 30


class ProgressLine:
    """Call it with what is done, how much and of how much, 0 where nobody knows; leaving the block removes it."""

    def __init__(self, clock: Clock, *, in_files: bool = False) -> None:
        """`in_files`: also where standard error is no terminal."""
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._watched = self._terminal or in_files
        self._due = clock.monotonic() + PATIENCE
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._terminal:
            terminal.redraw("")

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock.monotonic()
        if not self._watched or now < self._due:
            return
        self._due = now + (PAUSE if self._terminal else FILE_PAUSE)
        self._shown = True
        if self._terminal:
            filled = WIDTH * done // total if total else 0
            share = f" [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total}" if total else f" {done or '…'}"
            terminal.redraw(f"{what}{share}")
        else:
            sys.stderr.write(f"{what}{f': {done} of {total}' if total else ' …'}\n")
            sys.stderr.flush()
