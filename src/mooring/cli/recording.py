"""`mooring simulate --record` and `--replay`: a live cluster's changes in a file that only its owner may read."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click

from mooring.cli.runtime import run_event_loop, stop_event
from mooring.cli.sources import SourceFlags, source_access
from mooring.cli.terminal import ClusterUnavailable, InvalidInput
from mooring.clock import SystemClock
from mooring.server.environment import SystemEntropy
from mooring.whatif.inventory import BadQuestion
from mooring.whatif.recorder import CannotRecord, ChangeRecorder, RecordedCounts
from mooring.whatif.recording import MAX_LINE_BYTES, read_recording
from mooring.whatif.replay import Replay

if TYPE_CHECKING:
    from mooring.client.access import Access

MIB: Final = 1 << 20


def record(source: SourceFlags, file: Path, *, component: str, seconds: float, mebibytes: int) -> None:
    """Until Ctrl-C, so many seconds have passed, or the file is full. Raises InvalidInput and ClusterUnavailable."""
    access = source_access(source)
    with _created(file) as opened:
        click.echo(f"Recording {access.server} into {file} until Ctrl-C, at most for {seconds:.0f} s.", err=True)
        try:
            counts = run_event_loop(_recorded(access, _flushing(opened), component, seconds, mebibytes * MIB))
        except CannotRecord as error:
            raise ClusterUnavailable(f"Cannot record the cluster: {error}.") from error
    click.echo(f"Recorded {counts.objects} objects and {counts.changes} changes in {counts.seconds:.0f} s.")
    if counts.reason:
        click.echo(f"note: ended early: {counts.reason}", err=True)


@contextmanager
def _created(file: Path) -> Iterator[IO[bytes]]:
    """A new file that others may not read; never one that is there already."""
    try:
        opened = open(file, "xb", opener=_private)  # noqa: SIM115  # Path.open has no opener
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}.") from error
    with opened:
        yield opened


def _flushing(opened: IO[bytes]) -> Callable[[bytes], object]:
    """Every line is in the file at once: a recorder that is killed loses nothing."""

    def write(line: bytes) -> None:
        opened.write(line)
        opened.flush()

    return write


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


async def _recorded(
    access: "Access", write: Callable[[bytes], object], component: str, seconds: float, max_bytes: int
) -> RecordedCounts:
    # Imported here: replays do not need it.
    from mooring.client.http import HttpClient

    stop, clock = stop_event(), SystemClock()
    client = HttpClient(access, component=component, clock=clock)
    try:
        recorder = ChangeRecorder(client, write, clock=clock, rng=SystemEntropy(), max_bytes=max_bytes)
        return await recorder.record(stop, seconds)
    finally:
        await client.close()


def replay_of(file: Path, load_factor: int) -> Replay:
    """Raises InvalidInput."""
    try:
        with file.open("rb") as opened:
            return Replay(read_recording(iter(lambda: opened.readline(MAX_LINE_BYTES + 1), b"")), load_factor)
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}.") from error
    except BadQuestion as error:
        raise InvalidInput(f"{file}: {error}.") from error
