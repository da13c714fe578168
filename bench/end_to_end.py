"""Pods from creation to running on the embedded cluster, everything in one process, with data on disk.

    python -m bench.end_to_end [--nodes N] [--pods N] [--seconds S] [--volumes] [--profile]

The bars are 400 pods/s without volumes and 200 pods/s with one WaitForFirstConsumer local volume each, on 1,000 nodes.
Pods are created by another process over HTTPS, as by a user; the rate counts from the first creation to the moment the
last pod runs. `--profile` shows where the cluster's time goes.
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
from typing import Any, NamedTuple

import structlog

from bench.kube.cluster import each
from mooring.api.kinds import CLAIM, POD
from mooring.cli.runtime import run_event_loop
from mooring.client import kubeconfig
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.cluster.embedded import Settings, serving


class Took(NamedTuple):
    """Seconds: until the cluster was ready, until all pods were created, until all ran; and of those, on a processor.

    The last gives the rate on an otherwise idle machine.
    """

    start: float
    created: float
    ran: float
    busy: float


def claim(name: str) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": LOCAL_CLASS, "resources": resources}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, *, volume: bool) -> dict[str, Any]:
    requests = {"cpu": "10m", "memory": "16Mi"}
    container = {"name": "main", "image": "main:1", "resources": {"requests": requests}}
    spec: dict[str, Any] = {"containers": [container]}
    if volume:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return {"metadata": {"name": name}, "spec": spec}


async def create(config: str, pods: int, *, volumes: bool) -> None:
    """Create the pods, in the other process."""
    client = HttpClient(kubeconfig.load(config), component="bench", clock=SystemClock())

    async def create_pod(number: int) -> None:
        name = f"pod-{number}"
        if volumes:
            await client.create(CLAIM, claim(name), namespace="default")
        await client.create(POD, pod(name, volume=volumes), namespace="default")

    try:
        await each(range(pods), create_pod)
    finally:
        await client.close()


async def measure(layout: Layout, *, pods: int, volumes: bool, profiler: cProfile.Profile | None) -> Took:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(layout, 0, Path(folder), None)
        async with serving(settings, clock=SystemClock(), rng=random.Random(0)) as cluster:
            up = time.perf_counter()
            watching = asyncio.create_task(all_run(str(cluster.kubeconfig), pods))
            await asyncio.sleep(1.0)
            if profiler is not None:
                profiler.enable()
            first, idle = time.perf_counter(), time.process_time()
            command = [sys.executable, __file__, "--create", str(cluster.kubeconfig), "--pods", str(pods)]
            creator = await asyncio.create_subprocess_exec(*command, *(["--volumes"] if volumes else []))
            code = await creator.wait()
            if code != 0:
                raise SystemExit(f"creating pods ended with {code}")
            created = time.perf_counter()
            await watching
            ran = time.perf_counter()
            if profiler is not None:
                profiler.disable()
            return Took(up - began, created - first, ran - first, time.process_time() - idle)


async def all_run(config: str, pods: int) -> None:
    """Watch in the cluster's own process: one more watcher costs it little."""
    client = HttpClient(kubeconfig.load(config), component="bench", clock=SystemClock())
    running: set[str] = set()
    try:
        async for event in client.watch(POD, after=None, namespace="default"):
            if event.object.status.phase == "Running":
                running.add(event.object.name)
            if len(running) == pods:
                return
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--volumes", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--create", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if options.create:
        run_event_loop(create(options.create, options.pods, volumes=options.volumes))
        return
    profiler = cProfile.Profile(time.process_time) if options.profile else None
    layout = Layout(options.nodes, 3, -(-options.pods // options.nodes) + 1 if options.volumes else 0)
    took = run_event_loop(measure(layout, pods=options.pods, volumes=options.volumes, profiler=profiler))
    what = "one late-bound volume each" if options.volumes else "no volumes"
    print(f"{options.nodes} nodes ready in {took.start:.1f} s; {options.pods} pods, {what}:")
    print(
        f"  created in {took.created:.1f} s ({options.pods / took.created:.0f}/s), all running after {took.ran:.1f} s"
    )
    cost = f"{1000 * took.busy / options.pods:.2f} ms of processor time each"
    print(f"  {options.pods / took.ran:.0f} pods/s from creation to running; {cost}")
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(60)


if __name__ == "__main__":
    main()
