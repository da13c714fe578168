"""Nodes as rows of data: what a node is called, where it stands and what it offers.

A row becomes a Node object that a kubelet could have registered. The provider id marks the nodes this agent plays;
others are left alone.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api import keys, node_features
from mooring.api.kinds import NODE
from mooring.api.views.node import Node

PROVIDER: Final = "mooring://"
#: A row without figures is a middling machine.
DEFAULT_CAPACITY: Final[Mapping[str, str]] = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
KUBELET_VERSION: Final = "v1.36.4+mooring"


class NodeRow(msgspec.Struct, frozen=True):
    name: str
    zone: str = ""
    region: str = ""
    labels: dict[str, str] = {}
    capacity: dict[str, str] = msgspec.field(default_factory=lambda: dict(DEFAULT_CAPACITY))


def played_here(node: Node) -> bool:
    return node.spec.provider_id.startswith(PROVIDER)


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def registration(row: NodeRow) -> dict[str, Any]:
    """The Node object as it is created; its status is written separately, as a kubelet does."""
    labels = {keys.HOSTNAME: row.name, keys.OS: "linux", keys.ARCH: "amd64"}
    if row.zone:
        labels[keys.ZONE] = row.zone
    if row.region:
        labels[keys.REGION] = row.region
    return {
        "metadata": {"name": row.name, "labels": labels | row.labels},
        "spec": {"providerID": f"{PROVIDER}{row.name}"},
    }


def csi_node(node: Node) -> dict[str, Any]:
    """The CSINode of a node; a kubelet makes it before any driver has come."""
    owner = {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": node.name, "uid": node.uid}
    return {"metadata": {"name": node.name, "ownerReferences": [owner]}, "spec": {"drivers": []}}


def ready_status(node: Node, capacity: Mapping[str, str], *, now: str) -> dict[str, Any]:
    """The status of a healthy node; what the node already reports of its capacity is kept."""
    offered = node.status.capacity or capacity
    return {
        "capacity": dict(offered),
        "allocatable": dict(node.status.allocatable or offered),
        "conditions": [
            _condition(node, "MemoryPressure", "False", "KubeletHasSufficientMemory", now),
            _condition(node, "DiskPressure", "False", "KubeletHasNoDiskPressure", now),
            _condition(node, "PIDPressure", "False", "KubeletHasSufficientPID", now),
            _condition(node, "Ready", "True", "KubeletReady", now),
        ],
        "nodeInfo": {
            "kubeletVersion": KUBELET_VERSION,
            "operatingSystem": "linux",
            "architecture": "amd64",
            "osImage": "Mooring simulated node",
            "containerRuntimeVersion": "none://0",
            "kernelVersion": "none",
        },
        "addresses": [{"type": "Hostname", "address": node.name}],
        # Nothing is executed, so that nothing is beyond these nodes.
        "declaredFeatures": list(node_features.ALL),
    }


def _condition(node: Node, kind: str, status: str, reason: str, now: str) -> dict[str, str]:
    before = next((c for c in node.status.conditions if c.type == kind and c.status == status), None)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "reported by Mooring's node agent",
        "lastHeartbeatTime": now,
        "lastTransitionTime": (before.last_transition_time if before is not None else None) or now,
    }
