"""`mooring csi-hostpath` as a process: started, awaited, called over its socket, stopped by its process id."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

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
    with closing(sqlite3.connect(f"file:{folder / 'state' / 'state.db'}?mode=ro", uri=True)) as database:
        return [volume_id for (volume_id,) in database.execute("SELECT volume_id FROM volumes ORDER BY volume_id")]
