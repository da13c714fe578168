"""What the extender does to kube-scheduler's pace: alone, asking us, and having us bind, on one real kube-apiserver.

    python -m bench.kube_extender [--nodes N] [--pods N]

Two late-bound local volumes on every node, pods with one claim each, our PV controller behind all. Prints pods per
second from the first pod created to the last one on its node, the ratio to kube-scheduler alone, and what a pod costs.
Needs the binaries of `make conformance`.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from bench.kube.__main__ import find_binaries  # noqa: E402
from bench.kube.cluster import Cluster  # noqa: E402
from bench.kube.report import KUBE, LOCAL, Outcome  # noqa: E402
from bench.kube.runs import Run  # noqa: E402
from bench.kube.sides import Sides  # noqa: E402

from conformance.control_plane import ControlPlane  # noqa: E402
from conformance.extended_scheduler import extended_scheduler  # noqa: E402
from mooring.client.http import HttpClient  # noqa: E402
from mooring.clock import SystemClock  # noqa: E402
from mooring.cluster import identities  # noqa: E402

ALONE, FILTER, BIND = "alone", "filter", "bind"
#: Seconds for one of them; what is not placed by then is not waited for.
PATIENCE = 120.0


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
            listed = {"apiVersion": "v1", "kind": "List", "items": identities.manifests()}
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
            run = Run(client, name=sort, process="kube-scheduler", patience=PATIENCE)
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
        cpu = {name: seconds / max(one.done, 1) * 1e3 for name, seconds in one.everybody.items()}
        ours = cpu.get("mooring extender", 0.0)
        costs = f"kube-scheduler {cpu['kube-scheduler']:6.1f} ms, extender {ours:5.1f} ms of processor time each"
        print(f"{what:22}{one.rate:8.2f} pods/s  {one.rate / alone:6.1f} x   {costs}")


if __name__ == "__main__":
    main()
