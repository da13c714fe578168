"""What the scheduler says when a node was chosen and the volumes could not be bound there after all."""

from typing import Final

from mooring.explain import data_loss
from mooring.explain.messages.contract import Message

_BINDER: Final = "scheduler, in the event FailedScheduling of a pod, after it had chosen a node"
_AGAIN: Final = "The pod is tried again by itself."

BINDING: Final = (
    Message(
        text='running PreBind plugin "VolumeBinding": <problem>',
        older=('error while running "VolumeBinding" prebind plugin for pod <pod>: <problem>',),
        said_by=_BINDER,
        means="A node was chosen, and then a volume could not be bound there; what follows the colon says why.",
        now=f"Look up what follows. {_AGAIN}",
    ),
    Message(
        text='binding rejected: running Bind plugin "DefaultBinder": <problem>',
        older=("Binding rejected: <problem>",),
        said_by=_BINDER,
        means="The API server did not take the pod's node: the pod was deleted, or somebody else gave it one.",
        now=f"Usually nothing. {_AGAIN} See whether two schedulers look after the same pods.",
    ),
    Message(
        text="claim <claim> is not bound, and the pod is about to be bound to node <node>",
        said_by=_BINDER,
        means="A check of the scheduler against its own mistakes: it does not bind a pod before all claims of its plan "
        "are bound. The metric mooring_invariant_violations_total counts it.",
        now=f"{_AGAIN} Report it with the scheduler's log.",
    ),
    Message(
        text="running Reserve plugin: <problem>",
        said_by=_BINDER,
        means="Something changed between the choice and the promise of a volume.",
        now=f"Nothing. {_AGAIN}",
    ),
    Message(
        text="binding volumes: context deadline exceeded",
        older=("binding volumes: timed out waiting for the condition",),
        said_by=_BINDER,
        means="The volumes were not bound within bindTimeoutSeconds (10 minutes unless set): mostly a provisioner "
        "that does not answer or retries an error for ever.",
        now="Explain the claim: it shows what the provisioner answered last, and whether one is there at all.",
    ),
    Message(
        text='binding volumes: node "<node>" takes no more volumes of driver "<driver>"',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod, after it had chosen a node",
        means="The node's limit was reached while the volumes were being bound.",
        now=f"{_AGAIN} If it stays, move pods with volumes away or add nodes.",
    ),
    Message(
        text="binding volumes: <problem>",
        said_by=_BINDER,
        means="A volume could not be bound on the chosen node; what follows the colon says why.",
        now=f"Look up what follows. {_AGAIN}",
    ),
    Message(
        text='pv "<volume>" node affinity doesn\'t match node "<node>": <why>',
        older=('pv "<volume>" node affinity doesn\'t match node "<node>"',),
        said_by=_BINDER,
        means="The volume that was made for the claim cannot be used from the chosen node: the provisioner put it "
        "elsewhere.",
        now="See whether the driver honours the topology it is given. The claim is bound to that volume now: move "
        f"what keeps the pod off the nodes that reach it. {data_loss.sentence(data_loss.ANY_CLAIM)}",
    ),
    Message(
        text='pv "<volume>" zone labels don\'t match node "<node>"',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod, after it had chosen a node",
        means="The bound volume has zone labels that do not match the chosen node.",
        now="Correct the labels on the PersistentVolume, or see that the provisioner makes volumes in the node's zone.",
    ),
    Message(
        text='pv "<volume>" belongs to another claim than "<claim>"',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod, after it had chosen a node",
        means="Somebody else got the volume first.",
        now=f"Nothing. {_AGAIN}",
    ),
    Message(
        text='failed to get node "<node>": node "<node name>" not found',
        said_by=_BINDER,
        means="The chosen node was deleted meanwhile.",
        now=f"{_AGAIN} A volume that was made there may keep it from other nodes; explain the pod then.",
    ),
    Message(
        text='pod does not exist any more: pod "<pod>" not found',
        said_by=_BINDER,
        means="The pod was deleted while its volumes were being bound.",
        now="Nothing.",
    ),
    Message(
        text='failed to check binding: persistentvolume "<volume>" not found',
        said_by=_BINDER,
        means="The chosen volume was deleted meanwhile.",
        now=f"{_AGAIN} If it stays, free volumes have run out: add some.",
    ),
    Message(
        text='failed to check binding: persistentvolumeclaim "<claim>" not found',
        older=('failed to check provisioning pvc: persistentvolumeclaim "<claim>" not found',),
        said_by=_BINDER,
        means="The claim was deleted while its volume was being bound.",
        now="Create the claim again.",
    ),
    Message(
        text='ClaimRef got reset for pv "<volume>"',
        said_by=_BINDER,
        means="Somebody took the reservation off the volume, mostly the PV controller because the claim got "
        "another one.",
        now=f"Nothing. {_AGAIN}",
    ),
    Message(
        text='pv "<volume>" is being deleted',
        said_by=_BINDER,
        means="The chosen volume was deleted meanwhile.",
        now=f"{_AGAIN} If it stays, free volumes have run out: add some.",
    ),
    Message(
        text='selectedNode annotation reset for PVC "<claim>"',
        older=('selectedNode annotation value "<node>" not set to scheduled node',),
        said_by=_BINDER,
        means="The provisioner could not make the volume for the chosen node and gave the choice back: there was "
        "no room, or the node is gone.",
        now=f"{_AGAIN} If every node comes back like this, explain the claim: it shows what the driver answered.",
    ),
    Message(
        text='provisioning failed for PVC "<claim>"',
        said_by=_BINDER,
        means="The provisioner failed and gave the choice of the node back.",
        now=f"Explain the claim: it shows what the driver answered. {_AGAIN}",
    ),
    Message(
        text='persistentvolumeclaim "<claim>" is not bound any more',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod, after it had chosen a node",
        means="The claim lost its volume between the choice and the binding: it was rolled back.",
        now=f"Nothing. {_AGAIN}",
    ),
    Message(
        text="no answer from the API server",
        said_by=_BINDER,
        means="The scheduler could not write within the time it has.",
        now=f"See whether the API server is well. {_AGAIN}",
    ),
    Message(
        text="Preempted by pod <pod> on node <node>",
        older=("Preempted by <pod> on node <node>",),
        said_by="scheduler, in the event Preempted of a pod",
        means="The pod had to make room for one of higher priority.",
        now="Nothing: its owner makes another. Volumes stay with their claims.",
    ),
)
