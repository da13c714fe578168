"""A node to add: its labels, allocatable resources and storage. Pure.

For a volume on one node's local disk, only the return of that node is proposed.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import combinations, product, starmap
from typing import Final, NamedTuple

from mooring.api import well_known
from mooring.api.kinds import NODE, VOLUME
from mooring.api.node_selectors import NodeSelector, NodeSelectorTerm, topologies_from_view
from mooring.api.pod_requirements import CPU, PODS
from mooring.api.selectors import Operator, Requirement, SelectorError
from mooring.api.views.storage import Claim
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.inspection import PodDecision
from mooring.explain.node_details import counted
from mooring.explain.remedies.changes import AddNode, RecoverNode
from mooring.explain.remedies.claims import NEW_NODE, volume_on_new_node
from mooring.explain.remedies.nodes import recovery
from mooring.explain.remedies.search import Proposal, Step
from mooring.explain.results import ClaimReport
from mooring.scheduler.snapshot.pod_terms import required_of
from mooring.volumes.in_tree import allowed_topologies, zone_requirements_of
from mooring.volumes.shortage import topology_text
from mooring.volumes.topology import Affinity, affinity_of

#: Lost nodes of a volume whose return is proposed.
MAX_LOST: Final = 3
#: Labels that name one node, whatever their domain.
_ONE_NODE: Final = frozenset({"node", "host", "hostname", "nodename"})
_AREAS: Final = frozenset(
    {well_known.ZONE, well_known.REGION, well_known.ZONE_BETA, well_known.REGION_BETA, well_known.RACK}
)


class Fixed(NamedTuple):
    """A bound claim and where its volume can be used."""

    claim: Claim
    place: Affinity


def _fixed(scene: PodDecision) -> list[Fixed]:
    volumes = ((claim, scene.snapshot.volumes.volume(claim.spec.volume_name)) for claim in scene.claims.bound)
    return [Fixed(claim, affinity_of(volume)) for claim, volume in volumes if volume is not None]


def conflict(scene: PodDecision) -> str:
    """Why no node whatsoever could do; "" where one could."""
    for one, other in combinations(_fixed(scene), 2):
        if not _compatible(one.place, other.place):
            return (
                f"no node can reach both the volume of {one.claim.key} ({topology_text(one.place)}) and that of "
                f"{other.claim.key} ({topology_text(other.place)})"
            )
    return ""


def new_node(scene: PodDecision) -> Iterator[Proposal]:
    """A node to be added; none where a volume is on the disk of one certain node."""
    places = [*_places(scene)]
    labels = _labels(places)
    if labels is None or any(is_of_one_node(key, scene.objects) for key in labels):
        return
    requests = scene.attempt.requests
    amounts = {} if isinstance(requests, str) else requests.amounts
    free = ", ".join(f"{counted(name, much)} {name}" for name, much in amounts.items())
    named = " and ".join(dict.fromkeys(topology_text(place) for place in places))
    described = " and ".join(part for part in (named, f"{free} free" if free else "") if part)
    needed = {name: f"{much}m" if name == CPU else str(much) for name, much in amounts.items()}
    node = AddNode(NEW_NODE, {well_known.HOSTNAME: NEW_NODE} | labels, {PODS: "110"} | needed)
    step = Step(f"a new node with {described}" if described else "a new node", (node,))
    yield Proposal(((step,), *((each,) for each in volume_on_new_node(scene, NEW_NODE))), NEW_NODE)


def for_place(report: ClaimReport, claim: Claim, objects: ClusterObjects) -> Iterator[Proposal]:
    """The nodes that would reach the volume of a claim: those that are lost, and those that do not exist any more."""
    volume = objects.get(VOLUME, claim.spec.volume_name)
    if report.state != "Unreachable" or volume is None:
        return
    for name in report.lost_nodes[:MAX_LOST]:
        if (node := objects.get(NODE, name)) is not None:
            yield Proposal(((Step(recovery(node, objects.moment), (RecoverNode(name),)),),), name)
    yield from returning_nodes(affinity_of(volume), objects)


def new_node_at(place: Affinity, objects: ClusterObjects) -> Iterator[Proposal]:
    """A node to be added in a place, whatever else it needs."""
    labels = None if place is None else _labels([place])
    if labels and not any(is_of_one_node(key, objects) for key in labels):
        node = AddNode(NEW_NODE, {well_known.HOSTNAME: NEW_NODE} | labels, {PODS: "110"})
        yield Proposal(((Step(f"add a node with {topology_text(place)}", (node,)),),))


def returning_nodes(place: Affinity, objects: ClusterObjects) -> Iterator[Proposal]:
    """Nodes that do not exist any more and have a volume on their disks."""
    listed = {node.metadata.labels.get(well_known.HOSTNAME, node.name) for node in objects.of(NODE)}
    for name, labels in named_nodes(place, objects):
        if name not in listed:
            text = (
                f"bring {name} itself back, with the disk that has the data: another node of that name would have an "
                "empty one"
            )
            amounts = {"cpu": "1k", "memory": "1Pi", PODS: "1k"}
            yield Proposal(((Step(text, (AddNode(name, {well_known.HOSTNAME: name} | labels, amounts),)),),))


def named_nodes(place: Affinity, objects: ClusterObjects) -> Iterator[tuple[str, dict[str, str]]]:
    """The nodes that a place names one by one, each with the labels it goes by."""
    for term in place.terms if place is not None else ():
        for one in term.expressions:
            if one.operator is Operator.IN and is_of_one_node(one.key, objects):
                yield from ((value, {one.key: value}) for value in one.values)


def is_of_one_node(key: str, objects: ClusterObjects) -> bool:
    """Whether a label tells single nodes apart rather than areas: by its name, or by the values that nodes have."""
    if key in _AREAS:
        return False
    if key.rpartition("/")[2].lower() in _ONE_NODE:
        return True
    nodes = objects.of(NODE)
    values = [node.metadata.labels[key] for node in nodes if key in node.metadata.labels]
    return len(values) > 1 and all(value == node.name for value, node in zip(values, nodes, strict=False))


def _places(scene: PodDecision) -> Iterator[NodeSelector]:
    """Everything that says which labels the node needs."""
    for one in _fixed(scene):
        if one.place is not None:
            yield one.place
        volume = scene.snapshot.volumes.volume(one.claim.spec.volume_name)
        for place in zone_requirements_of(volume) if volume is not None else ():
            yield NodeSelector((NodeSelectorTerm((Requirement(place.key, Operator.IN, tuple(place.values)),)),))
    with suppress(SelectorError):
        yield from required_of(scene.pod).selectors
    for needs in scene.open_claims:
        found = scene.snapshot.volumes.storage_class(needs.storage_class)
        terms = () if found is None else topologies_from_view(allowed_topologies(found)).terms
        if terms and scene.snapshot.volumes.provisioners.provisioner(needs.storage_class):
            yield NodeSelector(terms)


def _labels(places: Iterable[NodeSelector]) -> dict[str, str] | None:
    """Labels that fulfil the first term of each place; None where these contradict each other."""
    wanted: dict[str, list[str]] = {}
    for place in places:
        if not place.terms:
            return None
        for one in place.terms[0].expressions:
            if one.operator is Operator.IN:
                known = wanted.get(one.key)
                wanted[one.key] = [value for value in one.values if known is None or value in known]
            elif one.operator is Operator.EXISTS:
                wanted.setdefault(one.key, [""])
    if not all(wanted.values()):
        return None
    return {key: values[0] for key, values in wanted.items()}


def _compatible(one: Affinity, other: Affinity) -> bool:
    """Whether some node could be in both places."""
    if one is None or other is None:
        return True
    pairs = (product(a.expressions, b.expressions) for a, b in product(one.terms, other.terms))
    return any(not any(starmap(_disjoint, pair)) for pair in pairs)


def _disjoint(one: Requirement, other: Requirement) -> bool:
    if one.key != other.key or not one.operator is other.operator is Operator.IN:
        return False
    return set(one.values).isdisjoint(other.values)
