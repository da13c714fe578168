"""Who follows a pod that has to go: whatever its controller makes, a copy of it, or nobody. Pure.

Controllers of the simulation make their pods themselves. One that takes no part in it (a Job, an operator's own kind,
a ReplicaSet nobody listed) would make one like the last; nobody makes a pod anew that has no controller.
"""

from typing import Final

from mooring.api.kinds import DAEMON_SET, POD, REPLICA_SET, STATEFUL_SET, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.sim.whatif.inventory import Body, Inventory

#: The annotation of pods that a kubelet runs from files of its own: they are where their node is.
MIRROR: Final = "kubernetes.io/config.mirror"

#: Controllers of pods that take part.
SIMULATED: Final[dict[str, Kind[ApiObject]]] = {kind.kind: kind for kind in (STATEFUL_SET, REPLICA_SET, DAEMON_SET)}


def belongs_to_node(pod: Pod) -> bool:
    """Whether a pod goes with its node rather than leaving it."""
    daemon = pod.controller is not None and pod.controller.kind == DAEMON_SET.kind
    return daemon or MIRROR in pod.metadata.annotations


def is_simulated(pod: Pod, inventory: Inventory) -> bool:
    """Whether the pod's controller is here to make another."""
    owner = pod.controller
    kind = None if owner is None else SIMULATED.get(owner.kind)
    if owner is None or kind is None:
        return False
    found = inventory.get(kind, f"{pod.namespace}/{owner.name}")
    return found is not None and found.uid == owner.uid


def successor(pod: Pod, inventory: Inventory) -> Body | None:
    """The copy of a pod that is to follow it, None where its controller makes one or nobody does."""
    if pod.finished or pod.controller is None or belongs_to_node(pod) or is_simulated(pod, inventory):
        return None
    body = inventory.body(POD, pod.key)
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    metadata = {field: body["metadata"][field] for field in kept if field in body["metadata"]}
    spec = {field: value for field, value in body["spec"].items() if field != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
