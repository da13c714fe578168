"""Pods with provisioned volumes, from creation to running on the embedded cluster, everything in one process.

    python -m bench.provisioned_pods [--nodes N] [--pods N] [--volumes 1|2] [--exact-fit] [--profile]

With two volumes a pod gets all of them or none: they are held and then committed together. The CSI driver is the real
hostpath driver behind a Unix socket, and all data is on disk. Pods are created by another process over HTTPS, as by a
user; times count from the first creation. The bars: 60 pods/s with two volumes on 1,000 nodes with 1,000 pods, CPU
per pod with 5,000 pods at most 1.3 times that with 200; with `--exact-fit`, where volumes fill every
node to the last byte, 10,000 pods on 100 nodes with one volume each: 100 volumes/s, no failed CreateVolume call.
"""

import argparse
import asyncio
import cProfile
import logging
import pstats
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from bench.kube.cluster import each
from mooring.api.health import readiness
from mooring.api.kinds import CLAIM, POD
from mooring.cli.runtime import run_event_loop
from mooring.client import kubeconfig
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.api_server import ApiSettings, opened
from mooring.cluster.bootstrap import Layout
from mooring.cluster.control_plane import ControlPlane, running_control_plane
from mooring.cluster.identities import identity_of
from mooring.cluster.local_client import LocalClient
from mooring.cluster.storage import GI, ClassRow, StorageSettings, storage
from mooring.hostpath.records import Pool

CLASS: Final = "bench"
#: Of pods that run on a node of the layout.
PODS_PER_NODE: Final = 110


class Took(NamedTuple):
    """Seconds until the cluster was ready, until all pods were created, until each pod ran in the order in which they
    did, and on a processor; and failed CreateVolume calls."""

    start: float
    created: float
    running: list[float]
    busy: float
    failed: int
    #: Ranks of the pods by creation, in the order in which they ran.
    order: list[int]


def claim(name: str) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": resources}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, claims: list[str]) -> dict[str, Any]:
    requests = {"cpu": "10m", "memory": "16Mi"}
    container = {"name": "main", "image": "main:1", "resources": {"requests": requests}}
    volumes = [{"name": f"data-{each}", "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return {"metadata": {"name": name}, "spec": {"containers": [container], "volumes": volumes}}


async def create(config: str, pods: int, volumes: int) -> None:
    """Create the claims and pods, in the other process."""
    client = HttpClient(kubeconfig.load(config), component="bench", clock=SystemClock())

    async def create_pod(number: int) -> None:
        claims = [f"{letter}-{number}" for letter in "ab"[:volumes]]
        for name in claims:
            await client.create(CLAIM, claim(name), namespace="default")
        await client.create(POD, pod(f"pod-{number}", claims), namespace="default")

    try:
        await each(range(pods), create_pod)
    finally:
        await client.close()


async def watch_running(config: str, pods: int, moments: dict[int, float]) -> None:
    """Watch in the cluster's own process: one more watcher costs it little."""
    client = HttpClient(kubeconfig.load(config), component="bench", clock=SystemClock())
    try:
        async for event in client.watch(POD, after=None, namespace="default"):
            if event.object.status.phase == "Running":
                number = int(event.object.name.rpartition("-")[2])
                moments.setdefault(number, time.perf_counter())
            if len(moments) == pods:
                return
    finally:
        await client.close()


async def measure(nodes: int, pods: int, volumes: int, *, exact_fit: bool, profiler: cProfile.Profile | None) -> Took:
    clock, rng = SystemClock(), random.Random(0)
    began = time.perf_counter()
    layout = Layout(nodes, 3, 0)
    per_node = -(-pods // nodes) if exact_fit else PODS_PER_NODE
    row = ClassRow(CLASS, {"pool": CLASS}, default=True)
    wanted = StorageSettings(pools=(Pool(CLASS, per_node * volumes * GI),), classes=(row,))
    with tempfile.TemporaryDirectory() as folder:
        async with (
            opened(ApiSettings(0, data_dir=Path(folder), kubeconfig=None), clock=clock, rng=rng) as process,
            storage(wanted, layout.rows(), process.folder / "csi", clock=clock, rng=rng) as made,
        ):

            def connect(component: str) -> Client:
                return LocalClient(process.api, identity_of(component).user, process.security.access)

            plane = ControlPlane(connect, layout, clock=clock, rng=rng, storage=made)
            async with (
                process.listening(plane.metrics, readiness(plane.components), plane.debug) as door,
                running_control_plane(plane),
            ):
                config = str(door.kubeconfig)
                ready = time.perf_counter()
                moments: dict[int, float] = {}
                watching = asyncio.create_task(watch_running(config, pods, moments))
                await asyncio.sleep(2.0)
                if profiler is not None:
                    profiler.enable()
                first, idle = time.perf_counter(), time.process_time()
                options = ["--create", config, "--pods", str(pods), "--volumes", str(volumes)]
                creator = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "bench.provisioned_pods", *options)
                )
                code = await creator.wait()
                if code != 0:
                    raise SystemExit(f"creating pods ended with {code}")
                created = time.perf_counter()
                await watching
                if profiler is not None:
                    profiler.disable()
                busy = time.process_time() - idle
                ran = sorted(moment - first for moment in moments.values())
                failed = failures(plane.metrics.expose().decode())
                return Took(ready - began, created - first, ran, busy, failed, list(moments))


def failures(metrics: str) -> int:
    """CreateVolume calls that did not end with OK."""
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in metrics.splitlines()
        if line.startswith("csi_sidecar_operations_seconds_count{")
        and "CreateVolume" in line
        and 'grpc_status_code="OK"' not in line
    )


def displacement(order: list[int]) -> float:
    """How far from its place by creation a pod completes, on average, as a share of all pods: 0 in order, a third if
    the order is random."""
    count = len(order)
    return sum(abs(place - number) for place, number in enumerate(order)) / count**2 if count else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--volumes", type=int, choices=(1, 2), default=2, help="of each pod")
    parser.add_argument("--exact-fit", action="store_true", help="the volumes fill every node to the last byte")
    parser.add_argument("--profile", action="store_true", help="where the cluster's CPU time goes")
    parser.add_argument("--create", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    pods, volumes = options.pods, options.volumes
    if options.create:
        run_event_loop(create(options.create, pods, volumes))
        return
    profiler = cProfile.Profile(time.process_time) if options.profile else None
    took = run_event_loop(measure(options.nodes, pods, volumes, exact_fit=options.exact_fit, profiler=profiler))
    last = took.running[-1]
    print(f"{options.nodes} nodes ready in {took.start:.1f} s; {pods} pods with {volumes} provisioned volumes each:")
    print(
        f"  created in {took.created:.1f} s; running: first after {took.running[0]:.2f} s, "
        f"median {took.running[pods // 2]:.2f} s, last {last:.2f} s, "
        f"{100 * displacement(took.order):.0f} % out of order"
    )
    print(
        f"  {pods / last:.1f} pods/s, {volumes * pods / last:.1f} volumes/s; {1000 * took.busy / pods:.2f} ms of CPU "
        f"per pod; {took.failed} CreateVolume calls failed"
    )
    if profiler is not None:
        statistics = pstats.Stats(profiler)
        statistics.sort_stats("tottime").print_stats(60)
        statistics.sort_stats("cumulative").print_stats(120)


if __name__ == "__main__":
    main()
