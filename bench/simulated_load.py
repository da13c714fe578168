"""Cost of a simulated cluster under load: pods with one provisioned volume each, created at once.

    python -m bench.simulated_load [--pods N] [--nodes N] [--profile] [--callers NAME]

All components of the embedded cluster run on virtual time, each with its own client and informers, with the hostpath
driver in memory. The volumes are of a WaitForFirstConsumer class and fill every node to the last byte. Prints CPU
seconds, simulated seconds and function calls for each pod; calls are counted in a second run, because counting them
multiplies the time. `--profile` prints where the time goes, `--callers` also who calls the functions of that name.
"""

import argparse
import cProfile
import logging
import pstats
import time
from typing import Final, NamedTuple

import structlog

from mooring.api.kinds import BY_KIND, CLAIM, POD
from mooring.cluster.bootstrap import Layout
from support.builders import claim_body, pod_body
from support.builders.counting import counted
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.faults import FaultPlan
from support.simulation.storage import HostpathStorage

GI: Final = 2**30
CLASS: Final = "fast"
#: Simulated latency of requests and responses in seconds. Without it, no component would see stale state.
LATENCY: Final = 0.02
#: Simulated seconds after which a run has failed.
TIMEOUT_SECONDS: Final = 3600.0
#: Simulated seconds until the driver is registered on all nodes and capacity is published.
SETTLE_SECONDS: Final = 10.0


class Load(NamedTuple):
    """Of the pods alone: nodes and drivers were ready before."""

    simulated_seconds: float
    calls: int


def run(pods: int, nodes: int, *, count: bool = False) -> Load:
    """Create the pods and wait until all of them run."""
    layout = Layout(nodes=nodes, zones=1, local_volumes=0)
    storage = HostpathStorage(layout, **{CLASS: -(-pods // nodes) * GI})

    async def load(cluster: SimulatedCluster) -> float:
        began = cluster.clock.monotonic()
        for number in range(pods):
            name = f"p{number}"
            await cluster.client.create(
                CLAIM, claim_body(name=name, storage_class=CLASS, size="1Gi"), namespace="default"
            )
            await cluster.client.create(POD, pod_body(name=name, claims=[name]), namespace="default")
        while waiting := (await cluster.client.list(POD, namespace="default", fields="status.phase!=Running")).items:
            if cluster.clock.monotonic() - began > TIMEOUT_SECONDS:
                raise RuntimeError(f"{len(waiting)} of {pods} pods do not run")
            await cluster.clock.sleep(1.0)
        return cluster.clock.monotonic() - began

    async def scenario(cluster: SimulatedCluster) -> Load:
        for body in storage.objects():
            await cluster.client.create(BY_KIND[body["apiVersion"], body["kind"]], body)
        await cluster.clock.sleep(SETTLE_SECONDS)
        if not count:
            return Load(await load(cluster), 0)
        with counted() as counter:
            seconds = await load(cluster)
        return Load(seconds, counter.calls)

    plan = FaultPlan((), LATENCY)
    return simulate(scenario, layout=layout, plan=plan, extra_components=storage.extra_components)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--callers", default="", metavar="NAME")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if asked.profile or asked.callers:
        profile = cProfile.Profile()
        profile.runcall(run, asked.pods, asked.nodes)
        stats = pstats.Stats(profile).strip_dirs().sort_stats("tottime")
        stats.print_stats(60)
        if asked.callers:
            stats.print_callers(asked.callers)
        return
    began, cpu = time.monotonic(), time.process_time()
    load = run(asked.pods, asked.nodes)
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    calls = run(asked.pods, asked.nodes, count=True).calls
    print(f"{asked.pods} pods on {asked.nodes} nodes: {cpu:.1f} s of CPU, {wall:.1f} s wall, start included")
    speed = load.simulated_seconds / wall
    print(f"simulated    {load.simulated_seconds:8.0f} s, {speed:.1f} times as fast as real time")
    print(f"calls        {calls / asked.pods:8.0f} for each pod")


if __name__ == "__main__":
    main()
