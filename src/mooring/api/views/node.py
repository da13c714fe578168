"""Nodes, as the scheduler and the node agent read them."""

import msgspec

from mooring.api.views.meta import Amount, ApiObject, Condition, View


class Taint(View, frozen=True, gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""
    #: Only taints that end pods carry it.
    time_added: str | None = None


class NodeSpec(View, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeImage(View, frozen=True, gc=False):
    """An image that is on the node, under all its names."""

    #: Kubernetes may write null for an image that has lost its names.
    names: tuple[str, ...] | None = ()
    size_bytes: int = 0


class NodeStatus(View, frozen=True, gc=False):
    capacity: dict[str, Amount] = {}
    allocatable: dict[str, Amount] = {}
    conditions: tuple[Condition, ...] = ()
    #: Volumes the node has not let go of yet; they must not be detached.
    volumes_in_use: tuple[str, ...] = ()
    images: tuple[NodeImage, ...] = ()
    #: What the node can do that not every node can.
    declared_features: tuple[str, ...] = ()


class Node(ApiObject, frozen=True, gc=False):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
