"""How nodes show that they are alive: a Lease each, renewed often, and their status, reported rarely.

Pure. Figures are the kubelet's. A process that plays very many nodes renews less often and says so in the Lease, whose
duration others go by: 100 renewals a second are what an embedded API server takes without noticing.
"""

from typing import Any, Final

from mooring.api.kinds import NODE
from mooring.api.views.node import Node

#: Where the Leases of nodes are.
NAMESPACE: Final = "kube-node-lease"
#: Seconds; the kubelet's nodeLeaseDurationSeconds, of which it renews after a quarter.
LEASE_SECONDS: Final = 40
RENEWALS: Final = 4
#: Renewals a second that one process makes at most: a thousand nodes at the kubelet's pace.
RENEWALS_PER_SECOND: Final = 100
#: Seconds between two reports of a status that stays the same; the kubelet's nodeStatusReportFrequency.
REPORT_SECONDS: Final = 300.0

#: On a Node that this agent plays, with the value `off`: play it as a machine without power.
POWER: Final = "mooring.dev/power"


def powered(node: Node) -> bool:
    return node.metadata.annotations.get(POWER) != "off"


def lease_seconds(nodes: int) -> int:
    """How long a renewal lasts where one process plays so many nodes."""
    return max(LEASE_SECONDS, -(-nodes * RENEWALS // RENEWALS_PER_SECOND))


def lease(node: Node, *, duration: int, now: str) -> dict[str, Any]:
    """The Lease of a node as it is created."""
    owner = {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": node.name, "uid": node.uid}
    return {
        "metadata": {"name": node.name, "ownerReferences": [owner]},
        "spec": renewal(node.name, duration=duration, now=now),
    }


def renewal(node: str, *, duration: int, now: str) -> dict[str, Any]:
    """The `spec` of a Lease that was just renewed."""
    return {"holderIdentity": node, "leaseDurationSeconds": duration, "renewTime": now}
