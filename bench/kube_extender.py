"""Effect of the extender on kube-scheduler's rate: alone, in filter mode, in bind mode, on one real kube-apiserver.

    python -m bench.kube_extender [--nodes N] [--pods N]

Two local volumes on every node, pods with one WaitForFirstConsumer claim each, Mooring's PV controller in all cases.
Prints pods per second from the first pod created to the last one on its node, the ratio to kube-scheduler alone, and
what a pod costs. Needs the binaries of `make conformance`.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.kube.__main__ import find_binaries
from bench.kube.cluster import Cluster
from bench.kube.report import (
    KUBE,
    LOCAL,
    Outcome,
)
from bench.kube.runs import Run
from bench.kube.sides import Sides
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster import identities
from support.conformance.control_plane import ControlPlane
from support.conformance.extended_scheduler import extended_scheduler

ROOT = Path(__file__).parents[1]

ALONE, FILTER, BIND = "alone", "filter", "bind"
#: Timeout of one of them in seconds; pods that are not scheduled by then are not counted.
TIMEOUT_SECONDS = 120.0


class Sorts:
    """kube-scheduler, three times."""

    def __init__(self, kube: ControlPlane, folder: Path) -> None:
        self._kube = kube
        self._folder = folder
        self._sides = Sides(kube)

    @contextmanager
    def at_work(self, sort: str) -> Iterator[None]:
        if sort == ALONE:
            with self._sides.scheduler(KUBE):
                yield
        else:
            with extended_scheduler(self._kube, self._folder, sort):
                yield

    @contextmanager
    def behind_all(self) -> Iterator[None]:
        with self._sides.behind_both():
            yield


async def measure(nodes: int, pods: int) -> dict[str, Outcome]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kube = ControlPlane(find_binaries(), folder)
        kube.start()
        client = HttpClient(kube.access, component="bench", clock=SystemClock())
        try:
            rights = (row.body() for row in (*identities.roles(), *identities.bindings()))
            listed = {"apiVersion": "v1", "kind": "List", "items": [*identities.accounts(), *rights]}
            await asyncio.to_thread(kube.kubectl, "apply", "-f", "-", stdin=json.dumps(listed))
            return await _in_turn(client, Sorts(kube, folder), nodes, pods)
        finally:
            await client.close()
            kube.stop()


async def _in_turn(client: HttpClient, sorts: Sorts, nodes: int, pods: int) -> dict[str, Outcome]:
    cluster = Cluster(client)
    await cluster.begin()
    await cluster.grow(nodes)
    outcomes: dict[str, Outcome] = {}
    with sorts.behind_all():
        for sort in (BIND, FILTER, ALONE):
            await cluster.add_local_volumes(sort)
            run = Run(client, name=sort, process="kube-scheduler", timeout=TIMEOUT_SECONDS)
            with sorts.at_work(sort):
                outcomes[sort] = await run.place(
                    LOCAL, sort, nodes=nodes, scheduler="default-scheduler", count=pods, of_class=sort
                )
            print(f"{sort}: {outcomes[sort].done} of {pods} placed", file=sys.stderr, flush=True)
    return outcomes


def main() -> None:
    arguments = argparse.ArgumentParser(description="kube-scheduler's pace with and without the extender.")
    arguments.add_argument("--nodes", type=int, default=500)
    arguments.add_argument("--pods", type=int, default=100)
    given = arguments.parse_args()
    outcomes = asyncio.run(measure(given.nodes, given.pods))
    alone = outcomes[ALONE].rate
    print(f"{given.nodes} nodes x 2 local volumes, {given.pods} pods with one late-bound claim each")
    for sort, what in ((ALONE, "kube-scheduler alone"), (FILTER, "with --mode=filter"), (BIND, "with --mode=bind")):
        one = outcomes[sort]
        cpu = {name: seconds / max(one.done, 1) * 1e3 for name, seconds in one.cpu_by_process.items()}
        ours = cpu.get("mooring extender", 0.0)
        costs = f"kube-scheduler {cpu['kube-scheduler']:6.1f} ms, extender {ours:5.1f} ms of processor time each"
        print(f"{what:22}{one.rate:8.2f} pods/s  {one.rate / alone:6.1f} x   {costs}")


if __name__ == "__main__":
    main()
