"""Every text with a command that can lose data or end a running pod: loss, precondition, command.

The only module that spells such commands; `tests/explain/remedies/test_data_loss.py` lists them.
"""

from collections.abc import Sequence
from typing import Final

from mooring.api import well_known
from mooring.api.views.storage import Volume

#: How every text begins that this module makes.
BEGINS: Final = "loses "

_NOT_NEEDED: Final = "if that data is backed up or not needed"
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


def warned(loss: str, precondition: str, command: str) -> str:
    """The loss, then the precondition, then the command."""
    return f"{BEGINS}{loss}; only {precondition}: {command}"


def is_warned(text: str) -> bool:
    return text.lower().startswith(BEGINS)


def delete_claim(key: str, volume: Volume | None = None, pods: Sequence[str] = (), *, unused: bool = False) -> str:
    """Delete a claim, and the pods that keep it, so that both can be made again; `unused` says that no pod has ever
    had its volume."""
    namespace, _, name = key.partition("/")
    names = " ".join(pod.partition("/")[2] for pod in pods)
    command = f"kubectl -n {namespace} delete pvc {name}"
    if names:
        command = f"{command} --wait=false && kubectl -n {namespace} delete pod {names}"
    if unused:
        return warned(f"{key} with its volume, which no pod has used yet", "if no pod has started since", command)
    return warned(claim_loss(key, volume), _NOT_NEEDED, command)


def claim_loss(key: str, volume: Volume | None) -> str:
    if volume is None:
        return f"all data of {key}"
    if volume.spec.persistent_volume_reclaim_policy == "Delete":
        return f"all data on {volume.name}, which is deleted with {key} (reclaim policy Delete)"
    policy = volume.spec.persistent_volume_reclaim_policy
    kept = f"the data stays there (reclaim policy {policy})"
    return f"the binding of {key} to {volume.name}: {kept}, and the next {key} gets another volume"


def delete_volume(volume: Volume) -> str:
    """Delete a PersistentVolume; what that costs depends on who has to delete the storage."""
    name, policy = volume.name, volume.spec.persistent_volume_reclaim_policy
    command = f"kubectl delete pv {name}"
    guards = [each for each in volume.metadata.finalizers if each != well_known.PV_PROTECTION]
    if well_known.EXTERNAL_PROVISIONER in guards and policy == "Delete":
        loss = f"all data on {name}: its driver deletes the storage, and the object stays until it has"
        return warned(loss, _NOT_NEEDED, command)
    kept = f"; finalizer {', '.join(guards)} keeps the object until its owner removes it" if guards else ""
    loss = f"the only record of where the storage of {name} is; the storage itself stays and must be reclaimed manually"
    return warned(loss, "if no claim needs it again", f"{command}{kept}")


def clear_claim_ref(volume: str) -> str:
    """Make a volume free for any claim."""
    patch = """'[{"op":"remove","path":"/spec/claimRef"}]'"""
    loss = f"the data on {volume}: the next claim that matches gets the volume, can read the data and overwrites it"
    return warned(loss, _NOT_NEEDED, f"kubectl patch pv {volume} --type json -p {patch}")


def clear_claim_uid(volume: str, claim: str) -> str:
    """Give a Released volume, with its data, to a new claim of the old name."""
    patch = """'[{"op":"remove","path":"/spec/claimRef/uid"}]'"""
    loss = f"no data, but any user who may create claim {claim} gets what is on {volume}"
    command = f"kubectl patch pv {volume} --type json -p {patch}, then create the claim with volumeName {volume}"
    return warned(loss, "if the new claim may have that data", command)


def remove_finalizers(volume: str) -> str:
    """Let a PersistentVolume object go while its storage stays."""
    patch = """'{"metadata":{"finalizers":null}}'"""
    loss = f"the guard that keeps {volume} until its storage is deleted; the storage stays"
    precondition = "if its claim still needs that storage: the provisioner then recreates the object"
    return warned(loss, precondition, f"kubectl patch pv {volume} --type=merge -p {patch}")


def delete_pods(pods: Sequence[str]) -> str:
    """Delete pods that are in another pod's way."""
    commands = " && ".join(f"kubectl -n {key.partition('/')[0]} delete pod {key.partition('/')[2]}" for key in pods)
    them = ", ".join(pods)
    return warned(f"{them}: its containers are stopped", "if it may be interrupted", commands)


def reschedule(pod: str) -> str:
    """Delete a pod that has a node, so that its owner makes another."""
    namespace, _, name = pod.partition("/")
    precondition = "if its controller recreates it"
    return warned(f"{pod}: its containers are stopped", precondition, f"kubectl -n {namespace} delete pod {name}")


def give_up_node(node: str) -> str:
    """Have the volumes of a node that does not answer detached, so that its pods can run elsewhere."""
    loss = f"data if {node} still runs: its pods and their successors would then write to the same volumes"
    command = f"kubectl taint node {node} {OUT_OF_SERVICE_TAINT}, or kubectl delete node {node}"
    return warned(loss, f"after you have confirmed that {node} is powered off", command)


# The same without names, for the table of messages.
_CLAIM_LOSS: Final = "the data on the claim's volume, unless its reclaim policy is Retain"
ANY_CLAIM: Final = warned(_CLAIM_LOSS, _NOT_NEEDED, "delete the claim and create it again")
UNUSED_CLAIMS: Final = warned(_CLAIM_LOSS, _NOT_NEEDED, "delete the claim")
RESTORE_CLAIM: Final = warned(
    _CLAIM_LOSS, "if the data can be restored or is not needed", "delete the claim and restore the data into a new one"
)
ANY_POD: Final = warned("the running pod", "if it may be interrupted", "delete the other pod")
THIS_POD: Final = warned("the pod", "if its controller or you recreate it", "delete the pod")
THESE_PODS: Final = warned("these pods", "if they may be interrupted", "delete these pods")
ANY_NODE: Final = warned(
    "data if the node still runs and writes to the volume",
    "after you have confirmed that the node is powered off",
    f"taint it with {OUT_OF_SERVICE_TAINT} or delete it, so that the volume is detached",
)
ANY_CLAIM_REF: Final = warned(
    "the data on a Released volume, which the next claim overwrites", _NOT_NEEDED, "remove its spec.claimRef"
)
DRIVER_VOLUME: Final = warned(
    "the data on that volume", "if no other claim uses it", "delete the volume of that name at the driver"
)


def sentence(text: str) -> str:
    """As a sentence of its own."""
    return f"{text[0].upper()}{text[1:]}."
