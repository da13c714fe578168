"""Startup of `mooring up` at several cluster sizes: time to ready, time until all capacity is published, memory.

    python -m bench.startup [--nodes 3,1000,2000,5000] [--starts 2]

Each size gets a data folder of its own; the first start is on an empty one, the others are on existing data. Wall time
on a busy machine says little; the CPU time of the process is the upper bound on a quiet one.
"""

import argparse
import json
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from bench.kube.metering import usage_of

#: Of the hostpath driver; each has a capacity object per node.
CLASSES = 3
POLL_SECONDS = 0.1


class Start(NamedTuple):
    """Seconds since the process was started, and resident MB."""

    ready: float
    ready_cpu: float
    published: float
    published_cpu: float
    resident: float
    peak: float


def start(folder: Path, nodes: int) -> Start:
    began = time.monotonic()
    command = [sys.executable, "-m", "mooring", "up", "--data-dir", str(folder), "--port", "0", "--nodes", str(nodes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = ""
    for line in process.stdout:
        if line.startswith("Mooring "):
            url = line.rpartition(" at ")[2].strip()
        if line == "ready\n":
            break
    ready, ready_cpu = time.monotonic() - began, usage_of(process.pid).cpu_seconds
    while process.poll() is None and _capacity_objects(url, folder) < nodes * CLASSES:
        time.sleep(POLL_SECONDS)
    published, published_cpu = time.monotonic() - began, usage_of(process.pid).cpu_seconds
    memory = Path(f"/proc/{process.pid}/status").read_text()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    return Start(ready, ready_cpu, published, published_cpu, _megabytes(memory, "VmRSS"), _megabytes(memory, "VmHWM"))


def _capacity_objects(url: str, folder: Path) -> int:
    """Their number, from a list of one: the question must not cost the server a long answer."""
    token = (folder / "token").read_text().strip()
    authority = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
    request = urllib.request.Request(
        f"{url}/apis/storage.k8s.io/v1/csistoragecapacities?limit=1", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, context=authority) as response:
        page = json.load(response)
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def _megabytes(status: str, field: str) -> float:
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="3,1000,2000,5000")
    parser.add_argument("--starts", type=int, default=2)
    options = parser.parse_args()
    print("nodes start   ready s   cpu s   published s   cpu s   resident MB   peak MB")
    for nodes in map(int, options.nodes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(options.starts):
                done = start(Path(folder), nodes)
                print(
                    f"{nodes:5} {'first' if number == 0 else 'again'} {done.ready:9.2f} {done.ready_cpu:7.2f}"
                    f" {done.published:13.2f} {done.published_cpu:7.2f} {done.resident:13.0f} {done.peak:9.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
