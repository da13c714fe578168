"""Nodes that are listed and do not report: their pods do not run and their volumes cannot be used.

A Node object outlives its machine until it is deleted. The node controller sets Ready to Unknown once the kubelet has
been silent for the grace period; a kubelet that itself says False for longer than that runs no pods either. Pure.
"""

from collections.abc import Mapping
from typing import Final

from mooring.api import keys
from mooring.api.kinds import NODE
from mooring.api.timestamps import from_time
from mooring.api.views.node import Node, Taint
from mooring.explain.cluster_objects import ClusterObjects
from mooring.workloads.node_health import GRACE_SECONDS

#: Taints that say that a node is not well. To tolerate or remove one changes nothing about the node.
HEALTH_TAINTS: Final = frozenset(
    {
        keys.NOT_READY,
        keys.UNREACHABLE,
        "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)


def lost_nodes(objects: ClusterObjects) -> Mapping[str, str]:
    """The nodes that are lost, by name, with since when ("" where no object says)."""
    found = ((node.name, lost_since(node, objects.moment)) for node in objects.of(NODE))
    return {name: since for name, since in found if since is not None}


def lost_since(node: Node, now: float | None) -> str | None:
    """Since when a node is lost; None for one that is not."""
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    if ready is None or ready.status == "True":
        return None
    since = ready.last_transition_time or ""
    if ready.status == "Unknown":
        return since
    try:
        late = now is not None and bool(since) and now - from_time(since) > GRACE_SECONDS
    except ValueError:
        late = False
    return since if late else None


def told_since(since: str) -> str:
    return f"since {since}" if since else "for an unknown time"


def is_health_taint(taint: Taint) -> bool:
    return taint.key in HEALTH_TAINTS
