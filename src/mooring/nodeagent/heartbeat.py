"""How nodes show that they are alive: a Lease each, renewed often, and their status, reported rarely.

Pure. Figures are the kubelet's. A process that plays many nodes renews less often and says so in the Lease, whose
duration others go by: a renewal costs the embedded API server and everybody who watches as much as any other write.
"""

import math
from typing import Any, Final

from mooring.api.kinds import NODE
from mooring.api.views.node import Node

#: Where the Leases of nodes are.
NAMESPACE: Final = "kube-node-lease"
#: Seconds; the kubelet's nodeLeaseDurationSeconds, of which it renews after a quarter.
LEASE_SECONDS: Final = 40
RENEWALS: Final = 4
#: Renewals a second that one process makes at most: 250 nodes at the kubelet's pace. On one core a renewal takes about
#: 0.4 ms with all that follows from it, so that this is a hundredth of it.
RENEWALS_PER_SECOND: Final = 25.0
#: Seconds between two reports of a status that stays the same; the kubelet's nodeStatusReportFrequency.
REPORT_SECONDS: Final = 300.0

#: On a Node that this agent plays, with the value `off`: play it as a machine without power.
POWER: Final = "mooring.dev/power"


def powered(node: Node) -> bool:
    return node.metadata.annotations.get(POWER) != "off"


def lease_seconds(nodes: int, *, pace: float) -> int:
    """How long a renewal lasts where one process plays so many nodes and makes `pace` renewals a second at most."""
    return max(LEASE_SECONDS, math.ceil(nodes * RENEWALS / pace))


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
