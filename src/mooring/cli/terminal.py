"""Exit codes and output streams of commands.

Names and messages come from users, and terminals obey escape sequences in them. `install` replaces control characters
on both streams by U+FFFD; only `styled` and `redraw` pass. JSON and YAML carry the characters escaped.
"""

import enum
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Final, TextIO, cast

import click


class ExitCode(enum.IntEnum):
    OK = 0
    PROBLEM = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4


MEANINGS: Final = {
    ExitCode.OK: "done, and no problem was found",
    ExitCode.PROBLEM: "done, and something is stuck, pending or lost; or a component cannot run or lost its lease",
    ExitCode.USAGE: "flags, files or kubeconfig are wrong: one sentence on standard error",
    ExitCode.UNREACHABLE: "the cluster cannot be reached, or you may not list the objects that the result depends on",
    ExitCode.NOT_FOUND: "no object, page or message of that name exists",
}


class InvalidInput(click.ClickException):
    """Invalid flags, files or kubeconfig."""

    exit_code = ExitCode.USAGE


class ClusterUnavailable(click.ClickException):
    """The API server is unreachable or denies the reads that the result depends on."""

    exit_code = ExitCode.UNREACHABLE


class ObjectNotFound(click.ClickException):
    """No object, message or page has that name."""

    exit_code = ExitCode.NOT_FOUND


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


def echo_document(value: object, output: str) -> bool:
    """Print the value if `output` is json or yaml; False for formats that are the command's own."""
    if output == "json":
        echo_json(value)
    elif output == "yaml":
        echo_yaml(value)
    else:
        return False
    return True


#: Cell of a table without a value.
NONE: Final = "-"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with aligned columns; the first row has the headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def segment_text(labels: Mapping[str, str]) -> str:
    """A topology segment in a cell."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "(all nodes)"


def age(moment: str | None, now: float) -> str:
    """Time since an RFC 3339 timestamp, as kubectl shows it."""
    from mooring.api.times import UNKNOWN, from_time, human_duration

    if moment is None:
        return NONE
    try:
        return human_duration(now - from_time(moment))
    except ValueError:
        return UNKNOWN


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
