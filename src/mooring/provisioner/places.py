"""Where the nodes are, as `accessibility` asks: from the cluster's objects, or from the one node a driver runs on."""

from collections.abc import Collection

from mooring.api.kinds import CSI_NODE, NODE
from mooring.api.views.meta import Meta
from mooring.api.views.node import Node
from mooring.api.views.storage import CsiNode, CsiNodeSpec, NodeDriver
from mooring.client.informer import Informers
from mooring.provisioner.accessibility import Places
from mooring.provisioner.settings import DriverFacts


class KnownPlaces:
    """All nodes, as informers know them."""

    def __init__(self, informers: Informers) -> None:
        self._nodes = informers.of(NODE)
        self._csi_nodes = informers.of(CSI_NODE)

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def nodes(self) -> Collection[Node]:
        return self._nodes.items()

    def csi_node(self, name: str) -> CsiNode | None:
        return self._csi_nodes.get(name)

    def csi_nodes(self) -> Collection[CsiNode]:
        return self._csi_nodes.items()


class OwnPlace:
    """The provisioner's own node alone, as the driver describes it: no node is watched."""

    def __init__(self, node: str, facts: DriverFacts) -> None:
        meta = Meta(name=node, labels=facts.segments)
        drivers = (NodeDriver(name=facts.name, listed_topology_keys=tuple(sorted(facts.segments))),)
        self._node = Node(metadata=meta)
        self._csi_node = CsiNode(metadata=meta, spec=CsiNodeSpec(drivers=drivers))

    def node(self, name: str) -> Node | None:
        return self._node if name == self._node.name else None

    def nodes(self) -> tuple[Node, ...]:
        return (self._node,)

    def csi_node(self, name: str) -> CsiNode | None:
        return self._csi_node if name == self._csi_node.name else None

    def csi_nodes(self) -> tuple[CsiNode, ...]:
        return (self._csi_node,)


_contract: tuple[type[Places], ...] = (KnownPlaces, OwnPlace)
