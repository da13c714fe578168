"""The parts of a cluster that a driver's storage is told apart by: for each its room is published on its own.

Where segments come from is open: `FixedSegment` is what a driver's own node says, `NodeSegments` the union over all
nodes, and anything else that fulfils `SegmentSource` will do, such as an inventory of pools outside Kubernetes.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from mooring.api.kinds import CSI_NODE, NODE
from mooring.api.views.node import Node
from mooring.api.views.storage import CsiNode, NodeDriver
from mooring.client.informer import Informers
from mooring.provisioner.accessibility import place_of
from mooring.provisioner.topology_terms import Term, term

Segment = Term
"""Label pairs of the nodes that reach the storage; empty where all nodes do."""


class SegmentSource(Protocol):
    def segments(self) -> frozenset[Segment]:
        """All there are now."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call whenever the answer may have changed."""
        ...

    async def wait_synced(self) -> None:
        """Until the answer is complete for the first time."""
        ...


class FixedSegment:
    """One node's own, for publishers that run on every node."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._segment = term(labels)

    def segments(self) -> frozenset[Segment]:
        return frozenset({self._segment})

    def on_change(self, tell: Callable[[], None]) -> None:
        """It never does."""

    async def wait_synced(self) -> None:
        """It is known from the start."""


class NodeSegments:
    """The union over the nodes that have the driver."""

    def __init__(self, informers: Informers, driver: str) -> None:
        self._nodes = informers.of(NODE)
        self._csi_nodes = informers.of(CSI_NODE)
        self._driver = driver
        self._tells: list[Callable[[], None]] = []
        self._nodes.on_change(self._node_changed)
        self._csi_nodes.on_change(self._csi_node_changed)

    def segments(self) -> frozenset[Segment]:
        return union(self._driver, self._csi_nodes.items(), self._nodes.get)

    def on_change(self, tell: Callable[[], None]) -> None:
        self._tells.append(tell)

    async def wait_synced(self) -> None:
        await self._nodes.synced.wait()
        await self._csi_nodes.synced.wait()

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        # Nodes report every few seconds; only their labels matter here.
        if before is None or after is None or before.metadata.labels != after.metadata.labels:
            self._tell()

    def _csi_node_changed(self, before: CsiNode | None, after: CsiNode | None) -> None:
        if _of_driver(before, self._driver) != _of_driver(after, self._driver):
            self._tell()

    def _tell(self) -> None:
        for tell in self._tells:
            tell()


def union(driver: str, csi_nodes: Iterable[CsiNode], node: Callable[[str], Node | None]) -> frozenset[Segment]:
    """The segments of all nodes that have the driver and carry all its labels; a node that still lacks one is left
    out. A driver without topology keys has one segment, the whole cluster."""
    found: set[Segment] = set()
    for csi_node in csi_nodes:
        listed = _of_driver(csi_node, driver)
        known = node(csi_node.name) if listed is not None else None
        if listed is not None and known is not None:
            place = place_of(known.metadata.labels, listed.topology_keys)
            if place is not None:
                found.add(place)
    return frozenset(found)


def _of_driver(csi_node: CsiNode | None, driver: str) -> NodeDriver | None:
    drivers = () if csi_node is None else csi_node.spec.drivers or ()
    return next((each for each in drivers if each.name == driver), None)


_contract: tuple[type[SegmentSource], ...] = (FixedSegment, NodeSegments)
