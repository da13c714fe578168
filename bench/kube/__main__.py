"""Measures everything in one run on one kube-apiserver, shows progress, prints the table.

First the PV controllers, before there is anything else, in turns and several times, since their times are short and
machines are now quick, now slow: the middle one of each counts. Then for every cluster size and every kind of pod both
schedulers in turn, each alone, both with Mooring's PV controller and the stand-in provisioner; at the size of the bar,
Mooring's once more with the stock PV controller.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.kube.cluster import (
    MADE_CLASS,
    Cluster,
)
from bench.kube.plot import draw
from bench.kube.report import BARS, BOUND, KUBE, LOCAL, LOCAL_STOCK, MADE, MOORING, PAIRS, PLAIN, Outcome, line, table
from bench.kube.runs import Run
from bench.kube.sides import Sides
from mooring.cli.runtime import run_event_loop
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.conformance.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]

SCHEDULERS = {KUBE: "kube-scheduler", MOORING: "mooring scheduler"}
#: kube-scheduler schedules some 0.9 pods a second on 1,000 nodes: about what it does within its time.
KUBE_PODS_TIMES_NODES = 40_000
BINDERS = {KUBE: "kube-controller-manager", MOORING: "mooring controller"}


class Sort(NamedTuple):
    """A kind of pod, and its name in objects."""

    what: str
    short: str


SORTS = (Sort(PLAIN, "plain"), Sort(BOUND, "bound"), Sort(MADE, "made"), Sort(LOCAL, "local"))
STOCK = Sort(LOCAL_STOCK, "stock")
ALL = ("pairs", *(sort.short for sort in SORTS), STOCK.short)


class Amounts(NamedTuple):
    sizes: Sequence[int]
    pairs: int
    #: How often each side binds all pairs.
    rounds: int
    #: With a volume each, and without.
    pods: int
    plain_pods: int
    #: Seconds for one side of one measurement.
    timeout: float
    #: Seconds after which no further size is begun.
    total: float


class Measurement:
    """`wanted` names what is measured, `sides` who is."""

    def __init__(
        self, client: HttpClient, starting: Sides, amounts: Amounts, *, wanted: Sequence[str], sides: Sequence[str]
    ) -> None:
        self._client = client
        self._starting = starting
        self._amounts = amounts
        self._wanted = wanted
        self._sides = sides
        self._cluster = Cluster(client)
        self._began = time.monotonic()
        self.outcomes: list[Outcome] = []

    async def run(self) -> None:
        self._say("the control plane is up")
        await self._cluster.begin()
        if "pairs" in self._wanted:
            await self._pairs()
        for size in self._amounts.sizes:
            if time.monotonic() - self._began > self._amounts.total:
                self._say(f"{size} nodes left out: the time is over")
                continue
            await self._size(size)

    async def _pairs(self) -> None:
        rounds = [[await self._round(side, number) for side in self._sides] for number in range(self._amounts.rounds)]
        for one_side in zip(*rounds, strict=True):
            self.outcomes.append(sorted(one_side, key=lambda outcome: outcome.rate)[len(one_side) // 2])

    async def _round(self, side: str, number: int) -> Outcome:
        with self._starting.binder(side):
            name = f"pairs-{side}-{number}"
            await self._cluster.add_immediate_volumes(name, self._amounts.pairs)
            one = Run(self._client, name=name, process=BINDERS[side], timeout=self._amounts.timeout)
            outcome = await one.bind(PAIRS, side, count=self._amounts.pairs, of_class=name)
            self._say(line(outcome))
            return outcome

    async def _size(self, size: int) -> None:
        self._say(f"{size} nodes")
        await self._cluster.grow(size)
        with self._starting.behind_both():
            for sort in SORTS:
                for side in self._sides if sort.short in self._wanted else ():
                    await self._place(sort, side, size)
        if size == BARS[LOCAL][0] and STOCK.short in self._wanted:
            with self._starting.binder(KUBE):
                await self._place(STOCK, MOORING, size)

    async def _place(self, sort: Sort, side: str, size: int) -> None:
        name = f"{sort.short}-{side}-{size}"
        of_class = {PLAIN: "", BOUND: "", MADE: MADE_CLASS}.get(sort.what, name)
        count = self._amounts.plain_pods if not of_class else self._count(side, size)
        one = Run(self._client, name=name, process=SCHEDULERS[side], timeout=self._amounts.timeout)
        if of_class == name:
            await self._cluster.add_local_volumes(name)
        elif sort.what == BOUND:
            await self._cluster.add_bound_claims(one.names(count))
        claims = sort.what != PLAIN
        with self._starting.scheduler(side) as scheduler:
            self._note(
                await one.place(
                    sort.what, side, nodes=size, scheduler=scheduler, count=count, of_class=of_class, with_claims=claims
                )
            )

    def _count(self, side: str, size: int) -> int:
        """As many as there are volumes for, with some to choose from; of a scheduler whose cost for each pod grows with
        the cluster fewer, so that what it leaves undone is no burden for what comes after."""
        most = min(self._amounts.pods, 3 * size // 2)
        return most if side == MOORING else min(most, KUBE_PODS_TIMES_NODES // size)

    def _note(self, one: Outcome) -> None:
        self.outcomes.append(one)
        self._say(line(one))

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:4.0f} s  {text}", file=sys.stderr, flush=True)


def find_binaries(*names: str) -> Path:
    """The directory of the binaries, which has all of them, or those that are named."""
    check = [sys.executable, str(ROOT / "conformance" / "build.py"), "--check", *names]
    found = subprocess.run(check, capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"{found.stderr.strip()}\nmake conformance builds what is missing.")
    return Path(found.stdout.strip())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few pods, 200 nodes: does everything still work?")
    parser.add_argument("--sizes", default="", metavar="N,N", help="nodes  [default: 200,500,1000,2000]")
    parser.add_argument("--pods", type=int, default=0, help="with a volume each, at most  [default: 400]")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds for one side of one measurement")
    parser.add_argument("--minutes", type=float, default=0.0, help="after which no further size is begun  [default: 9]")
    parser.add_argument("--what", default=",".join(ALL), metavar="LIST", help="what to measure  [default: %(default)s]")
    parser.add_argument("--ours-only", action="store_true", help="leave Kubernetes' own components out")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--figure", type=Path, help="where to draw them")
    parser.add_argument("--profiles", type=Path, help="run our side under cProfile, and where its files go")
    return parser.parse_args()


def amounts_of(given: argparse.Namespace) -> Amounts:
    usual = (
        Amounts((200,), 100, 1, 50, 100, 20.0, 120.0)
        if given.quick
        else Amounts((200, 500, 1000, 2000), 1000, 5, 400, 1500, 30.0, 540.0)
    )
    # Clusters only grow.
    sizes = tuple(sorted(int(size) for size in given.sizes.split(",") if size))
    return usual._replace(
        sizes=sizes or usual.sizes,
        pods=given.pods or usual.pods,
        timeout=given.timeout or usual.timeout,
        total=given.minutes * 60.0 or usual.total,
    )


async def measure(given: argparse.Namespace) -> list[Outcome]:
    if given.profiles is not None:
        given.profiles.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        kube = ControlPlane(find_binaries(), Path(folder))
        kube.start()
        client = HttpClient(kube.access, component="bench", clock=SystemClock())
        measurement = Measurement(
            client,
            Sides(kube, profiles=given.profiles),
            amounts_of(given),
            wanted=given.what.split(","),
            sides=(MOORING,) if given.ours_only else (KUBE, MOORING),
        )
        try:
            await measurement.run()
        finally:
            await client.close()
            kube.stop()
    return measurement.outcomes


def main() -> None:
    given = parse()
    outcomes = run_event_loop(measure(given))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} over the last five minutes\n\n{table(outcomes)}")
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=1) + b"\n")
    if given.figure is not None:
        draw(outcomes, given.figure)


if __name__ == "__main__":
    main()
