"""A row of the table of messages."""

import re
from functools import cached_property
from typing import Final

import msgspec

#: What stands for a name or a number in a text: `<claim>`.
_HOLE: Final = re.compile(r"<[a-z ]+>")


class Message(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One text that somebody says. `text` is today's, `older` are those of earlier releases for the same thing."""

    text: str
    said_by: str
    means: str
    now: str
    older: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Its place on the page, as headings are linked to."""
        return re.sub(r"[^a-z0-9 _-]", "", self.text.lower()).replace(" ", "-")

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(text) for text in (self.text, *self.older))


def _pattern(text: str) -> re.Pattern[str]:
    """The text with anything in its holes, but for a hole at its end: another text may begin there."""
    parts = [re.escape(part) for part in _HOLE.split(text)]
    if not parts[0]:
        parts[:2] = [rf"\S+{parts[1]}"]
    if not parts[-1]:
        parts[-2:] = [rf"{parts[-2]}(?=\S)"]
    return re.compile(".+?".join(parts), re.IGNORECASE)
