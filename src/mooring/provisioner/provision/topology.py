"""Accessibility requirements of a CreateVolume request from Nodes and CSINodes. Pure.

Result, order, rotation and hash are external-provisioner's, so that volumes of a StatefulSet get the same topology:

    WaitForFirstConsumer, strict                  the selected node's segment only
    WaitForFirstConsumer, no allowed topologies   all segments, the selected node's first
    WaitForFirstConsumer, allowed topologies      those, beginning with the first that contains the selected node
    Immediate, allowed topologies                 those, rotated by the claim's name
    Immediate, no allowed topologies              all segments, rotated; none with --immediate-topology=false

All segments are one per node for local storage: plans and their records have the first of them, and the request gets
the others when it is sent.
"""

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject, Meta
from mooring.api.views.storage import CsiNode, CsiNodeSpec, NodeDriver, TopologyTerm
from mooring.csi.contract import AccessibilityRequirements, Topology
from mooring.provisioner import events
from mooring.provisioner.settings import DriverFacts, ProvisioningFailure, ProvisioningState

T = TypeVar("T")
V_co = TypeVar("V_co", bound=ApiObject, covariant=True)

Term = tuple[tuple[str, str], ...]
"""Topology segments as label pairs sorted by key; a node must have all of them."""

#: FNV-1 with 32 bits: multiply, then xor. (FNV-1a does it the other way round.)
FNV_OFFSET: Final = 2166136261
FNV_PRIME: Final = 16777619
UINT32: Final = 2**32


def term(segments: Mapping[str, str]) -> Term:
    return tuple(sorted(segments.items()))


def within(part: Term, whole: Term) -> bool:
    return set(part) <= set(whole)


