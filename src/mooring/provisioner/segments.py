"""The parts of a cluster that a driver's storage is told apart by: for each its room is published on its own.

Where segments come from is open: `FixedSegment` is what a driver's own node says, `NodeSegments` the union over all
nodes, and anything else that fulfils `SegmentSource` will do, such as an inventory of pools outside Kubernetes.
"""

from collections import Counter
from collections.abc import Callable
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
    """The union over the nodes that have the driver and carry all its labels; a node that still lacks one is left out.
    A driver without topology keys has one segment, the whole cluster.

    Kept current node by node: at the start of a cluster all nodes change, and each change is asked about.
    """

    def __init__(self, informers: Informers, driver: str) -> None:
        self._nodes = informers.of(NODE)
        self._csi_nodes = informers.of(CSI_NODE)
        self._driver = driver
        self._tells: list[Callable[[], None]] = []
        self._places: dict[str, Segment] = {}
        #: How many nodes each segment has.
        self._counts: Counter[Segment] = Counter()
        self._nodes.on_change(self._node_changed)
        self._csi_nodes.on_change(self._csi_node_changed)

    def segments(self) -> frozenset[Segment]:
        return frozenset(self._counts)

    def on_change(self, tell: Callable[[], None]) -> None:
        self._tells.append(tell)

    async def wait_synced(self) -> None:
        await self._nodes.synced.wait()
        await self._csi_nodes.synced.wait()

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        # Nodes report every few seconds; only their labels matter here.
        if before is None or after is None or before.metadata.labels != after.metadata.labels:
            self._look_at((after or before or Node()).name)

    def _csi_node_changed(self, before: CsiNode | None, after: CsiNode | None) -> None:
        if _of_driver(before, self._driver) != _of_driver(after, self._driver):
            self._look_at((after or before or CsiNode()).name)

    def _look_at(self, name: str) -> None:
        before = self._places.pop(name, None)
        after = segment_of(self._driver, self._csi_nodes.get(name), self._nodes.get(name))
        if after is not None:
            self._places[name] = after
            self._counts[after] += 1
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if before != after:
            for tell in self._tells:
                tell()


def segment_of(driver: str, csi_node: CsiNode | None, node: Node | None) -> Segment | None:
    """Where a node is, as the driver tells places apart; None where it has no driver, or lacks one of its labels."""
    listed = _of_driver(csi_node, driver)
    return None if listed is None or node is None else place_of(node.metadata.labels, listed.topology_keys)


def _of_driver(csi_node: CsiNode | None, driver: str) -> NodeDriver | None:
    drivers = () if csi_node is None else csi_node.spec.drivers or ()
    return next((each for each in drivers if each.name == driver), None)


_contract: tuple[type[SegmentSource], ...] = (FixedSegment, NodeSegments)
