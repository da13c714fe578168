"""`mooring csi-hostpath` as a process: started, awaited, called over its socket, stopped by its process id."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from mooring.hostpath.records import VolumeRecord

#: Seconds; it takes half of one on an idle machine.
START = 30


@contextmanager
def csi_hostpath(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The driver of node-1 with state and socket in the folder; killed at the end if it still runs."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mooring", "csi-hostpath", "--node-id", "node-1"),
                *("--endpoint", f"unix://{folder / 'csi.sock'}", "--state-dir", str(folder / "state")),
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "ready\n":
                break
        else:
            raise AssertionError(f"the driver did not start: {(folder / 'log').read_text()}")
        yield process
    finally:
        process.kill()
        process.wait(START)
        process.stdout.close()  # type: ignore[union-attr]


def recorded_volumes(folder: Path) -> list[str]:
    """The ids in the driver's state in `folder/state`, running or not."""
    return [record.volume_id for record in volume_records(folder)]


def volume_records(folder: Path) -> list[VolumeRecord]:
    """The driver's state in `folder/state`, running or not, in the order of ids."""
    with closing(sqlite3.connect(f"file:{folder / 'state' / 'state.db'}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT record FROM volumes ORDER BY volume_id")
        return [msgspec.json.decode(record, type=VolumeRecord) for (record,) in rows]
