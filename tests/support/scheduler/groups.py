"""A cluster of six nodes for groups of pods, and the result of a decision by names."""

import random
from collections.abc import Mapping, Sequence

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageCapacity, Volume
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput, run_to_end
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.group import GroupPlan, GroupRefusal
from support.builders.claims import a_claim
from support.builders.classes import a_class
from support.builders.drivers import a_capacity, a_csi_node, a_driver
from support.builders.nodes import a_node
from support.builders.objects import Body
from support.builders.pods import a_pod
from support.builders.volumes import a_volume, reachable_from
from support.scheduler.snapshots import a_snapshot

RACK = "example.com/rack"
NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
ZONES = dict(zip(NODES, "aabbcc", strict=True))
RACKS = dict(zip(NODES, ("r1", "r1", "r1", "r2", "r2", "r2"), strict=True))

#: Provisions per node, and per zone.
NODE_DRIVER = "h.example"
NET_DRIVER = "d.example"

Gi = 1024**3


def cluster_objects(
    *,
    limits: Mapping[str, Mapping[str, int]] | None = None,
    cpu: str | Mapping[str, str] = "8",
    names: Sequence[str] = NODES,
) -> list[ApiObject]:
    """Six nodes in three zones and two racks, the classes `local`, `node`, `net` and `imm`, and their drivers."""
    found: list[ApiObject] = []
    for name in names:
        amount = cpu if isinstance(cpu, str) else cpu.get(name, "8")
        labels = {RACK: RACKS[name]}
        found.append(a_node(name=name, zone=ZONES[name], labels=labels, allocatable={"cpu": amount, "memory": "64Gi"}))
        own = dict((limits or {}).get(name, {}))
        found.append(csi_node(name, own))
    found += [
        a_class(name="local"),
        a_class(name="node", provisioner=NODE_DRIVER),
        a_class(name="net", provisioner=NET_DRIVER),
        a_class(name="imm", provisioner=NET_DRIVER, binding_mode="Immediate"),
        a_driver(name=NODE_DRIVER, tracks_capacity=True),
        a_driver(name=NET_DRIVER, tracks_capacity=True),
    ]
    return found


def csi_node(name: str, limits: Mapping[str, int]) -> ApiObject:
    """Both drivers, one with a topology per node and one per zone."""
    return a_csi_node(
        name=name,
        limits={NODE_DRIVER: limits.get(NODE_DRIVER), NET_DRIVER: limits.get(NET_DRIVER)},
        topology_keys={NODE_DRIVER: [well_known.HOSTNAME], NET_DRIVER: [well_known.ZONE]},
    )


def local_volume(name: str, node: str, size: str = "10Gi", **more: object) -> Volume:
    return a_volume(name=name, node=node, size=size, **more)


def zonal_volume(name: str, zone: str, size: str = "10Gi", **more: object) -> Volume:
    return a_volume(name=name, affinity=reachable_from(well_known.ZONE, zone), size=size, **more)


def node_capacity(node: str, amount: str, *, storage_class: str = "node") -> StorageCapacity:
    """A figure that adds up, as it names what one volume may have too."""
    topology: Body = {"matchLabels": {well_known.HOSTNAME: node}}
    return a_capacity(
        name=f"{storage_class}-{node}", storage_class=storage_class, topology=topology, capacity=amount, largest=amount
    )


def zone_capacity(zone: str, amount: str, *, storage_class: str = "net") -> StorageCapacity:
    topology: Body = {"matchLabels": {well_known.ZONE: zone}}
    return a_capacity(
        name=f"{storage_class}-{zone}", storage_class=storage_class, topology=topology, capacity=amount, largest=amount
    )


def a_gang(
    number: int,
    *,
    claims: Sequence[tuple[str, str]] = (),
    shared: Sequence[str] = (),
    cpu: str = "1",
    prefix: str = "g",
    **more: object,
) -> tuple[list[Pod], list[Claim]]:
    """Pods `g-0`, `g-1`, … with a claim of each (class, size), named `c-<member>-<number>`, and shared claims."""
    pods: list[Pod] = []
    made: list[Claim] = []
    for member in range(number):
        own = [f"c-{prefix}-{member}-{index}" for index in range(len(claims))]
        for name, (storage_class, size) in zip(own, claims, strict=True):
            made.append(a_claim(name=name, storage_class=storage_class, size=size, uid=f"uid-{name}"))
        pods.append(
            a_pod(
                name=f"{prefix}-{member}",
                uid=f"uid-{prefix}-{member}",
                claims=[*own, *shared],
                requests={"cpu": cpu},
                labels={"app": prefix},
                **more,
            )
        )
    return pods, made


class GroupCluster:
    """A snapshot, and decisions about groups on it."""

    def __init__(self, *objects: ApiObject) -> None:
        self.snapshot: Snapshot = a_snapshot(*objects)

    def cycle(
        self,
        pods: Sequence[Pod],
        min_count: int,
        *,
        placed: Sequence[str] = (),
        topology_key: str = "",
        profile: Profile = DEFAULT,
        seed: int = 0,
    ) -> GroupCycle:
        given = GroupInput(pods, min_count, placed, topology_key)
        return GroupCycle(self.snapshot, profile, random.Random(seed), given)

    def decide(self, pods: Sequence[Pod], min_count: int, **more: object) -> GroupPlan | GroupRefusal:
        return run_to_end(self.cycle(pods, min_count, **more))


def nodes_of(result: GroupPlan | GroupRefusal) -> dict[str, str]:
    """Node names by pod name."""
    assert isinstance(result, GroupPlan), result
    return {member.pod.name: member.node for member in result.members.values()}


def volumes_of(result: GroupPlan | GroupRefusal) -> dict[str, str]:
    """Volume names by claim name; "" for claims to be provisioned."""
    assert isinstance(result, GroupPlan), result
    plans = [*(member.plan for member in result.members.values()), *(shared.plan for shared in result.shared)]
    static = {binding.claim.name: binding.volume.name for plan in plans for binding in plan.static}
    return static | {one.claim.name: "" for plan in plans for one in plan.provision}


def refused(result: GroupPlan | GroupRefusal) -> GroupRefusal:
    assert isinstance(result, GroupRefusal), result
    return result
