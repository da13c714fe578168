"""Real time of an idle simulated cluster: 10,000 seconds of 100 nodes.

    python -m bench.idle_cluster [--nodes N] [--volumes N] [--pods N] [--seconds S] [--profile]

The bar is under 10 s of real time. Every node has local volumes; `--pods` adds pods with a claim each, which run
before the idle time begins. The start is timed separately. `--profile` shows where the idle time goes.
"""

import argparse
import cProfile
import logging
import pstats
import time
from typing import NamedTuple

import structlog

from mooring.api.kinds import CLAIM, POD
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from support.simulation.cluster import SimulatedCluster, simulate


class Took(NamedTuple):
    """Real seconds, and how many writes the idle time saw."""

    start: float
    idle: float
    writes: int


def measure(layout: Layout, *, pods: int, seconds: float, profiler: cProfile.Profile | None) -> Took:
    began = time.perf_counter()

    async def scenario(cluster: SimulatedCluster) -> Took:
        for number in range(pods):
            await add_pod(cluster, f"pod-{number}")
        if not await cluster.until(lambda: all_run(cluster, pods), within=600):
            raise SystemExit("not every pod could be placed; give more --volumes")
        up, before = time.perf_counter(), len(cluster.history.entries)
        if profiler is not None:
            profiler.enable()
        await cluster.clock.sleep(seconds)
        if profiler is not None:
            profiler.disable()
        return Took(up - began, time.perf_counter() - up, len(cluster.history.entries) - before)

    return simulate(scenario, layout=layout)


async def add_pod(cluster: SimulatedCluster, name: str) -> None:
    resources = {"requests": {"storage": "1Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": LOCAL_CLASS, "resources": resources}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    pod = {"containers": [{"name": "main", "image": "main:1"}], "volumes": volumes}
    await cluster.client.create(CLAIM, {"metadata": {"name": name}, "spec": claim}, namespace="default")
    await cluster.client.create(POD, {"metadata": {"name": name}, "spec": pod}, namespace="default")


async def all_run(cluster: SimulatedCluster, count: int) -> bool:
    return sum(pod.status.phase == "Running" for pod in (await cluster.client.list(POD)).items) == count


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", type=int, default=100)
    arguments.add_argument("--volumes", type=int, default=2, help="local volumes per node")
    arguments.add_argument("--pods", type=int, default=0)
    arguments.add_argument("--seconds", type=float, default=10_000.0)
    arguments.add_argument("--profile", action="store_true")
    asked = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    profiler = cProfile.Profile() if asked.profile else None
    layout = Layout(nodes=asked.nodes, local_volumes=asked.volumes)
    took = measure(layout, pods=asked.pods, seconds=asked.seconds, profiler=profiler)
    print(f"{asked.nodes} nodes, {asked.nodes * asked.volumes} volumes, {asked.pods} pods: start {took.start:.2f} s")
    rate = asked.seconds / took.idle
    print(f"{asked.seconds:,.0f} idle seconds in {took.idle:.2f} s of real time ({rate:,.0f}x), {took.writes} writes")
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(25)


if __name__ == "__main__":
    main()
