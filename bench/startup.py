"""How long until `mooring up` is ready, and how much memory the idle cluster takes.

    python bench/startup.py [starts]

Prints wall and CPU seconds per start, first on an empty data folder and then on an existing one, and the resident
memory. Wall time on a busy machine says little; CPU time says what a quiet one would take at most.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start(folder: str) -> tuple[float, float, float]:
    """Seconds until ready, CPU seconds until then, and resident MB."""
    began = time.monotonic()
    command = [sys.executable, "-m", "mooring", "up", "--data-dir", folder, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line == "ready\n":
            break
    wall = time.monotonic() - began
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    process.send_signal(signal.SIGTERM)
    process.communicate()
    return wall, cpu, resident


def main() -> None:
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        print("start    wall s   cpu s   resident MB")
        for number in range(starts):
            wall, cpu, resident = start(folder)
            print(f"{'first' if number == 0 else 'again':<6} {wall:8.2f} {cpu:7.2f} {resident:13.0f}")


if __name__ == "__main__":
    main()
