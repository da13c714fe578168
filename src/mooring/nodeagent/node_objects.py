"""Node, CSINode and Lease objects of simulated nodes, as a kubelet writes them. Pure.

The provider id marks simulated nodes; others are ignored. Registration keeps CSINode entries of other drivers, and
reports a label that contradicts a driver's topology as an error.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from mooring.api import pod_requirements, well_known
from mooring.api.documents import Body
from mooring.api.kinds import NODE
from mooring.api.views.core import Node, NodeStatus
from mooring.api.views.storage import CsiNode, NodeDriver
from mooring.csi.contract import NodeInfo


def csi_node_drivers(csi_node: CsiNode, infos: Mapping[str, NodeInfo]) -> list[Body] | None:
    """All desired entries of the CSINode; None if it has them."""
    known = {driver.name: _body(driver) for driver in csi_node.spec.drivers or ()}
    desired = known | {name: csi_node_driver(name, info) for name, info in infos.items()}
    return None if desired == known else list(desired.values())


def csi_node_driver(driver: str, info: NodeInfo) -> Body:
    return _driver_body(
        driver, info.node_id, sorted(_segments(info)), info.max_volumes if info.max_volumes > 0 else None
    )


def _body(driver: NodeDriver) -> Body:
    count = driver.allocatable.count if driver.allocatable is not None else None
    return _driver_body(driver.name, driver.node_id, list(driver.topology_keys), count)


def _driver_body(name: str, node_id: str, topology_keys: list[str], count: int | None) -> Body:
    body: Body = {"name": name, "nodeID": node_id}
    if topology_keys:
        body["topologyKeys"] = topology_keys
    if count is not None:
        body["allocatable"] = {"count": count}
    return body


def _segments(info: NodeInfo) -> Mapping[str, str]:
    return info.accessible_from.segments if info.accessible_from is not None else {}


def missing_topology_labels(node: Node, infos: Mapping[str, NodeInfo]) -> dict[str, str]:
    """Topology labels that the drivers report and the node lacks."""
    return {key: value for key, value in reported_topology(infos).items() if key not in node.metadata.labels}


def reported_topology(infos: Mapping[str, NodeInfo]) -> dict[str, str]:
    return {key: value for info in infos.values() for key, value in _segments(info).items()}


def topology_contradictions(node: Node, infos: Mapping[str, NodeInfo]) -> list[str]:
    """Event texts for labels that differ from the topology of a driver."""
    return [
        f"detected topology value collision: driver {name} reported {key!r}:{value!r} but existing label is "
        f"{key!r}:{node.metadata.labels[key]!r}"
        for name, info in infos.items()
        for key, value in _segments(info).items()
        if node.metadata.labels.get(key, value) != value
    ]


#: Of node Leases.
NAMESPACE: Final = "kube-node-lease"
#: Seconds; the kubelet's nodeLeaseDurationSeconds, of which it renews after a quarter.
LEASE_SECONDS: Final = 40
RENEWALS: Final = 4
#: Limit for one process: 250 nodes at the kubelet's rate. A renewal costs about 0.4 ms with all watchers, so that this
#: is a hundredth of a core. With more nodes the Lease duration grows.
RENEWALS_PER_SECOND: Final = 25.0
#: First renewals, when many nodes are registered at once: those of 5,000 nodes in ten seconds, far less than the grace
#: period of a node that has a status and no Lease.
FIRST_RENEWALS_PER_SECOND: Final = 500.0
#: Seconds between two reports of a status that stays the same; the kubelet's nodeStatusReportFrequency.
REPORT_SECONDS: Final = 300.0

#: Annotation of a simulated Node; `off` simulates a machine without power.
POWER: Final = "mooring.dev/power"


def is_powered(node: Node) -> bool:
    return node.metadata.annotations.get(POWER) != "off"


def lease_seconds(nodes: int, *, pace: float) -> int:
    """Lease duration for a process with this many nodes and at most `pace` renewals a second."""
    return max(LEASE_SECONDS, math.ceil(nodes * RENEWALS / pace))


def lease_body(node: Node, *, duration: int, now: str) -> dict[str, Any]:
    spec = {"holderIdentity": node.name, "leaseDurationSeconds": duration, "renewTime": now}
    return {"metadata": _owned_by(node), "spec": spec}


PROVIDER: Final = "mooring://"
#: Of templates without a capacity.
DEFAULT_CAPACITY: Final[Mapping[str, str]] = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
KUBELET_VERSION: Final = "v1.37.1+mooring"


class NodeTemplate(msgspec.Struct, frozen=True):
    name: str
    zone: str = ""
    region: str = ""
    labels: dict[str, str] = {}
    capacity: dict[str, str] = msgspec.field(default_factory=lambda: dict(DEFAULT_CAPACITY))


def is_simulated(node: Node) -> bool:
    return node.spec.provider_id.startswith(PROVIDER)


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def registration(template: NodeTemplate, infos: Mapping[str, NodeInfo] = MappingProxyType({})) -> dict[str, Any]:
    """The Node to create, without its status; `infos` of its drivers add the labels of their topology."""
    labels = {well_known.HOSTNAME: template.name, well_known.OS: "linux", well_known.ARCH: "amd64"}
    if template.zone:
        labels[well_known.ZONE] = template.zone
    if template.region:
        labels[well_known.REGION] = template.region
    return {
        "metadata": {"name": template.name, "labels": reported_topology(infos) | labels | template.labels},
        "spec": {"providerID": f"{PROVIDER}{template.name}"},
    }


def csi_node(node: Node, infos: Mapping[str, NodeInfo]) -> dict[str, Any]:
    drivers = [csi_node_driver(name, info) for name, info in infos.items()]
    return {"metadata": _owned_by(node), "spec": {"drivers": drivers}}


def _owned_by(node: Node) -> dict[str, Any]:
    """Metadata of an object with the node's name."""
    owner = {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": node.name, "uid": node.uid}
    return {"name": node.name, "ownerReferences": [owner]}


def ready_status(name: str, before: NodeStatus, capacity: Mapping[str, str], *, now: str) -> dict[str, Any]:
    """The status of a healthy node; capacity that it already has is kept."""
    offered = before.capacity or capacity
    return {
        "capacity": dict(offered),
        "allocatable": dict(before.allocatable or offered),
        "conditions": [
            _condition(before, "MemoryPressure", "False", "KubeletHasSufficientMemory", now),
            _condition(before, "DiskPressure", "False", "KubeletHasNoDiskPressure", now),
            _condition(before, "PIDPressure", "False", "KubeletHasSufficientPID", now),
            _condition(before, "Ready", "True", "KubeletReady", now),
        ],
        "nodeInfo": {
            "kubeletVersion": KUBELET_VERSION,
            "operatingSystem": "linux",
            "architecture": "amd64",
            "osImage": "Mooring simulated node",
            "containerRuntimeVersion": "none://0",
            "kernelVersion": "none",
        },
        "addresses": [{"type": "Hostname", "address": name}],
        # No container is run, so simulated nodes support all features.
        "declaredFeatures": list(pod_requirements.ALL),
    }


def _condition(before: NodeStatus, kind: str, status: str, reason: str, now: str) -> dict[str, str]:
    known = next((c for c in before.conditions if c.type == kind and c.status == status), None)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "reported by Mooring's node agent",
        "lastHeartbeatTime": now,
        "lastTransitionTime": (known.last_transition_time if known is not None else None) or now,
    }
