"""Cost of deciding a group of pods with all its volumes, and of refusing one.

    python -m bench.group_decision [--nodes N] [--members N] [--repeat N]

A group of 1,000 members with two late claims each on 5,000 nodes: members of one kind with local volumes; ten kinds,
100 kinds and as many kinds as members with local volumes, zonal volumes and capacity mixed; groups that lack one
volume, of one kind and of as many kinds as members; a group without claims. Prints
processor time of the whole decision, of its longest slice, looks, and memory on top. The bars are 2 s for a decision,
50 ms for a slice and 100 ms for a refusal.
"""

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.cli.runtime import GC_THRESHOLD
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.group import GroupPlan
from support.builders.claims import a_claim
from support.builders.classes import a_class
from support.builders.drivers import a_capacity, a_driver
from support.builders.nodes import a_node
from support.builders.pods import a_pod
from support.builders.volumes import a_volume, reachable_from
from support.scheduler.snapshots import a_snapshot

#: Nodes of a zone.
ZONE_SIZE = 500
DRIVER = "bench.example.com"


class Group(NamedTuple):
    """A snapshot and the members of a group on it."""

    snapshot: Snapshot
    members: Sequence[Pod]


class Figures(NamedTuple):
    seconds: float
    longest_slice: float
    looks: int
    planned: int


def nodes_and_classes(nodes: int) -> list[ApiObject]:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    found: list[ApiObject] = [
        a_node(name=f"node-{number:05}", zone=f"zone-{number // ZONE_SIZE}", allocatable=allocatable)
        for number in range(nodes)
    ]
    found += [a_class(name="local"), a_class(name="net", provisioner=DRIVER), a_class(name="zonal")]
    found.append(a_driver(name=DRIVER, tracks_capacity=True))
    return found


def members_of(number: int, claims: Callable[[int], Sequence[tuple[str, str]]]) -> tuple[list[Pod], list[ApiObject]]:
    pods: list[Pod] = []
    made: list[ApiObject] = []
    for member in range(number):
        wanted = claims(member)
        names = [f"c-{member}-{index}" for index in range(len(wanted))]
        made += [
            a_claim(name=name, storage_class=storage_class, size=size, uid=f"uid-{name}")
            for name, (storage_class, size) in zip(names, wanted, strict=True)
        ]
        cpu = str(1 + member % 10 % 3) if wanted and wanted[0][0] != "local" else "2"
        pods.append(a_pod(name=f"g-{member:04}", uid=f"uid-g-{member}", claims=names, requests={"cpu": cpu}))
    return pods, made


def local_volumes(nodes: Sequence[int], size: str = "10Gi") -> list[ApiObject]:
    """Two on each node."""
    return [
        a_volume(name=f"pv-{number:05}-{copy}", node=f"node-{number:05}", size=size)
        for number in nodes
        for copy in range(2)
    ]


def one_kind(nodes: int, members: int) -> Group:
    pods, claims = members_of(members, lambda _: (("local", "5Gi"), ("local", "8Gi")))
    return Group(a_snapshot(*nodes_and_classes(nodes), *local_volumes(range(nodes)), *claims), pods)


def one_volume_short(nodes: int, members: int) -> Group:
    pods, claims = members_of(members, lambda _: (("local", "5Gi"), ("local", "8Gi")))
    volumes = local_volumes(range(members))[:-1]
    return Group(a_snapshot(*nodes_and_classes(nodes), *volumes, *claims), pods)


def ten_kinds(nodes: int, members: int) -> Group:
    """Members differ in their claims: local and zonal volumes, and capacity by zone."""

    def wanted(member: int) -> Sequence[tuple[str, str]]:
        kind = member % 10
        first = ("local", f"{4 + kind % 5}Gi") if kind < 6 else ("zonal", "5Gi")
        return (first, ("net", f"{1 + kind}Gi"))

    return mixed(nodes, members, wanted)


def hundred_kinds(nodes: int, members: int) -> Group:
    return mixed(nodes, members, lambda member: claims_of_kind(member % 100))


