"""Gangs with volumes: Mooring beside kube-scheduler with the gate GenericWorkload, in turns on one real kube-apiserver.

    python -m bench.gangs [--quick] [--sizes 10,100,1000] [--what first,local,made] [--timeout SECONDS] [--minutes N]

`local` and `made`: gangs whose members have one claim each, for late-bound local volumes (two on every node) and for
provisioned volumes with capacity. Counts as placed only gangs with all members bound; partial gangs have a column of
their own. Mooring's PV controller and the stand-in provisioner serve both sides. With local volumes, Mooring runs once
more with the gate GangVolumes and the coordinator.

`first`: gangs of three, each on three nodes of its own of which each has capacity for one member, and one of them more
than the others. Counts gangs placed whole without a failed attempt to provision.

At most ten minutes, with --quick one. Needs the binaries of `make conformance`.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.kube.__main__ import SCHEDULERS, find_binaries
from bench.kube.cluster import MADE_CLASS, NAMESPACE, Cluster, create_all
from bench.kube.gangs import (
    HELD,
    FirstAttempts,
    GangOutcome,
    GangRun,
    first_attempt_table,
    gang_line,
    gang_table,
    whole_and_partial,
)
from bench.kube.report import KUBE, LOCAL, MADE, MOORING
from bench.kube.sides import Sides
from mooring.api.kinds import CLAIM, LEASE, POD, POD_GROUP, STORAGE_CAPACITY
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import Lease
from mooring.cli.runtime import run_event_loop
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.holds import group_objects
from support.builders import claim_body
from support.builders.groups import member_body, pod_group_body
from support.conformance.control_plane import ControlPlane
from support.conformance.gang_cluster import POOLED, RACK, GangCluster

GROUPS = "--feature-gates=GenericWorkload=true"
HOLDS = "--feature-gates=GangVolumes=true"
#: Of the three nodes of a gang of `first`: one member fits each.
POOLS = ("150Gi", "110Gi", "110Gi")
CLAIM_SIZE = "100Gi"
#: Between two looks at `first`, and between two publications of capacity.
POLL_SECONDS = 0.5
ANNOUNCED_SECONDS = 60.0


class Amounts(NamedTuple):
    nodes: int
    sizes: Sequence[int]
    #: Members of all gangs of one size; at least one gang.
    members: int
    #: Gangs of `first`.
    cells: int
    #: Seconds for one side of one measurement.
    timeout: float
    #: Seconds after which no further one is begun.
    total: float


class Progress:
    def __init__(self, total: float) -> None:
        self._began = time.monotonic()
        self._total = total

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:4.0f} s  {text}", file=sys.stderr, flush=True)

    def is_over(self, what: str) -> bool:
        over = time.monotonic() - self._began > self._total
        if over:
            self.say(f"{what} left out: the time is over")
        return over


class Gangs:
    """The measurements `local` and `made`."""

    def __init__(self, client: HttpClient, starting: Sides, amounts: Amounts, progress: Progress) -> None:
        self._client = client
        self._starting = starting
        self._amounts = amounts
        self._progress = progress
        self._cluster = Cluster(client)
        self.outcomes: list[GangOutcome] = []

    async def run(self, wanted: Sequence[str], sides: Sequence[str]) -> None:
        if not {"local", "made"} & set(wanted):
            return
        await self._cluster.begin()
        await self._cluster.grow(self._amounts.nodes)
        with self._starting.behind_both():
            for size in self._amounts.sizes:
                for side in sides if "local" in wanted else ():
                    await self._place("local", side, size)
                for side in sides if "made" in wanted else ():
                    if side != HELD:
                        await self._place("made", side, size)

    async def _place(self, short: str, side: str, size: int) -> None:
        name = f"{short}-{side.replace(', ', '-')}-{size}"
        if self._progress.is_over(name):
            return
        if short == "local":
            await self._cluster.add_local_volumes(name)
        process = SCHEDULERS[KUBE if side == KUBE else MOORING]
        run = GangRun(self._client, name=name, process=process, timeout=self._amounts.timeout)
        with self._scheduler(side) as scheduler:
            if side == HELD:
                await self._announced()
            outcome = await run.place_gangs(
                LOCAL if short == "local" else MADE,
                side,
                nodes=self._amounts.nodes,
                scheduler=scheduler,
                gangs=max(1, self._amounts.members // size),
                size=size,
                of_class=name if short == "local" else MADE_CLASS,
            )
        self.outcomes.append(outcome)
        self._progress.say(gang_line(outcome))

    @contextmanager
    def _scheduler(self, side: str) -> Iterator[str]:
        with ExitStack() as stack:
            if side == HELD:
                stack.enter_context(self._starting.coordinator(HOLDS))
            options = {KUBE: (GROUPS,), HELD: (HOLDS,)}.get(side, ())
            yield stack.enter_context(self._starting.scheduler(side, *options))

    async def _announced(self) -> None:
        """Wait until the coordinator has told the scheduler that it decides about groups."""
        async with asyncio.timeout(ANNOUNCED_SECONDS):
            while not any(map(_announces, (await self._client.list(LEASE, namespace=HOLD_NAMESPACE)).items)):
                await SystemClock().sleep(POLL_SECONDS)


def _announces(lease: Lease) -> bool:
    return lease.metadata.annotations.get(group_objects.ANNOUNCEMENT, "") == lease.spec.holder_identity != ""


class Cells(GangCluster):
    """The measurement `first`: every gang has three nodes of its own, and the provisioner pools of limited size."""

    async def set_up(self, gangs: int) -> None:
        racks = {f"cell-{cell}-{number}": f"cell-{cell}" for cell in range(gangs) for number in range(len(POOLS))}
        await self.add_nodes(racks)
        await self.add_pools({name: POOLS[int(name[-1])] for name in racks})

    async def add_gangs(self, gangs: int, scheduler: str) -> None:
        groups = [pod_group_body(name=f"cell-{cell}", min_count=len(POOLS)) for cell in range(gangs)]
        await create_all(self.client, POD_GROUP, groups, NAMESPACE)
        members = {f"cell-{cell}-{number}": f"cell-{cell}" for cell in range(gangs) for number in range(len(POOLS))}
        claims = [claim_body(name=name, storage_class=POOLED, size=CLAIM_SIZE) for name in members]
        await create_all(self.client, CLAIM, claims, NAMESPACE)
        pods = [
            member_body(
                group=cell,
                name=name,
                scheduler=scheduler,
                claims=[name],
                requests={"cpu": "1"},
                node_selector={RACK: cell},
            )
            for name, cell in members.items()
        ]
        await create_all(self.client, POD, pods, NAMESPACE)

    async def publish_changes(self) -> None:
        """Publish capacity that has changed, until cancelled."""
        published = dict(self.pools)
        while True:
            for node, free in self.pools.items():
                if published.get(node) != free:
                    published[node] = free
                    figures = MergePatch({"capacity": str(free), "maximumVolumeSize": str(free)})
                    await self.client.patch(STORAGE_CAPACITY, node, figures, namespace=NAMESPACE)
            await asyncio.sleep(POLL_SECONDS)

    async def all_bound(self, gangs: int) -> None:
        while len(await self.bound()) < gangs * len(POOLS):
            await SystemClock().sleep(POLL_SECONDS)

    async def counted(self, side: str, gangs: int) -> FirstAttempts:
        bound = Counter(name.rpartition("-")[0] for name in await self.bound())
        whole, partial = whole_and_partial(bound.values(), len(POOLS))
        repeated = {name.rpartition("-")[0] for name, nodes in self.selected.items() if len(nodes) > 1}
        at_once = sum(count == len(POOLS) and cell not in repeated for cell, count in bound.items())
        return FirstAttempts(side, gangs, at_once, whole - at_once, partial)


async def first_attempts(side: str, amounts: Amounts) -> FirstAttempts:
    async with control_plane() as (kube, client):
        cells, sides = Cells(kube, client), Sides(kube)
        await cells.set_up(amounts.cells)
        options = (GROUPS,) if side == KUBE else ()
        with sides.binder(MOORING), sides.scheduler(side, *options) as scheduler:
            working = [asyncio.create_task(work) for work in (cells.provision(), cells.publish_changes())]
            try:
                await cells.add_gangs(amounts.cells, scheduler)
                with suppress(TimeoutError):
                    async with asyncio.timeout(amounts.timeout):
                        await cells.all_bound(amounts.cells)
                return await cells.counted(side, amounts.cells)
            finally:
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)


@asynccontextmanager
async def control_plane() -> AsyncIterator[tuple[ControlPlane, HttpClient]]:
    with tempfile.TemporaryDirectory() as folder:
        kube = ControlPlane(find_binaries("etcd", "kube-apiserver", "kube-scheduler"), Path(folder))
        try:
            kube.start()
            client = HttpClient(kube.access, component="bench", clock=SystemClock())
            try:
                yield kube, client
            finally:
                await client.close()
        finally:
            kube.stop()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gangs", description="Gangs beside kube-scheduler.")
    parser.add_argument("--quick", action="store_true", help="few gangs on 50 nodes: does everything still work?")
    parser.add_argument("--nodes", type=int, default=0, help="[default: 1000]")
    parser.add_argument("--sizes", default="", metavar="N,N", help="members of a gang  [default: 10,100,1000]")
    parser.add_argument("--members", type=int, default=0, help="of all gangs of one size  [default: 500]")
    parser.add_argument("--cells", type=int, default=0, help="gangs of the measurement first  [default: 100]")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds for one side  [default: 30]")
    parser.add_argument("--minutes", type=float, default=0.0, help="after which no further one begins  [default: 9]")
    parser.add_argument("--what", default="first,local,made", metavar="LIST", help="[default: %(default)s]")
    parser.add_argument("--ours-only", action="store_true", help="leave kube-scheduler out")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    return parser.parse_args()


def amounts_of(given: argparse.Namespace) -> Amounts:
    usual = (
        Amounts(50, (5, 25), 25, 3, 8.0, 45.0) if given.quick else Amounts(1000, (10, 100, 1000), 500, 100, 30.0, 540.0)
    )
    return usual._replace(
        nodes=given.nodes or usual.nodes,
        sizes=tuple(int(size) for size in given.sizes.split(",") if size) or usual.sizes,
        members=given.members or usual.members,
        cells=given.cells or usual.cells,
        timeout=given.timeout or usual.timeout,
        total=given.minutes * 60.0 or usual.total,
    )


async def measure(given: argparse.Namespace) -> tuple[list[FirstAttempts], list[GangOutcome]]:
    amounts = amounts_of(given)
    progress = Progress(amounts.total)
    wanted = given.what.split(",")
    found: list[FirstAttempts] = []
    outcomes: list[GangOutcome] = []
    sides = (MOORING, HELD) if given.ours_only else (KUBE, MOORING, HELD)
    for side in sides if "first" in wanted else ():
        if side != HELD and not progress.is_over(f"first-{side}"):
            found.append(await first_attempts(side, amounts))
            progress.say(str(found[-1]))
    async with control_plane() as (kube, client):
        gangs = Gangs(client, Sides(kube), amounts, progress)
        try:
            await gangs.run(wanted, sides)
        finally:
            outcomes += gangs.outcomes
    return found, outcomes


def main() -> None:
    given = parse()
    found, outcomes = run_event_loop(measure(given))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} over the last five minutes\n")
    print(f"{gang_table(outcomes)}\n\n{first_attempt_table(found)}")
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode((found, outcomes)), indent=1) + b"\n")


if __name__ == "__main__":
    main()
