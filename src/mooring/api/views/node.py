"""Nodes, as the scheduler and the node agent read them."""

import msgspec

from mooring.api.views.meta import Amount, ApiObject, Condition, View


class Taint(View, frozen=True, gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(View, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeStatus(View, frozen=True, gc=False):
    capacity: dict[str, Amount] = {}
    allocatable: dict[str, Amount] = {}
    conditions: tuple[Condition, ...] = ()


class Node(ApiObject, frozen=True, gc=False):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
