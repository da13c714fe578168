"""What a node says about a pod that was given to it, and whoever attaches volumes to nodes."""

from typing import Final

from mooring.explain import data_loss
from mooring.explain.messages.contract import Message

_REJECTED: Final = "kubelet, in the status of a pod that failed"
_MOUNTING: Final = "kubelet, in the event FailedMount of a pod"
_FINAL: Final = "The pod has failed for good: its owner makes another, which is scheduled anew."

KUBELET: Final = (
    Message(
        text="Node didn't have enough resource: <resource>, requested: <requested>, used: <used>, capacity: <capacity>",
        older=("Node didn't have enough resource: <resource>", "OutOfcpu", "OutOfmemory", "OutOfpods"),
        said_by=_REJECTED,
        means="When the pod arrived the node had less left than the scheduler believed: another scheduler, or somebody "
        f"who set nodeName, had placed pods there at the same time. {_FINAL}",
        now="Let one scheduler alone look after a node's pods. A failed pod without an owner stays until removed.",
    ),
    Message(
        text="Predicate <predicate> failed: <why>",
        said_by=_REJECTED,
        means=f"The node will not have the pod that was given to it: its labels, ports or taints say no. {_FINAL}",
        now="Do not set nodeName by hand; see what changed on the node since the pod was scheduled.",
    ),
    Message(
        text='MountVolume.NodeAffinity check failed for volume "<volume>" : no matching NodeSelectorTerms',
        older=("Storage node affinity check failed for volume <volume> : no matching NodeSelectorTerms",),
        said_by=_MOUNTING,
        means="The pod is on a node from which its volume cannot be used: it was put there past the scheduler, or "
        "the node's labels changed.",
        now=f"Do not set nodeName by hand. To have it scheduled again: {data_loss.THIS_POD}.",
    ),
    Message(
        text="error processing PVC <claim>: PVC is not bound",
        older=("PVC is not bound",),
        said_by=_MOUNTING,
        means="The pod has a node and its claim has no volume: the pod's nodeName was set past the scheduler, and "
        "a class that waits for its first consumer then never gets a node chosen.",
        now=f"Create the pod without nodeName; use a nodeSelector instead. {data_loss.sentence(data_loss.THIS_POD)}",
    ),
    Message(
        text="PVC <claim> is being rolled back",
        said_by="Mooring's node agent, in the event FailedMount of a pod",
        means="The claim's volume is being taken away, unused, so that the pod can be placed elsewhere.",
        now="Wait.",
    ),
    Message(
        text='Multi-Attach error for volume "<volume>" <why>',
        said_by="attach/detach controller, in the event FailedAttachVolume of a pod",
        means="The volume is still attached to another node and cannot be attached to two.",
        now=f"Wait until the other pod is gone. If its node does not answer: {data_loss.ANY_NODE}.",
    ),
    Message(
        text='AttachVolume.Attach failed for volume "<volume>" : <why>',
        said_by="attach/detach controller, in the event FailedAttachVolume of a pod",
        means="The driver could not attach the volume to the node.",
        now="See what follows and the driver's own log. If it is about a limit, the node takes fewer volumes than "
        "its CSINode says.",
    ),
)
