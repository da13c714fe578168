"""Time until a large cluster has published the free storage capacity of each of its nodes.

    python -m bench.capacity_objects [--nodes N ...]

Starts `mooring up`'s cluster in this process, on disk, and waits until there is a CSIStorageCapacity for every node and
class. Prints wall and processor seconds until `ready` and from there on. The processor seconds should grow as the
nodes do.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mooring.api.kinds import STORAGE_CAPACITY
from mooring.cli import runtime
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from mooring.cluster.storage import NAMESPACE, StorageSettings
from mooring.provisioner.component import Provisioner


class Moment(NamedTuple):
    wall: float
    cpu: float

    def since(self, earlier: "Moment") -> str:
        return f"{self.wall - earlier.wall:9.2f} {self.cpu - earlier.cpu:9.2f}"


def now() -> Moment:
    return Moment(time.monotonic(), time.process_time())


async def measured(nodes: int, folder: Path, told: Callable[[str], None]) -> None:
    settings = Settings(Layout(nodes), 0, folder, folder / "kubeconfig", storage=StorageSettings())
    clock, began = SystemClock(), now()
    async with serving(settings, clock=clock, rng=random.Random(0)) as cluster:
        ready = now()
        assert cluster.storage is not None
        wanted = nodes * len(cluster.storage.classes)
        client = cluster.connect(Provisioner.name)
        while len((await client.list(STORAGE_CAPACITY, namespace=NAMESPACE)).items) < wanted:
            await clock.sleep(0.1)
        told(f"{nodes:6} {wanted:8} {ready.since(began)} {now().since(ready)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 300, 1000])
    runtime.configure_logging("error")
    print(" nodes  objects     ready: wall, CPU        then: wall, CPU")
    for nodes in parser.parse_args().nodes:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measured(nodes, Path(folder), print))


if __name__ == "__main__":
    main()
