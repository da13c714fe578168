"""The one output point of the command line: what reaches standard output and standard error, terminal or pipe.

Names, messages and labels come from users, and a terminal obeys what is in them: an escape sequence
can erase lines, set the clipboard (OSC 52) or rename the window. `install` puts streams in place that show control
characters as U+FFFD; only colours and the progress line, which Mooring itself makes, pass by `styled` and `redraw`.
JSON and YAML carry the same characters escaped, so nothing is lost to programs.
"""

import re
import sys
from collections.abc import Iterable
from typing import IO, Final, TextIO, cast

import click

#: C0 but newline and tab, DEL, C1, and halves of surrogate pairs, which cannot be encoded.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
#: What JSON does not have to escape and terminals obey.
_UNESCAPED: Final = re.compile(r"[\x7f-\x9f]")
#: To the beginning of the line, and nothing after it.
_ERASE: Final = "\r\x1b[K"


def clean(text: str) -> str:
    """The text without anything a terminal would obey, but for line ends and tabs."""
    return _CONTROLS.sub("\ufffd", text)


class CleanStream:
    """A text stream that cleans what is written; everything else is the stream's behind it."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # click tries bytes to find out what a stream takes
            raise TypeError("a text stream takes text")
        cleaned = clean(text)
        try:
            return self.raw.write(cleaned)
        except UnicodeEncodeError:  # an ASCII locale
            return self.raw.write(cleaned.encode("ascii", "replace").decode("ascii"))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> "_CleanBytes":
        return _CleanBytes(self)

    def flush(self) -> None:
        self.raw.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self.raw, name)


class _CleanBytes:
    def __init__(self, stream: CleanStream) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._stream.write(data.decode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def install() -> None:
    """From now on, everything this process prints goes through clean streams. Idempotent."""
    if not isinstance(sys.stdout, CleanStream):
        sys.stdout = cast(TextIO, CleanStream(sys.stdout))
    if not isinstance(sys.stderr, CleanStream):
        sys.stderr = cast(TextIO, CleanStream(sys.stderr))


def styled(text: str, *, fg: str | None = None, bold: bool = False, colours: bool | None = None) -> None:
    """A line on standard output in a colour, where that is a terminal."""
    click.echo(click.style(clean(text), fg=fg, bold=bold), file=_raw(sys.stdout), color=colours)


def redraw(text: str) -> None:
    """Replace the line on standard error that the cursor is in."""
    raw = _raw(sys.stderr)
    raw.write(_ERASE + clean(text))
    raw.flush()


def echo_json(value: object) -> None:
    """A value as indented JSON, with the control characters escaped that JSON itself would let pass."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    click.echo(_UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def echo_yaml(value: object) -> None:
    """A value as YAML in ASCII: everything else is escaped."""
    import msgspec
    import yaml

    click.echo(yaml.dump(msgspec.to_builtins(value), Dumper=yaml.CSafeDumper, sort_keys=False), nl=False)


def _raw(stream: object) -> IO[str]:
    return stream.raw if isinstance(stream, CleanStream) else cast(IO[str], stream)