def ordered(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Each term once: shorter ones first, then by key and value."""
    return tuple(sorted(set(terms), key=lambda each: (len(each), each)))


def flattened(allowed: Sequence[TopologyTerm]) -> tuple[Term, ...]:
    """allowedTopologies as terms with one value per key; an entry without expressions adds nothing."""
    terms: list[Term] = []
    for entry in allowed:
        expressions = entry.match_label_expressions
        if expressions:
            choices = itertools.product(*(expression.values for expression in expressions))
            named = [expression.key for expression in expressions]
            terms += (term(dict(zip(named, chosen, strict=True))) for chosen in choices)
    return tuple(terms)


def rotated(entries: tuple[T, ...], by: int) -> tuple[T, ...]:
    start = by % len(entries)
    return entries[start:] + entries[:start]


def offset(claim_name: str) -> int:
    """Rotation by the claim's name: consecutive for the claims of a StatefulSet, equal for the claims of one pod.

    `data-web-2` and `log-web-2` both hash `web` and add 2.
    """
    stem, dash, ordinal = claim_name.rpartition("-")
    if not dash or not ordinal.isascii() or not ordinal.isdigit() or int(ordinal) >= UINT32:
        return fnv1_32(claim_name)
    return (fnv1_32(stem.rpartition("-")[2]) + int(ordinal)) % UINT32


def fnv1_32(text: str) -> int:
    value = FNV_OFFSET
    for byte in text.encode():
        value = (value * FNV_PRIME % UINT32) ^ byte
    return value


class ObjectLookup(Protocol[V_co]):
    """An informer, or objects that never change."""

    def get(self, key: str) -> V_co | None: ...

    def items(self) -> Collection[V_co]: ...


class NodeInformer(ObjectLookup[Node], Protocol):
    def on_change(self, handler: Callable[[Node | None, Node | None], None]) -> None: ...


class ClusterSegments:
    """The segments of all nodes, each once and in order. Requests share the values."""

    def __init__(self, found: Iterable[Term]) -> None:
        self.terms = ordered(found)
        self.topologies = _topologies(self.terms)
        self._positions = {each: i for i, each in enumerate(self.terms)}

    def beginning_with(self, segment: Term) -> AccessibilityRequirements:
        """All of them, this one preferred: it is added if no node has it any more."""
        if segment not in self._positions:
            return ClusterSegments((segment, *self.terms)).beginning_with(segment)
        return AccessibilityRequirements(self.topologies, rotated(self.topologies, self._positions[segment]))


class TopologySource:
    """Nodes and CSINodes, of the cluster or of one node."""

    def __init__(self, nodes: ObjectLookup[Node], csi_nodes: ObjectLookup[CsiNode]) -> None:
        self.nodes = nodes
        self.csi_nodes = csi_nodes

    def segments(self, keys: tuple[str, ...]) -> ClusterSegments:
        """Of the nodes whose labels have all these topology keys."""
        found = (segment_from_labels(node.metadata.labels, keys) for node in self.nodes.items())
        return ClusterSegments(segment for segment in found if segment is not None)


class CachedTopologySource(TopologySource):
    """Of informers: segments are computed again only after the labels of a node have changed."""

    def __init__(self, nodes: NodeInformer, csi_nodes: ObjectLookup[CsiNode]) -> None:
        super().__init__(nodes, csi_nodes)
        self._by_keys: dict[tuple[str, ...], ClusterSegments] = {}
        nodes.on_change(self._node_changed)

    def segments(self, keys: tuple[str, ...]) -> ClusterSegments:
        if keys not in self._by_keys:
            self._by_keys[keys] = super().segments(keys)
        return self._by_keys[keys]

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or before.metadata.labels != after.metadata.labels:
            self._by_keys.clear()


class TopologyRequest(NamedTuple):
    driver: str
    claim_name: str
    allowed: Sequence[TopologyTerm] = ()
    #: "" without one.
    selected_node: str = ""
    strict: bool = False
    immediate_topology: bool = True

    @property
    def names_all_segments(self) -> bool:
        return not self.allowed and not (self.strict and self.selected_node)


class _Selected(NamedTuple):
    """Topology keys and segment of the selected node."""

    keys: tuple[str, ...]
    segment: Term


def requirements(
    request: TopologyRequest, source: TopologySource, rng: random.Random
) -> AccessibilityRequirements | None:
    """None for no requirement: the volume may be anywhere. Raises ProvisioningFailure."""
    selected = _selected(request, source) if request.selected_node else None
    allowed = flattened(request.allowed)
    if selected is not None and request.strict:
        if request.allowed and not any(within(each, selected.segment) for each in allowed):
            raise _not_in("allowed topologies", request, selected, allowed)
        return _wire((selected.segment,), (selected.segment,))
    if not allowed:
        if request.allowed or (selected is None and not request.immediate_topology):
            return None
        return _all_segments(request, source, selected, rng)
    requisite = ordered(allowed)
    if selected is None:
        return _wire(requisite, rotated(requisite, offset(request.claim_name)))
    first = next((i for i, each in enumerate(requisite) if within(each, selected.segment)), None)
    if first is None:
        raise _not_in("requisite", request, selected, requisite)
    return _wire(requisite, rotated(requisite, first))


def abridged(whole: AccessibilityRequirements) -> AccessibilityRequirements:
    """The first preferred segment of a requirement that names all."""
    return AccessibilityRequirements(whole.preferred[:1], whole.preferred[:1])


def unabridged(first: AccessibilityRequirements, source: TopologySource) -> AccessibilityRequirements:
    """The requirement that was abridged, with the segments that nodes have now."""
    [preferred] = first.preferred
    segment = term(preferred.segments)
    return source.segments(tuple(key for key, _ in segment)).beginning_with(segment)


def topology_keys(csi_node: CsiNode, driver: str) -> tuple[str, ...]:
    """The driver's topology keys in the CSINode; none if the driver is not listed."""
    return next((each.topology_keys for each in csi_node.spec.drivers or () if each.name == driver), ())


def segment_from_labels(labels: Mapping[str, str], keys: Iterable[str]) -> Term | None:
    """The segment of a node with these labels; None if one of the topology keys is missing."""
    required = tuple(keys)
    return term({key: labels[key] for key in required}) if all(key in labels for key in required) else None


def _selected(request: TopologyRequest, source: TopologySource) -> _Selected:
    name = request.selected_node
    csi_node = source.csi_nodes.get(name)
    if csi_node is None:
        text = events.CSI_NODE_NOT_FOUND.format(node=name, node_name=name)
        raise _failure(text, ProvisioningState.RESCHEDULE)
    keys = topology_keys(csi_node, request.driver)
    if not keys:
        raise _failure(events.NO_TOPOLOGY_KEY.format(node=name))
    node = source.nodes.get(name)
    if node is None:
        raise _failure(events.NODE_NOT_FOUND.format(node=name, node_name=name))
    segment = segment_from_labels(node.metadata.labels, keys)
    if segment is None:
        missing = ", ".join(sorted(key for key in keys if key not in node.metadata.labels))
        raise _failure(f'selected node "{name}" lacks the topology labels {missing}')
    return _Selected(keys, segment)


def _all_segments(
    request: TopologyRequest, source: TopologySource, selected: _Selected | None, rng: random.Random
) -> AccessibilityRequirements:
    if selected is not None:
        return source.segments(_sorted(selected.keys)).beginning_with(selected.segment)
    # Sorted by name: the draw must not depend on the order in which nodes were observed.
    known = sorted((each.name, topology_keys(each, request.driver)) for each in source.csi_nodes.items())
    candidates = [keys for _, keys in known if keys]
    if not candidates:
        raise _failure("no available topology found")
    keys = _sorted(rng.choice(candidates))
    segments = source.segments(keys)
    if not segments.terms:
        raise _failure(f"no node has all topology labels {', '.join(keys)}")
    return segments.beginning_with(rotated(segments.terms, offset(request.claim_name))[0])


def _sorted(keys: Iterable[str]) -> tuple[str, ...]:
    """Each key once, as in a Term."""
    return tuple(sorted(set(keys)))


def _topologies(terms: Iterable[Term]) -> tuple[Topology, ...]:
    return tuple(Topology(dict(each)) for each in terms)


def _wire(requisite: tuple[Term, ...], preferred: tuple[Term, ...]) -> AccessibilityRequirements:
    return AccessibilityRequirements(_topologies(requisite), _topologies(preferred))


def _failure(text: str, state: ProvisioningState = ProvisioningState.NO_CHANGE) -> ProvisioningFailure:
    return ProvisioningFailure(state, events.TOPOLOGY_FAILED.format(reason=text))


def _not_in(where: str, request: TopologyRequest, selected: _Selected, terms: Iterable[Term]) -> ProvisioningFailure:
    topology, listed = _format_term(selected.segment), ", ".join(map(_format_term, terms))
    return _failure(f'topology {topology} of selected node "{request.selected_node}" is not in {where}: [{listed}]')


def _format_term(segment: Term) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in segment) + "}"


class _SingleObject(Generic[V_co]):
    def __init__(self, item: V_co) -> None:
        self._item = item

    def get(self, key: str) -> V_co | None:
        return self._item if key == self._item.name else None

    def items(self) -> tuple[V_co]:
        return (self._item,)


def single_node_topology(node: str, facts: DriverFacts) -> TopologySource:
    """The node of a node deployment, as its driver reports it: no node is watched."""
    meta = Meta(name=node, labels=facts.segments)
    drivers = (NodeDriver(name=facts.name, listed_topology_keys=tuple(sorted(facts.segments))),)
    csi_node = CsiNode(metadata=meta, spec=CsiNodeSpec(drivers=drivers))
    return TopologySource(_SingleObject(Node(metadata=meta)), _SingleObject(csi_node))
