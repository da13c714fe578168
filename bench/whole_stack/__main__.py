"""Pods with provisioned volumes on a large cluster with everything on, while leaders are killed.

    make bench-scale [ARGS="--nodes 1000 --volumes 4000 --pods 1000"]

A real kube-apiserver and etcd; Mooring's scheduler, PV controller, coordinator and provisioner, two instances of each
with leader election; the hostpath driver for all nodes; three classes, each with a capacity object per node. Volumes at
rest are created first. Then pods with one and two volumes are created, and each component's leader is killed once, with
SIGKILL, while the pods are scheduled; a new instance takes the place of the killed one.

Prints pods bound per second over time, processor time per pod and memory of each process, the longest time between two
renewals of each lease while its leader lived, and how long each takeover took; failed CreateVolume calls; volumes
that are leaked, lost or in the wrong place. Exit code 1 if a pod is left over or a volume is wrong.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Final

from bench.kube.__main__ import find_binaries
from bench.kube.metering import Usage, spent
from bench.takeover import CLASSES, HOLDS
from bench.whole_stack import objects
from bench.whole_stack.processes import LEASES, Instances, driver, stack
from mooring.api.kinds import CLAIM, LEASE, POD, STORAGE_CAPACITY, Kind
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.cli.runtime import run_event_loop
from mooring.client.contract import V, WatchEventType
from mooring.client.http import HttpClient
from mooring.client.informer import Informer, Scope
from mooring.clock import SystemClock
from mooring.pvcontroller.protection import UNUSED_CONDITION
from support.conformance.control_plane import ControlPlane

#: Share of bound pods at which the leader of each component is killed.
KILLS: Final = {"scheduler": 0.2, "provisioner": 0.35, "controller": 0.5, "coordinator": 0.65}
#: Seconds: a row of the printed course, and between two looks at it.
ROW_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.5
LEADER_TIMEOUT: Final = 120.0


class Leases:
    """Times of renewals and holders, by lease, as a watch shows them."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, float]] = {}
        self.gaps: dict[str, float] = dict.fromkeys(LEASES.values(), 0.0)
        self.takeovers: dict[str, list[float]] = {name: [] for name in LEASES.values()}

    async def watch(self, client: HttpClient) -> None:
        while True:
            async with aclosing(client.watch(LEASE, after=None, namespace=HOLDS)) as events:
                async for event in events:
                    if event.object.name in self.takeovers:
                        self._observe(event.object.name, event.object.spec.holder_identity or "")

    def _observe(self, name: str, holder: str) -> None:
        now = time.monotonic()
        before, last = self._last.get(name, (holder, now))
        if before == holder:
            self.gaps[name] = max(self.gaps[name], now - last)
        else:
            self.takeovers[name].append(now - last)
        self._last[name] = holder, now


