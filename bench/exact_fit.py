"""Pods whose volumes fill every node to the last byte, all at once: how many CreateVolume calls fail on the way?

    python bench/exact_fit.py [--nodes N] [--volumes N] [--simulated]

A scheduler that goes by published figures alone sends pods to room that others are about to take: those volumes fail,
their pods come back, and with exactly enough room for all it may go on like that for long. Counting volumes in flight
avoids it. The embedded cluster does it twice, with and without counting, with its own provisioner, publisher and
hostpath driver over a Unix socket; the API server keeps everything in memory. `--simulated` does it in the simulated
world, on virtual time and without a file, for numbers of nodes and pods that one machine has no room for.
"""

import argparse
import asyncio
import logging
import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from mooring.api import keys
from mooring.api.kinds import BY_KIND, CLAIM, POD, STORAGE_CLASS
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.local_client import LocalClient
from mooring.cluster.storage import GI, ClassRow, StorageSettings, storage
from mooring.cluster.wiring import ControlPlane, running
from mooring.csi.contract import CreateVolume, DriverError, DriverVolume
from mooring.hostpath.layout import Pool
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.sim.faults import FaultPlan
from mooring.sim.storage import CONTROLLER, Hostpaths
from mooring.sim.world import Annex, World, simulate
from mooring.store.memory import MemoryStore

#: Seconds after which a run is given up; the one that counts takes a fraction of it.
PATIENCE: Final = 600.0
CLASS: Final = "fast"
#: Seconds, simulated: how long requests and answers take. Without any, nobody would ever be late.
LATENCY: Final = 0.02


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
                began, cpu = time.monotonic(), time.process_time()
                await asyncio.gather(*(create(client, number) for number in range(nodes * per_node)))
                done = await all_run(client, nodes * per_node)
                took = f"{time.monotonic() - began:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
                report(failures(plane.metrics.expose().decode()), done, nodes * per_node, took, counted=counted)


def simulated(nodes: int, per_node: int, *, counted: bool) -> None:
    layout = Layout(nodes=nodes, zones=1, local_volumes=0)
    storage = Hostpaths(layout, **{CLASS: per_node * GI})
    failed = 0

    def annex(rng: random.Random) -> Annex:
        made = storage.annex(rng)
        driver = made.drivers[CONTROLLER]
        create_volume = driver.create_volume

        async def counting(request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
            nonlocal failed
            try:
                return await create_volume(request, secrets=secrets)
            except DriverError:
                failed += 1
                raise

        setattr(driver, "create_volume", counting)  # noqa: B010  # a method of an instance, for once
        return made

    async def scenario(world: World) -> tuple[int, float]:
        for body in storage.objects():
            kind = BY_KIND[body["apiVersion"], body["kind"]]
            if kind is STORAGE_CLASS and not counted:
                body["metadata"]["annotations"] = {keys.CAPACITY_USE: "limit"}
            await world.client.create(kind, body)
        await world.clock.sleep(10.0)
        began = world.clock.monotonic()
        for number in range(nodes * per_node):
            await create(world.client, number)
        done = 0
        while done < nodes * per_node and world.clock.monotonic() - began < PATIENCE:
            await world.clock.sleep(1.0)
            done = nodes * per_node - await count_waiting(world.client)
        return done, world.clock.monotonic() - began

    cpu = time.process_time()
    done, seconds = simulate(scenario, layout=layout, plan=FaultPlan((), LATENCY), annex=annex)
    took = f"{seconds:.0f} simulated s ({time.process_time() - cpu:.0f} s of CPU)"
    report(failed, done, nodes * per_node, took, counted=counted)


async def create(client: Client, number: int) -> None:
    name = f"p{number}"
    request = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await client.create(CLAIM, {"metadata": {"name": name}, "spec": request}, namespace="default")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    spec = {"containers": [{"name": "main", "image": "main"}], "volumes": [volume]}
    await client.create(POD, {"metadata": {"name": name}, "spec": spec}, namespace="default")


async def all_run(client: Client, wanted: int) -> int:
    deadline = time.monotonic() + PATIENCE
    count = 0
    while count < wanted and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        count = wanted - await count_waiting(client)
    return count


async def count_waiting(client: Client) -> int:
    return len((await client.list(POD, namespace="default", fields="status.phase!=Running")).items)


def failures(metrics: str) -> int:
    calls = {
        line.split('grpc_status_code="')[1].split('"')[0]: int(float(line.rsplit(" ", 1)[1]))
        for line in metrics.splitlines()
        if line.startswith("csi_sidecar_operations_seconds_count{") and "CreateVolume" in line
    }
    return sum(count for code, count in calls.items() if code != "OK")


def report(failed: int, done: int, wanted: int, took: str, *, counted: bool) -> None:
    how = "counted" if counted else "not counted"
    print(f"volumes in flight {how}: {done} of {wanted} pods run after {took}, {failed} CreateVolume calls failed")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", type=int, default=10)
    arguments.add_argument("--volumes", type=int, default=100, help="that fit on a node; at most the 110 pods it takes")
    arguments.add_argument("--simulated", action="store_true")
    asked = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for counted in (True, False):
        if asked.simulated:
            simulated(asked.nodes, asked.volumes, counted=counted)
        else:
            asyncio.run(run(asked.nodes, asked.volumes, counted=counted))


if __name__ == "__main__":
    main()
