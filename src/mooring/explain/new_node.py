"""The node that is missing: which labels, how much room and which storage a node would need to take a pod. Pure.

Where a volume is on one node's disk, no other node will do: that node has to come back itself. Told apart by the label
that the volume goes by.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Final, NamedTuple

from mooring.api import keys
from mooring.api.kinds import NODE, VOLUME
from mooring.api.label_selector import Operator, Requirement, SelectorError
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm, topologies_from_view
from mooring.api.pod_requests import CPU, PODS
from mooring.api.views.claim import Claim
from mooring.explain.claim_remedies import NEW_NODE, volume_on_new_node
from mooring.explain.cluster_changes import AddNode, RecoverNode
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.figures import counted
from mooring.explain.node_remedies import recovery
from mooring.explain.remedies import Proposal, Step
from mooring.explain.trials import Scene
from mooring.explain.verdicts import ClaimStanding
from mooring.scheduler.required_nodes import required_of
from mooring.volumes.affinity import Affinity, affinity
from mooring.volumes.shortage import where
from mooring.volumes.zone_parameters import allowed_topologies
from mooring.volumes.zones import places_of

#: Lost nodes of a volume whose return is proposed.
MAX_LOST: Final = 3
#: Labels that name one node, whatever their domain.
_ONE_NODE: Final = frozenset({"node", "host", "hostname", "nodename"})
_AREAS: Final = frozenset({keys.ZONE, keys.REGION, keys.ZONE_BETA, keys.REGION_BETA, keys.RACK})


class Fixed(NamedTuple):
    """A bound claim and where its volume can be used."""

    claim: Claim
    place: Affinity


def fixed(scene: Scene) -> list[Fixed]:
    claims = scene.attempt.claims
    bound = () if isinstance(claims, str) else claims.bound
    volumes = ((claim, scene.snapshot.volumes.volume(claim.spec.volume_name)) for claim in bound)
    return [Fixed(claim, affinity(volume)) for claim, volume in volumes if volume is not None]


def conflict(places: Iterable[Fixed]) -> str:
    """Why no node whatsoever could do; "" where one could."""
    for one, other in combinations(places, 2):
        if not _compatible(one.place, other.place):
            return (
                f"no node can reach both the volume of {one.claim.key} ({where(one.place)}) and that of "
                f"{other.claim.key} ({where(other.place)})"
            )
    return ""


def new_node(scene: Scene) -> Iterator[Proposal]:
    """A node to be added; none where a volume is on the disk of one certain node."""
    places = [*_places(scene)]
    labels = _labels(places)
    if labels is None or any(is_of_one_node(key, scene.objects) for key in labels):
        return
    requests = scene.attempt.requests
    amounts = {} if isinstance(requests, str) else requests.amounts
    free = ", ".join(f"{counted(name, much)} {name}" for name, much in amounts.items())
    named = " and ".join(dict.fromkeys(where(place) for place in places))
    described = " and ".join(part for part in (named, f"{free} free" if free else "") if part)
    node = AddNode(NEW_NODE, {keys.HOSTNAME: NEW_NODE} | labels, _allocatable(amounts))
    step = Step(f"a new node with {described}" if described else "a new node", (node,))
    yield Proposal(((step,), *((each,) for each in volume_on_new_node(scene, NEW_NODE))), NEW_NODE)


def for_place(standing: ClaimStanding, claim: Claim, objects: ClusterObjects) -> Iterator[Proposal]:
    """The nodes that would reach the volume of a claim: those that are lost, and those that do not exist any more."""
    volume = objects.get(VOLUME, claim.spec.volume_name) if claim.spec.volume_name else None
    if standing.state != "Unreachable" or volume is None:
        return
    for name in standing.lost_nodes[:MAX_LOST]:
        if (node := objects.get(NODE, name)) is not None:
            yield Proposal(((Step(recovery(node, objects.moment), (RecoverNode(name),)),),), name)
    yield from returning_nodes(affinity(volume), objects)


def new_node_at(place: Affinity, objects: ClusterObjects) -> Iterator[Proposal]:
    """A node to be added in a place, whatever else it needs."""
    labels = None if place is None else _labels([place])
    if labels and not any(is_of_one_node(key, objects) for key in labels):
        node = AddNode(NEW_NODE, {keys.HOSTNAME: NEW_NODE} | labels, {PODS: "110"})
        yield Proposal(((Step(f"add a node with {where(place)}", (node,)),),))


def returning_nodes(place: Affinity, objects: ClusterObjects) -> Iterator[Proposal]:
    """Nodes that do not exist any more and have a volume on their disks."""
    listed = {node.metadata.labels.get(keys.HOSTNAME, node.name) for node in objects.of(NODE)}
    for name, labels in named_nodes(place, objects):
        if name not in listed:
            text = (
                f"bring {name} itself back, with the disk that has the data: another node of that name would have an "
                "empty one"
            )
            amounts = {"cpu": "1k", "memory": "1Pi", PODS: "1k"}
            yield Proposal(((Step(text, (AddNode(name, {keys.HOSTNAME: name} | labels, amounts),)),),))


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


def _places(scene: Scene) -> Iterator[NodeSelector]:
    """Everything that says which labels the node needs."""
    for one in fixed(scene):
        if one.place is not None:
            yield one.place
        volume = scene.snapshot.volumes.volume(one.claim.spec.volume_name)
        for place in places_of(volume) if volume is not None else ():
            yield NodeSelector((NodeSelectorTerm((Requirement(place.key, Operator.IN, tuple(place.values)),)),))
    with suppress(SelectorError):
        yield from required_of(scene.pod).selectors
    claims = scene.attempt.claims
    for needs in () if isinstance(claims, str) else (*claims.unbound, *claims.selected):
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


def _allocatable(amounts: Mapping[str, int]) -> dict[str, str]:
    return {PODS: "110"} | {name: f"{much}m" if name == CPU else str(much) for name, much in amounts.items()}


def _compatible(one: Affinity, other: Affinity) -> bool:
    """Whether some node could be in both places."""
    if one is None or other is None:
        return True
    return any(not _exclude(a, b) for a in one.terms for b in other.terms)


def _exclude(one: NodeSelectorTerm, other: NodeSelectorTerm) -> bool:
    return any(_disjoint(a, b) for a in one.expressions for b in other.expressions)


def _disjoint(one: Requirement, other: Requirement) -> bool:
    if one.key != other.key or not one.operator is other.operator is Operator.IN:
        return False
    return set(one.values).isdisjoint(other.values)