def own_kinds(nodes: int, members: int) -> Group:
    """No two members request the same."""
    return mixed(nodes, members, claims_of_kind)


def own_kinds_one_volume_short(nodes: int, members: int) -> Group:
    pods, claims = members_of(members, lambda member: (("local", f"{1000 + member}Mi"), ("local", f"{900 + member}Mi")))
    volumes = local_volumes(range(members))[:-1]
    return Group(a_snapshot(*nodes_and_classes(nodes), *volumes, *claims), pods)


def claims_of_kind(kind: int) -> Sequence[tuple[str, str]]:
    first = ("local", f"{4096 + kind % 5000}Mi") if kind % 10 < 6 else ("zonal", f"{3000 + kind % 2000}Mi")
    return (first, ("net", f"{1024 + kind}Mi"))


def mixed(nodes: int, members: int, wanted: Callable[[int], Sequence[tuple[str, str]]]) -> Group:
    pods, claims = members_of(members, wanted)
    objects = [*nodes_and_classes(nodes), *local_volumes(range(0, nodes, 2)), *claims]
    for zone in range(-(-nodes // ZONE_SIZE)):
        name = f"zone-{zone}"
        objects += [
            a_volume(
                name=f"zonal-{zone}-{number:04}",
                storage_class="zonal",
                affinity=reachable_from(well_known.ZONE, name),
            )
            for number in range(members // 10)
        ]
        topology = {"matchLabels": {well_known.ZONE: name}}
        objects.append(
            a_capacity(name=f"net-{zone}", storage_class="net", topology=topology, capacity="1500Gi", largest="500Gi")
        )
    return Group(a_snapshot(*objects), pods)


def without_claims(nodes: int, members: int) -> Group:
    pods, _ = members_of(members, lambda _: ())
    return Group(a_snapshot(*nodes_and_classes(nodes)), pods)


GROUPS = {
    "one kind, two local volumes each": one_kind,
    "ten kinds, local and zonal volumes and capacity": ten_kinds,
    "100 kinds, the same": hundred_kinds,
    "each member of its own kind, the same": own_kinds,
    "refused, one volume short": one_volume_short,
    "refused, one volume short, each member of its own kind": own_kinds_one_volume_short,
    "without claims": without_claims,
}


def decide(group: Group) -> Figures:
    start = time.process_time()
    given = GroupInput(group.members, len(group.members))
    cycle = GroupCycle(group.snapshot, DEFAULT, random.Random(0), given)
    first = time.process_time() - start
    slices = [first]
    decided = False
    while not decided:
        before = time.process_time()
        decided = cycle.step()
        slices.append(time.process_time() - before)
    result = cycle.result
    planned = len(result.members) if isinstance(result, GroupPlan) else 0
    cycle.undo()
    return Figures(sum(slices), max(slices), cycle.looks, planned)


def memory_on_top(group: Group) -> int:
    gc.collect()
    tracemalloc.start()
    decide(group)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main() -> None:
    arguments = argparse.ArgumentParser(description="Cost of deciding a group of pods, in processor time.")
    arguments.add_argument("--nodes", type=int, default=5000)
    arguments.add_argument("--members", type=int, default=1000)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--memory", action="store_true", help="measure memory too, which takes longer")
    given = arguments.parse_args()
    # As the processes of the control plane run.
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    for name, build in GROUPS.items():
        group = build(given.nodes, given.members)
        figures = [decide(group) for _ in range(given.repeat)]
        # The least: what neighbours on the machine add to processor time is no cost of the decision.
        seconds = min(one.seconds for one in figures)
        longest = min(one.longest_slice for one in figures)
        memory = f"  {memory_on_top(group) / 2**20:6.1f} MiB" if given.memory else ""
        last = figures[-1]
        print(
            f"{seconds * 1000:8.0f} ms  longest slice {longest * 1000:6.1f} ms  {last.looks:6} looks  "
            f"{last.planned:5} of {len(group.members)} members{memory}  {name}",
            flush=True,
        )
        del group
        gc.collect()


if __name__ == "__main__":
    main()
