"""Scheduler configurations compared on the same cluster and changes: what each schedules, and what each leaves.

Every configuration gets a simulated run of its own from the same objects and seed. Pods that run already stay where
they are, so the comparison is about the pods to come. Pure.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mooring.api import quantity, well_known
from mooring.api.kinds import NODE, POD
from mooring.explain.text import counted_noun
from mooring.scheduler.framework.cycle import Profile
from mooring.volumes.shortage import readable_size
from mooring.whatif.additions import ADDED
from mooring.whatif.inventory import Inventory
from mooring.whatif.results import SimulationResult, SimulationStruct


class NamedProfiles(NamedTuple):
    """A configuration, named after its file, with its profiles by schedulerName."""

    name: str
    profiles: Mapping[str, Profile]


class FreeCapacity(SimulationStruct, frozen=True):
    """Capacity of a class that is left: in all, and the largest volume that can still be provisioned."""

    storage_class: str
    total: str
    largest: str


class ConfiguredOutcome(SimulationStruct, frozen=True, omit_defaults=False):
    configuration: str
    #: Whether no pod becomes pending.
    ok: bool
    scheduled: int
    pending: int
    #: Nodes without any pod at the end, and nodes that got one of the pods scheduled now.
    empty_nodes: int
    used_nodes: int
    #: Scheduled pods in the zone with most of them minus those in the zone with fewest.
    zone_imbalance: int
    free: tuple[FreeCapacity, ...]
    result: SimulationResult


class DifferentNode(SimulationStruct, frozen=True, omit_defaults=False):
    """A pod with its node in each configuration; "" where it stays pending."""

    pod: str
    nodes: tuple[str, ...]


class ConfigurationComparison(SimulationStruct, frozen=True, omit_defaults=False):
    verdict: str
    ok: bool
    configurations: tuple[ConfiguredOutcome, ...]
    different: tuple[DifferentNode, ...]


def compare(
    given: Sequence[NamedProfiles], inventory: Inventory, simulate: Callable[[NamedProfiles], SimulationResult]
) -> ConfigurationComparison:
    """`simulate` answers with the result of one configuration; `inventory` has the objects before any change."""
    outcomes = tuple(_outcome(each.name, simulate(each), inventory) for each in given)
    different = _different([each.result for each in outcomes])
    ok = all(each.ok for each in outcomes)
    return ConfigurationComparison(_verdict(outcomes, len(different)), ok, outcomes, different)


def _outcome(name: str, result: SimulationResult, inventory: Inventory) -> ConfiguredOutcome:
    nodes = {node.name: node for node in inventory.of(NODE)}
    removed = set(result.difference.nodes_removed)
    there = [node for node in (*nodes, *result.difference.nodes_added) if node not in removed]
    used = Counter(each.node for each in result.placements)
    moved = {each.pod for each in result.placements if each.before}
    running = Counter(pod.spec.node_name for pod in inventory.of(POD) if not pod.finished and pod.key not in moved)
    zones = Counter({zone: 0 for node in nodes.values() if (zone := _zone(node.metadata.labels))})
    for node, count in used.items():
        # An added node is in the zone of its template.
        known = nodes.get(node) or nodes.get(node.rpartition(ADDED)[0])
        if known is not None and (zone := _zone(known.metadata.labels)):
            zones[zone] += count
    missing = sum(each.desired - each.pods for each in result.shortfalls)
    return ConfiguredOutcome(
        configuration=name,
        ok=result.ok,
        scheduled=used.total(),
        pending=len(result.pending) + missing,
        empty_nodes=sum(not used[node] and not running[node] for node in there),
        used_nodes=len(used),
        zone_imbalance=max(zones.values(), default=0) - min(zones.values(), default=0),
        free=tuple(_free(result)),
        result=result,
    )


def _zone(labels: Mapping[str, str]) -> str:
    return labels.get(well_known.ZONE) or labels.get(well_known.ZONE_BETA, "")


def _free(result: SimulationResult) -> list[FreeCapacity]:
    left: dict[str, list[int]] = {}
    for each in result.capacity:
        if each.after is not None:
            left.setdefault(each.storage_class, []).append(quantity.to_bytes(each.after))
    return [
        FreeCapacity(name, readable_size(sum(values)), readable_size(max(values)))
        for name, values in sorted(left.items())
    ]


def _different(results: Sequence[SimulationResult]) -> tuple[DifferentNode, ...]:
    placed = [{each.pod: each.node for each in result.placements} for result in results]
    waiting = [{each.pod for each in result.pending} for result in results]
    # Names of pods of Deployments are random: only those that exist in every run are compared.
    known = [nodes.keys() | pods for nodes, pods in zip(placed, waiting, strict=True)]
    shared = sorted(set.intersection(*map(set, known))) if known else []
    rows = (DifferentNode(pod, tuple(nodes.get(pod, "") for nodes in placed)) for pod in shared)
    return tuple(row for row in rows if len(set(row.nodes)) > 1)


def _verdict(outcomes: Sequence[ConfiguredOutcome], different: int) -> str:
    parts = (
        f"{each.configuration} schedules {each.scheduled} of {each.scheduled + each.pending} pods" for each in outcomes
    )
    others = f"{counted_noun(different, 'pod')} get{'s' if different == 1 else ''} another node" if different else ""
    return f"{', '.join(parts)}; {others or 'the nodes are the same'}."
