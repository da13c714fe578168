"""Where storage is, as the page draws it: on a node, in a rack, in a zone, everywhere in the cluster, or nowhere.

Pure. The place of a volume or a pool is the smallest of these that encloses all nodes that reach it; a node selector
that speaks of zones alone means the zone, also where that has a single node.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from mooring.api import keys, label_selector
from mooring.api.label_selector import SelectorError
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.api.views.meta import LabelSelectorView
from mooring.api.views.node import Node
from mooring.volumes.topology import TopologyIndex

_ZONES: Final = frozenset({keys.ZONE, keys.ZONE_BETA})
_REGIONS: Final = frozenset({keys.REGION, keys.REGION_BETA})


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """`level` is node, rack, zone, cluster or nowhere; names are given as far as they are fixed by it."""

    level: str
    zone: str = ""
    rack: str = ""
    node: str = ""
    #: How many nodes reach it.
    nodes: int = 0


NOWHERE: Final = Place("nowhere")


class Places:
    """The nodes, and what encloses them. `version` moves whenever a place may have become another."""

    def __init__(self, *, rack_label: str = keys.RACK) -> None:
        self._rack_label = rack_label
        self._topology = TopologyIndex()
        self._answers: dict[NodeSelector | None, Place] = {}
        self._answered = 0

    @property
    def version(self) -> int:
        return self._topology.version

    def observe(self, before: Node | None, after: Node | None) -> None:
        if after is not None:
            self._topology.put(after.name, after.metadata.labels)
        elif before is not None:
            self._topology.remove(before.name)

    def zone(self, labels: Mapping[str, str]) -> str:
        return labels.get(keys.ZONE) or labels.get(keys.ZONE_BETA, "")

    def rack(self, labels: Mapping[str, str]) -> str:
        return labels.get(self._rack_label, "")

    def of(self, selector: NodeSelector | None) -> Place:
        """The place of what the nodes matching a selector reach; None is what every node reaches."""
        if self._answered != self._topology.version:
            self._answers.clear()
            self._answered = self._topology.version
        known = self._answers.get(selector)
        if known is None:
            known = self._answers[selector] = self._enclosing(selector)
        return known

    def of_segment(self, segment: LabelSelectorView | None) -> Place:
        """The place of a CSIStorageCapacity: no selector is nowhere, an empty one is everywhere."""
        if segment is None:
            return NOWHERE
        try:
            wanted = label_selector.from_view(segment.match_labels, segment.match_expressions).requirements
        except SelectorError:
            return NOWHERE  # No server of ours takes such an object, and no node would match it.
        return self.of(NodeSelector((NodeSelectorTerm(wanted),)) if wanted else None)

    def _enclosing(self, selector: NodeSelector | None) -> Place:
        names = tuple(self._topology.names(self._topology.matching(selector)))
        count = len(names)
        if selector is None:
            return Place("cluster", nodes=count)
        if not names:
            return NOWHERE
        spoken = {one.key for term in selector.terms for one in term.expressions}
        by_name = any(term.fields for term in selector.terms)
        labels = [self._topology.labels(name) for name in names]
        zone = _only(self.zone(one) for one in labels)
        rack = _only(self.rack(one) for one in labels)
        if by_name or not spoken <= _ZONES | _REGIONS | {self._rack_label}:
            if count == 1:
                return Place("node", zone or "", rack or "", names[0], 1)
            if rack and zone is not None:
                return Place("rack", zone, rack, nodes=count)
        elif self._rack_label in spoken and rack and zone is not None:
            return Place("rack", zone, rack, nodes=count)
        if zone and not spoken <= _REGIONS:
            return Place("zone", zone, nodes=count)
        return Place("cluster", nodes=count)


def _only(values: Iterable[str]) -> str | None:
    """The one value all have in common; None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
