"""Pods whose volumes fill every node to the last byte, all at once: how many CreateVolume calls fail?

    python -m bench.exact_fit [--nodes N] [--volumes N] [--simulated]

A scheduler that only uses published capacity selects segments whose capacity in-flight volumes are about to use: their
provisioning fails and their pods are scheduled again, repeatedly if capacity is exactly enough for all. Counting
in-flight volumes avoids it. The embedded cluster runs it twice, with and without counting, with its own provisioner,
publisher and hostpath driver over a Unix socket; the API server keeps everything in memory. `--simulated` runs it in
the simulated environment, in virtual time and without files, for more nodes and pods than one machine can run.
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

from mooring.api import well_known
from mooring.api.kinds import BY_KIND, CLAIM, POD, STORAGE_CLASS
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.control_plane import ControlPlane, running_control_plane
from mooring.cluster.local_client import LocalClient
from mooring.cluster.storage import GI, ClassRow, StorageSettings, storage
from mooring.csi.contract import CreateVolume, DriverError, DriverVolume
from mooring.hostpath.records import Pool
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.watch_cache import MemoryStore
from support.simulation.cluster import ExtraComponents, SimulatedCluster, simulate
from support.simulation.faults import FaultPlan
from support.simulation.storage import CONTROLLER, HostpathStorage

#: Timeout of a run in seconds; a normal run takes a fraction of it.
TIMEOUT_SECONDS: Final = 600.0
CLASS: Final = "fast"
#: Simulated latency of requests and responses in seconds. Without it, no component would see stale state.
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
            async with running_control_plane(plane):
                if not counted:
                    note = {"metadata": {"annotations": {well_known.CAPACITY_USE: "limit"}}}
                    await client.patch(STORAGE_CLASS, CLASS, MergePatch(note))
                # Drivers register and capacity is published within the first second.
                await clock.sleep(2.0)
                began, cpu = time.monotonic(), time.process_time()
                await asyncio.gather(*(create(client, number) for number in range(nodes * per_node)))
                done = await all_run(client, nodes * per_node)
                took = f"{time.monotonic() - began:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
                report(failures(plane.metrics.expose().decode()), done, nodes * per_node, took, counted=counted)


def simulated(nodes: int, per_node: int, *, counted: bool) -> None:
    layout = Layout(nodes=nodes, zones=1, local_volumes=0)
    storage = HostpathStorage(layout, **{CLASS: per_node * GI})
    failed = 0

    def extra_components(rng: random.Random) -> ExtraComponents:
        made = storage.extra_components(rng)
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

    async def scenario(cluster: SimulatedCluster) -> tuple[int, float]:
        for body in storage.objects():
            kind = BY_KIND[body["apiVersion"], body["kind"]]
            if kind is STORAGE_CLASS and not counted:
                body["metadata"]["annotations"] = {well_known.CAPACITY_USE: "limit"}
            await cluster.client.create(kind, body)
        await cluster.clock.sleep(10.0)
        began = cluster.clock.monotonic()
        for number in range(nodes * per_node):
            await create(cluster.client, number)
        done = 0
        while done < nodes * per_node and cluster.clock.monotonic() - began < TIMEOUT_SECONDS:
            await cluster.clock.sleep(1.0)
            done = nodes * per_node - await count_waiting(cluster.client)
        return done, cluster.clock.monotonic() - began

    cpu = time.process_time()
    done, seconds = simulate(scenario, layout=layout, plan=FaultPlan((), LATENCY), extra_components=extra_components)
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
    deadline = time.monotonic() + TIMEOUT_SECONDS
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
