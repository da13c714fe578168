"""Small random groups, an independent search for a plan by trying everything, and a check of plans against objects.

Nothing here asks the volume library: nodes, volumes and pools are plain tuples, and claims try every source.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.volumes.group import GroupPlan
from support.builders.claims import a_claim
from support.builders.classes import a_class
from support.builders.drivers import a_capacity, a_csi_node, a_driver
from support.builders.nodes import a_node
from support.builders.objects import Body
from support.builders.pods import a_pod
from support.builders.volumes import a_volume, reachable_from

DRIVER = "pool.example"
#: Classes: of existing volumes only, and of a provisioner with pools.
STATIC, MADE = "static", "made"


@dataclass(frozen=True)
class SmallVolume:
    name: str
    storage_class: str
    size: int
    reach: frozenset[str]


@dataclass(frozen=True)
class SmallPool:
    nodes: frozenset[str]
    capacity: int


@dataclass(frozen=True)
class SmallMember:
    name: str
    cpu: int
    #: Class and size.
    claims: tuple[tuple[str, int], ...]


@dataclass
class SmallGroup:
    """Nodes by zone and CPU, and a group; `shared` is the size of a claim that all members use, or None."""

    zones: dict[str, str]
    cpu: dict[str, int]
    volumes: list[SmallVolume]
    pools: list[SmallPool]
    members: list[SmallMember]
    quorum: int
    by_zone: bool = False
    shared: tuple[str, int] | None = None
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def promised(self) -> bool:
        """Whether a plan must be found if there is one: members of one kind whose volumes and pools form a tree."""
        kinds = {(member.cpu, member.claims) for member in self.members}
        sets = [*(volume.reach for volume in self.volumes), *(pool.nodes for pool in self.pools)]
        tree = all(one <= other or other <= one or not one & other for one in sets for other in sets)
        return len(kinds) == 1 and tree and self.shared is None and not self.limits

    def objects(self) -> list[ApiObject]:
        found: list[ApiObject] = [
            a_class(name=STATIC),
            a_class(name=MADE, provisioner=DRIVER),
            a_driver(name=DRIVER, tracks_capacity=True),
        ]
        for name, zone in self.zones.items():
            found.append(a_node(name=name, zone=zone, allocatable={"cpu": str(self.cpu[name]), "memory": "64Gi"}))
            keys = {DRIVER: [well_known.ZONE]}
            found.append(a_csi_node(name=name, limits={DRIVER: self.limits.get(name)}, topology_keys=keys))
        for volume in self.volumes:
            affinity = reachable_from(well_known.HOSTNAME, *sorted(volume.reach))
            found.append(
                a_volume(
                    name=volume.name,
                    storage_class=volume.storage_class,
                    size=f"{volume.size}Gi",
                    affinity=affinity,
                    access_modes=("ReadWriteOnce", "ReadWriteMany"),
                )
            )
        for number, pool in enumerate(self.pools):
            topology: Body = {
                "matchExpressions": [{"key": well_known.HOSTNAME, "operator": "In", "values": sorted(pool.nodes)}]
            }
            amount = f"{pool.capacity}Gi"
            found.append(
                a_capacity(
                    name=f"pool-{number}", storage_class=MADE, topology=topology, capacity=amount, largest=amount
                )
            )
        for member in self.members:
            for index, (storage_class, size) in enumerate(member.claims):
                name = f"{member.name}-{index}"
                found.append(a_claim(name=name, storage_class=storage_class, size=f"{size}Gi", uid=f"uid-{name}"))
        if self.shared is not None:
            storage_class, size = self.shared
            found.append(
                a_claim(
                    name="shared",
                    storage_class=storage_class,
                    size=f"{size}Gi",
                    access_modes=("ReadWriteMany",),
                    uid="uid-shared",
                )
            )
        return found

    def pods(self) -> list[Pod]:
        return [
            a_pod(
                name=member.name,
                uid=f"uid-{member.name}",
                requests={"cpu": str(member.cpu)},
                claims=[
                    *(f"{member.name}-{index}" for index in range(len(member.claims))),
                    *(["shared"] if self.shared is not None else []),
                ],
            )
            for member in self.members
        ]


def random_group(rng: random.Random, *, promised: bool) -> SmallGroup:
    """Up to four members with up to two claims, five nodes, six volumes and three pools."""
    names = [f"n{number}" for number in range(1, rng.randint(2, 5) + 1)]
    zones = {name: rng.choice("ab") for name in names}
    cpu = {name: rng.randint(1, 4) for name in names}

    def places() -> frozenset[str]:
        narrow = frozenset({rng.choice(names)})
        zone = rng.choice(list(zones.values()))
        zonal = frozenset(name for name in names if zones[name] == zone)
        other = frozenset(rng.sample(names, rng.randint(1, len(names))))
        return rng.choice([narrow, narrow, zonal, frozenset(names)] if promised else [narrow, zonal, other])

    classes = rng.choice([[STATIC], [MADE], [STATIC, MADE]])
    volumes = [
        SmallVolume(f"pv-{number}", rng.choice(classes), rng.choice((5, 10)), places())
        for number in range(rng.randint(0, 6))
    ]
    by_node = rng.random() < 0.5
    free = [*names] if by_node else sorted(set(zones.values()))
    rng.shuffle(free)
    pools = [
        SmallPool(frozenset(name for name in names if place in (name, zones[name])), rng.choice((5, 10, 15, 20)))
        for place in free[: rng.randint(0, 3)]
    ]

    def claims() -> tuple[tuple[str, int], ...]:
        return tuple((rng.choice(classes), rng.choice((4, 8))) for _ in range(rng.randint(1, 2)))

    number = rng.randint(2, 4)
    alike = SmallMember("", rng.choice((1, 1, 2)), claims())
    members = [
        SmallMember(f"m{position}", alike.cpu, alike.claims)
        if promised
        else SmallMember(f"m{position}", rng.choice((1, 2)), claims() if rng.random() < 0.9 else ())
        for position in range(number)
    ]
    group = SmallGroup(zones, cpu, volumes, pools, members, rng.randint(2, number), by_zone=rng.random() < 0.3)
    if not promised and rng.random() < 0.2:
        group.shared = (rng.choice(classes), rng.choice((4, 8)))
    if not promised and rng.random() < 0.2:
        group.limits = {name: rng.randint(1, 3) for name in names}
    return group


class _Use:
    """What is taken while sources are tried."""

    def __init__(self, group: SmallGroup) -> None:
        self.volumes: set[str] = set()
        self.pools = [pool.capacity for pool in group.pools]
        self.made_on: Counter[str] = Counter()


def exists_plan(group: SmallGroup) -> bool:
    """Whether any choice of members, nodes, volumes and pools places the quorum."""
    domains = [sorted(group.zones)]
    if group.by_zone:
        values = sorted(set(group.zones.values()))
        domains = [[name for name in sorted(group.zones) if group.zones[name] == value] for value in values]
    return any(_assign_nodes(group, nodes, {}, 0) for nodes in domains)


def _assign_nodes(group: SmallGroup, nodes: Sequence[str], chosen: dict[str, str], position: int) -> bool:
    if len(chosen) + len(group.members) - position < group.quorum:
        return False
    if position == len(group.members):
        return _serve(group, chosen)
    member = group.members[position]
    for node in nodes:
        used = sum(other.cpu for other in group.members if chosen.get(other.name) == node)
        if used + member.cpu <= group.cpu[node] and _assign_nodes(
            group, nodes, chosen | {member.name: node}, position + 1
        ):
            return True
    return _assign_nodes(group, nodes, chosen, position + 1)


def _serve(group: SmallGroup, chosen: dict[str, str]) -> bool:
    """Whether claims of members on these nodes can all be served."""
    requested = [
        (storage_class, size, chosen[member.name])
        for member in group.members
        if member.name in chosen
        for storage_class, size in member.claims
    ]
    use = _Use(group)
    if group.shared is None:
        return _serve_rest(group, requested, 0, use)
    return any(_serve_rest(group, requested, 0, use) for _ in _shared_sources(group, set(chosen.values()), use))


def _shared_sources(group: SmallGroup, nodes: set[str], use: _Use) -> Iterator[None]:
    assert group.shared is not None
    storage_class, size = group.shared
    for volume in group.volumes:
        if volume.storage_class == storage_class and volume.size >= size and nodes <= volume.reach:
            use.volumes.add(volume.name)
            yield
            use.volumes.remove(volume.name)
    if storage_class == MADE and len({group.zones[node] for node in nodes}) == 1:
        zone = {name for name in group.zones if group.zones[name] in {group.zones[node] for node in nodes}}
        for number, pool in enumerate(group.pools):
            if pool.nodes & zone and use.pools[number] >= size:
                use.pools[number] -= size
                for node in nodes:
                    use.made_on[node] += 1
                yield
                for node in nodes:
                    use.made_on[node] -= 1
                use.pools[number] += size


def _serve_rest(group: SmallGroup, requested: Sequence[tuple[str, int, str]], position: int, use: _Use) -> bool:
    if position == len(requested):
        return all(use.made_on[node] <= limit for node, limit in group.limits.items())
    storage_class, size, node = requested[position]
    for volume in group.volumes:
        if (
            volume.storage_class == storage_class
            and volume.size >= size
            and node in volume.reach
            and volume.name not in use.volumes
        ):
            use.volumes.add(volume.name)
            if _serve_rest(group, requested, position + 1, use):
                return True
            use.volumes.remove(volume.name)
    if storage_class == MADE:
        for number, pool in enumerate(group.pools):
            if node in pool.nodes and use.pools[number] >= size:
                use.pools[number] -= size
                use.made_on[node] += 1
                if _serve_rest(group, requested, position + 1, use):
                    return True
                use.made_on[node] -= 1
                use.pools[number] += size
    return False


def plan_errors(group: SmallGroup, plan: GroupPlan) -> list[str]:
    """What is wrong with a plan, by the objects alone."""
    errors: list[str] = []
    by_name = {member.name: member for member in group.members}
    nodes = {one.pod.name: one.node for one in plan.members.values()}
    if len(nodes) < group.quorum:
        errors.append(f"{len(nodes)} members of {group.quorum}")
    used: Counter[str] = Counter()
    for name, node in nodes.items():
        used[node] += by_name[name].cpu
    errors += [f"too much CPU on {node}" for node, amount in used.items() if amount > group.cpu[node]]
    if group.by_zone and len({group.zones[node] for node in nodes.values()}) > 1:
        errors.append("several zones")
    volumes = {volume.name: volume for volume in group.volumes}
    taken: Counter[str] = Counter()
    pools = [0] * len(group.pools)
    made_on: Counter[str] = Counter()
    served: list[str] = []
    everything = [(one.plan, {one.node}) for one in plan.members.values()]
    everything += [(one.plan, {plan.members[uid].node for uid in one.users}) for one in plan.shared]
    for binding_plan, reached_from in everything:
        for binding in binding_plan.static:
            served.append(binding.claim.name)
            volume = volumes[binding.volume.name]
            taken[volume.name] += 1
            size = int(str(binding.claim.request).removesuffix("Gi"))
            if volume.size < size or not reached_from <= volume.reach:
                errors.append(f"{volume.name} for {binding.claim.name}")
        for provisioning in binding_plan.provision:
            served.append(provisioning.claim.name)
            size = int(str(provisioning.claim.request).removesuffix("Gi"))
            for node in reached_from:
                made_on[node] += 1
            if len({group.zones[node] for node in reached_from}) > 1:
                errors.append(f"{provisioning.claim.name} made for several zones")
            found = [number for number, pool in enumerate(group.pools) if binding_plan.node in pool.nodes]
            if not found:
                errors.append(f"{provisioning.claim.name} made on {binding_plan.node}, where there is no pool")
            for number in found:
                pools[number] += size
    errors += [f"{name} taken {count} times" for name, count in taken.items() if count > 1]
    errors += [f"pool {n}: {use}" for n, use in enumerate(pools) if use > group.pools[n].capacity]
    errors += [f"limit of {node}" for node, limit in group.limits.items() if made_on[node] > limit]
    requested = [f"{name}-{index}" for name in nodes for index in range(len(by_name[name].claims))]
    requested += ["shared"] if group.shared is not None else []
    if sorted(served) != sorted(requested):
        errors.append(f"served {sorted(served)} instead of {sorted(requested)}")
    return errors
