"""Pods whose volumes fill every node to the last byte, all at once: how many CreateVolume calls fail on the way?

    python bench/exact_fit.py [nodes] [volumes per node]

A scheduler that goes by published figures alone sends pods to room that others are about to take: those volumes fail,
their pods come back, and with exactly enough room for all it may go on like that for long. Counting volumes in flight
avoids it. The embedded cluster does it twice, with and without counting, with its own provisioner, publisher and
hostpath driver over a Unix socket; the API server keeps everything in memory.
"""

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import structlog

from mooring.api import keys
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pod import Pod
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.local_client import LocalClient
from mooring.cluster.storage import GI, ClassRow, StorageSettings, storage
from mooring.cluster.wiring import ControlPlane, running
from mooring.hostpath.layout import Pool
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.memory import MemoryStore

#: Seconds after which a run is given up; the one that counts takes a fraction of it.
PATIENCE: Final = 600.0
CLASS: Final = "fast"


async def run(nodes: int, per_node: int, *, counted: bool) -> None:
    clock, rng = SystemClock(), random.Random(0)
    layout = Layout(nodes=nodes, zones=1, local_volumes=0)
    wanted = StorageSettings(
        pools=(Pool(CLASS, per_node * GI),), classes=(ClassRow(CLASS, {"pool": CLASS}, default=True),)
    )
    with tempfile.TemporaryDirectory() as folder:
        async with storage(wanted, layout.rows(), Path(folder), clock=clock, rng=rng) as made:
            client = LocalClient(ApiServer(MemoryStore(), clock, rng), User("bench", ("system:masters",)))
            plane = ControlPlane(lambda _: client, layout, clock=clock, rng=rng, storage=made)
            async with running(plane):
                if not counted:
                    note = {"metadata": {"annotations": {keys.CAPACITY_USE: "limit"}}}
                    await client.patch(STORAGE_CLASS, CLASS, MergePatch(note))
                # Drivers register and figures come within the first second.
                await clock.sleep(2.0)
                began = time.monotonic()
                await asyncio.gather(*(create(client, number) for number in range(nodes * per_node)))
                done = await all_run(client, nodes * per_node)
                took = time.monotonic() - began
                report(plane.metrics.expose().decode(), done, nodes * per_node, took, counted=counted)


async def create(client: LocalClient, number: int) -> None:
    name = f"p{number}"
    request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(CLAIM, {"metadata": {"name": name}, "spec": request}, namespace="default")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    spec = {"containers": [{"name": "main", "image": "main"}], "volumes": [volume]}
    await client.create(POD, {"metadata": {"name": name}, "spec": spec}, namespace="default")


async def all_run(client: LocalClient, wanted: int) -> int:
    deadline = time.monotonic() + PATIENCE
    count = 0
    while count < wanted and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        pods: tuple[Pod, ...] = (await client.list(POD, namespace="default")).items
        count = sum(1 for pod in pods if pod.status.phase == "Running")
    return count


def report(metrics: str, done: int, wanted: int, took: float, *, counted: bool) -> None:
    calls = {
        line.split('grpc_status_code="')[1].split('"')[0]: int(float(line.rsplit(" ", 1)[1]))
        for line in metrics.splitlines()
        if line.startswith("csi_sidecar_operations_seconds_count{") and "CreateVolume" in line
    }
    failed = sum(count for code, count in calls.items() if code != "OK")
    how = "counted" if counted else "not counted"
    print(
        f"volumes in flight {how}: {done} of {wanted} pods run after {took:.1f} s, {failed} CreateVolume calls failed"
    )


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    per_node = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    for counted in (True, False):
        asyncio.run(run(nodes, per_node, counted=counted))


if __name__ == "__main__":
    main()
