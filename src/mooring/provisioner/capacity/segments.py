"""Topology segments whose capacity is published, and the owner reference of the published objects.

A SegmentSource is chosen by `--capacity-segment-source`; `segment_file` has one more.
"""

import enum
from collections.abc import Callable
from typing import Protocol

from mooring.api.errors import ApiError
from mooring.api.kinds import BY_KIND, CSI_NODE, NODE, POD
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject, OwnerReference
from mooring.api.views.storage import CsiNode, NodeDriver
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.multimap import Tally
from mooring.provisioner.provision.topology import Term, segment_from_labels, term

#: Objects without an owner.
NO_OWNER_LEVEL = -1


class OwnerNotFound(Exception):
    """The requested owner does not exist; the text names it and says what to do."""


async def owner_of(client: Client, *, pod: str, namespace: str, level: int) -> OwnerReference | None:
    """Owner that takes the published objects along when it is deleted: the pod at level 0, its controller at 1, the
    controller's controller at 2. Raises OwnerNotFound and Unreachable."""
    if level <= NO_OWNER_LEVEL:
        return None
    try:
        item: ApiObject = await client.get(POD, pod, namespace=namespace)
    except ApiError as error:
        raise OwnerNotFound(f"cannot look up pod {namespace}/{pod}: {error.message}") from error
    reference = OwnerReference(
        api_version=POD.api_version, kind=POD.kind, name=item.name, uid=item.uid, controller=True
    )
    for step in range(1, level + 1):
        above = item.controller
        if above is None:
            raise OwnerNotFound(
                f"{reference.kind} {namespace}/{reference.name} has no controller, so no owner exists at level "
                f"{level}; use --capacity-ownerref-level={step - 1}"
            )
        reference = OwnerReference(
            api_version=above.api_version, kind=above.kind, name=above.name, uid=above.uid, controller=True
        )
        if step < level:
            item = await _look_up(client, reference, namespace)
    return reference


async def _look_up(client: Client, reference: OwnerReference, namespace: str) -> ApiObject:
    kind = BY_KIND.get((reference.api_version, reference.kind))
    if kind is None:
        raise OwnerNotFound(f"owners of a {reference.kind} ({reference.api_version}) cannot be looked up")
    try:
        return await client.get(kind, reference.name, namespace=namespace)
    except ApiError as error:
        raise OwnerNotFound(f"cannot look up {reference.kind} {namespace}/{reference.name}: {error.message}") from error


Segment = Term
"""Labels of the nodes that reach the storage; empty if all nodes do."""


class SegmentSourceName(enum.StrEnum):
    """Values of `--capacity-segment-source`."""

    #: CSINodes and node labels.
    TOPOLOGY = "topology"
    FILE = "file"
    #: The accessible topology that the driver's NodeGetInfo returns.
    DRIVER = "driver"


class SegmentSource(Protocol):
    def segments(self) -> frozenset[Segment]: ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever `segments` may have changed."""

    async def wait_synced(self) -> None:
        """Until `segments` is complete for the first time."""


class FixedSegment:
    """One segment: that of a node, for publishers that run on every node, or the one that a driver returns."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._segment = term(labels)

    def segments(self) -> frozenset[Segment]:
        return frozenset({self._segment})

    def on_change(self, listener: Callable[[], None]) -> None:
        """It never changes."""

    async def wait_synced(self) -> None:
        """It is known from the start."""


class NodeSegments:
    """Segments of all nodes whose CSINode lists the driver and whose labels have all its topology keys. A driver
    without topology keys has one segment, the whole cluster.

    Updated node by node: when a cluster starts, all nodes change and `segments` is read after each change.
    """

    def __init__(self, informers: Informers, driver: str) -> None:
        self._nodes = informers.of(NODE)
        self._csi_nodes = informers.of(CSI_NODE)
        self._driver = driver
        self._listeners: list[Callable[[], None]] = []
        self._segment_of: dict[str, Segment] = {}
        #: Number of nodes of each segment.
        self._counts: Tally[Segment] = Tally()
        self._nodes.on_change(self._node_changed)
        self._csi_nodes.on_change(self._csi_node_changed)

    def segments(self) -> frozenset[Segment]:
        return frozenset(self._counts)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def wait_synced(self) -> None:
        await self._nodes.synced.wait()
        await self._csi_nodes.synced.wait()

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        # Node status changes every few seconds; only the labels matter here.
        if before is None or after is None or before.metadata.labels != after.metadata.labels:
            self._update((after or before or Node()).name)

    def _csi_node_changed(self, before: CsiNode | None, after: CsiNode | None) -> None:
        if _of_driver(before, self._driver) != _of_driver(after, self._driver):
            self._update((after or before or CsiNode()).name)

    def _update(self, name: str) -> None:
        before = self._segment_of.pop(name, None)
        after = segment_of(self._driver, self._csi_nodes.get(name), self._nodes.get(name))
        if after is not None:
            self._segment_of[name] = after
            self._counts.add(after, 1)
        if before is not None:
            self._counts.add(before, -1)
        if before != after:
            for listener in self._listeners:
                listener()


def segment_of(driver: str, csi_node: CsiNode | None, node: Node | None) -> Segment | None:
    """The node's segment for the driver; None if the CSINode does not list the driver or a label is missing."""
    listed = _of_driver(csi_node, driver)
    return None if listed is None or node is None else segment_from_labels(node.metadata.labels, listed.topology_keys)


def _of_driver(csi_node: CsiNode | None, driver: str) -> NodeDriver | None:
    drivers = () if csi_node is None else csi_node.spec.drivers or ()
    return next((each for each in drivers if each.name == driver), None)