class Course:
    """When pods were bound."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.bound: dict[str, float] = {}

    def observe(self, _: Pod | None, after: Pod | None) -> None:
        if after is not None and after.spec.node_name and after.name not in self.bound:
            self.bound[after.name] = time.monotonic() - self.began

    def rows(self) -> Iterator[str]:
        steps = Counter(int(seconds // ROW_SECONDS) for seconds in self.bound.values())
        for step in range(max(steps, default=-1) + 1):
            rate = steps[step] / ROW_SECONDS
            yield f"  {step * ROW_SECONDS:5.0f} s  {rate:6.1f} pods/s  {'#' * round(rate / 2)}"


def say(began: float, text: str) -> None:
    print(f"{time.monotonic() - began:5.0f} s  {text}", file=sys.stderr, flush=True)


async def until(
    client: HttpClient, kind: Kind[V], count: int, timeout: float, *, accept: Callable[[V], bool] = lambda _: True
) -> None:
    """Wait until there are this many objects. A watch, because lists of all of them would be most of the load."""
    found: set[str] = set()
    try:
        async with asyncio.timeout(timeout):
            while True:
                async with aclosing(client.watch(kind, after=None)) as events:
                    async for event in events:
                        if event.change in (WatchEventType.ADDED, WatchEventType.MODIFIED) and accept(event.object):
                            found.add(event.object.uid)
                        if len(found) >= count:
                            return
    except TimeoutError:
        raise SystemExit(f"{len(found)} of {count} {kind.plural} after {timeout:.0f} s") from None


def at_rest(claim: Claim) -> bool:
    """Whether the PV controller and the protection controller have written their last."""
    return claim.status.phase == "Bound" and any(one.type == UNUSED_CONDITION for one in claim.status.conditions)


async def measure(client: HttpClient, instances: Instances, pods: int, timeout: float, began: float) -> Course:
    course = Course()
    scope = Scope(namespace=objects.NAMESPACE, labels="bench=measured")
    informer = Informer(client, POD, clock=SystemClock(), rng=random.Random(1), scope=scope)
    informer.on_change(course.observe)
    watching = asyncio.create_task(informer.run())
    kills = dict(KILLS)
    course.began = time.monotonic()
    creating = asyncio.create_task(objects.create_pods(client, pods))
    while len(course.bound) < pods and time.monotonic() - course.began < timeout:
        await asyncio.sleep(LOOK_SECONDS)
        instances.check()
        for component in [each for each, share in kills.items() if len(course.bound) >= share * pods]:
            if killed := await instances.kill_leader(component):
                del kills[component]
                say(began, f"{len(course.bound)} pods are bound; killed {killed}, which led")
    await creating
    watching.cancel()
    return course


def report(course: Course, pods: int, used: dict[str, Usage], leases: Leases) -> None:
    times = sorted(course.bound.values())
    print(f"{len(times)} of {pods} pods bound", end="")
    if times:
        median = times[len(times) // 2]
        print(f" in {times[-1]:.0f} s: {len(times) / times[-1]:.1f} pods/s", end="")
        print(f"; the first after {times[0]:.1f} s, the median after {median:.0f} s")
    print("\n".join(course.rows()))
    print(f"{'process':28} {'CPU per pod':>12} {'peak memory':>12}")
    for name, one in sorted(used.items()):
        print(f"{name:28} {one.cpu_seconds / max(len(times), 1) * 1e3:9.2f} ms {one.peak_bytes / 1e6:9.0f} MB")
    for component, lease in LEASES.items():
        taken = ", ".join(f"{seconds:.1f} s" for seconds in leases.takeovers[lease]) or "none"
        print(f"{component:12} longest gap between renewals {leases.gaps[lease]:.1f} s; takeovers after {taken}")


@contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    kube = ControlPlane(find_binaries(), folder)
    kube.start()
    try:
        yield kube
    finally:
        kube.stop()


async def run(given: argparse.Namespace, folder: Path) -> int:
    began = time.monotonic()
    with (
        control_plane(folder) as kube,
        driver(folder, given.nodes) as socket,
        stack(kube.kubeconfig, socket) as instances,
    ):
        client = HttpClient(kube.access, component="bench", clock=SystemClock())
        leases = Leases()
        watching = asyncio.create_task(leases.watch(client))
        try:
            await objects.create_nodes(client, given.nodes)
            say(began, f"{given.nodes} nodes")
            await objects.create_volumes_at_rest(client, socket, given.volumes, given.nodes)
            say(began, f"{given.volumes} volumes at rest")
            for component in (*LEASES, *LEASES):
                instances.start(component)
            await instances.wait_leaders(LEADER_TIMEOUT)
            say(began, "every component has a leader")
            await until(client, STORAGE_CAPACITY, len(CLASSES) * given.nodes, given.timeout)
            say(began, f"{len(CLASSES) * given.nodes} capacity objects")
            await until(client, CLAIM, given.volumes, given.timeout, accept=at_rest)
            say(began, "all claims at rest are bound")
            before = instances.measure()
            course = await measure(client, instances, given.pods, given.timeout, began)
            used = spent(before, instances.measure())
            calls = await asyncio.to_thread(instances.calls)
            wrong = [line async for line in objects.mismatches(client, socket)]
        finally:
            watching.cancel()
            await client.close()
        print(f"{given.nodes} nodes, {given.volumes} volumes at rest, {os.cpu_count()} cores")
        report(course, given.pods, used, leases)
        created = {code: count for (method, code), count in calls.items() if method == "CreateVolume"}
        print(f"CreateVolume by result: {', '.join(f'{code} {n:.0f}' for code, n in sorted(created.items()))}")
        print(f"volumes leaked, lost or in the wrong place: {len(wrong)}", *wrong[:20], sep="\n  ")
        print(f"processes that ended by themselves: {len(instances.failures)}", *instances.failures, sep="\n  ")
        return int(bool(wrong or instances.failures) or len(course.bound) < given.pods)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.whole_stack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--volumes", type=int, default=20_000, help="at rest  [default: %(default)s]")
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument(
        "--timeout", type=float, default=1200.0, help="of each phase, in seconds  [default: %(default)s]"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mooring-scale-") as folder:
        sys.exit(run_event_loop(run(given, Path(folder))))


if __name__ == "__main__":
    main()
