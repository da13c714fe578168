"""Messages of the scheduler about claims and volumes, before and after a node was selected."""

from functools import partial
from typing import Final

from mooring.explain.remedies import data_loss
from mooring.explain.results import Message

_binder = partial(Message, source="scheduler, in the event FailedScheduling of a pod, after a node was selected")
_mooring_binder = partial(
    Message, source="Mooring's scheduler, in the event FailedScheduling of a pod, after a node was selected"
)
_AGAIN: Final = "The pod is retried automatically."

BINDING: Final = (
    _binder(
        text='running PreBind plugin "VolumeBinding": <problem>',
        older_texts=('error while running "VolumeBinding" prebind plugin for pod <pod>: <problem>',),
        meaning="A node was selected, but a volume could not be bound there; the reason follows the colon.",
        action=f"Look up what follows. {_AGAIN}",
    ),
    _binder(
        text='binding rejected: running Bind plugin "DefaultBinder": <problem>',
        older_texts=("Binding rejected: <problem>",),
        meaning="The API server rejected the binding: the pod was deleted, or another client bound it.",
        action=f"Usually nothing. {_AGAIN} Check whether two schedulers handle the same pods.",
    ),
    _binder(
        text="claim <claim> is not bound, and the pod is about to be bound to node <node>",
        meaning="Internal check of the scheduler: it does not bind a pod before all claims of its plan are bound. The "
        "metric mooring_invariant_violations_total counts it.",
        action=f"{_AGAIN} Report it with the scheduler's log.",
    ),
    _binder(
        text="running Reserve plugin: <problem>",
        meaning="The cluster changed between node selection and volume reservation.",
        action=f"Nothing. {_AGAIN}",
    ),
    _binder(
        text="binding volumes: context deadline exceeded",
        older_texts=("binding volumes: timed out waiting for the condition",),
        meaning="The volumes were not bound within bindTimeoutSeconds (10 minutes unless set): usually a provisioner "
        "that does not respond or retries an error.",
        action="Explain the claim: it shows the provisioner's last error, and whether the provisioner runs.",
    ),
    _mooring_binder(
        text='binding volumes: node "<node>" takes no more volumes of driver "<driver>"',
        meaning="The node's limit was reached while the volumes were being bound.",
        action=f"{_AGAIN} If it stays, move pods with volumes away or add nodes.",
    ),
    _binder(
        text="binding volumes: <problem>",
        meaning="A volume could not be bound on the chosen node; what follows the colon says why.",
        action=f"Look up what follows. {_AGAIN}",
    ),
    _binder(
        text='pv "<volume>" node affinity doesn\'t match node "<node>": <why>',
        older_texts=('pv "<volume>" node affinity doesn\'t match node "<node>"',),
        meaning="The volume provisioned for the claim is not accessible from the selected node.",
        action="Check that the driver honours the requested topology. The claim is bound to that volume now: make a "
        f"node that can access it schedulable. {data_loss.sentence(data_loss.ANY_CLAIM)}",
    ),
    _mooring_binder(
        text='pv "<volume>" zone labels don\'t match node "<node>"',
        meaning="The bound volume has zone labels that do not match the selected node.",
        action="Correct the labels on the PersistentVolume, or make the provisioner use the node's zone.",
    ),
    _mooring_binder(
        text='pv "<volume>" belongs to another claim than "<claim>"',
        meaning="The volume was bound to another claim first.",
        action=f"Nothing. {_AGAIN}",
    ),
    _binder(
        text='failed to get node "<node>": node "<node name>" not found',
        meaning="The selected node was deleted meanwhile.",
        action=f"{_AGAIN} A volume provisioned there may exclude other nodes; then explain the pod.",
    ),
    _binder(
        text='pod does not exist any more: pod "<pod>" not found',
        meaning="The pod was deleted while its volumes were being bound.",
        action="Nothing.",
    ),
    _binder(
        text='failed to check binding: persistentvolume "<volume>" not found',
        meaning="The selected volume was deleted meanwhile.",
        action=f"{_AGAIN} If the message persists, no volume is available: add volumes.",
    ),
    _binder(
        text='failed to check binding: persistentvolumeclaim "<claim>" not found',
        older_texts=('failed to check provisioning pvc: persistentvolumeclaim "<claim>" not found',),
        meaning="The claim was deleted while its volume was being bound.",
        action="Create the claim again.",
    ),
    _binder(
        text='ClaimRef got reset for pv "<volume>"',
        meaning="The volume's claimRef was cleared, usually by the PV controller because the claim was bound to "
        "another volume.",
        action=f"Nothing. {_AGAIN}",
    ),
    _binder(
        text='pv "<volume>" is being deleted',
        meaning="The selected volume was deleted meanwhile.",
        action=f"{_AGAIN} If the message persists, no volume is available: add volumes.",
    ),
    _binder(
        text='selectedNode annotation reset for PVC "<claim>"',
        older_texts=('selectedNode annotation value "<node>" not set to scheduled node',),
        meaning="The provisioner could not provision the volume for the selected node and cleared the selection: "
        "capacity was missing, or the node was deleted.",
        action=f"{_AGAIN} If this repeats on every node, explain the claim: it shows the driver's error.",
    ),
    _binder(
        text='provisioning failed for PVC "<claim>"',
        meaning="Provisioning failed, and the selected node was cleared.",
        action=f"Explain the claim: it shows the driver's error. {_AGAIN}",
    ),
    _mooring_binder(
        text='persistentvolumeclaim "<claim>" is not bound any more',
        meaning="The claim was rolled back between node selection and binding.",
        action=f"Nothing. {_AGAIN}",
    ),
    _binder(
        text="no answer from the API server",
        meaning="The scheduler's write timed out.",
        action=f"Check that the API server is healthy. {_AGAIN}",
    ),
    Message(
        text="Preempted by pod <pod> on node <node>",
        older_texts=("Preempted by <pod> on node <node>",),
        source="scheduler, in the event Preempted of a pod",
        meaning="The pod was evicted for a pod of higher priority.",
        action="Nothing: its controller creates another. Claims keep their volumes.",
    ),
)


_mooring = partial(Message, source="Mooring's scheduler, in the event FailedScheduling of a pod")
_scheduler = partial(Message, source="scheduler, in the event FailedScheduling of a pod")

VOLUMES: Final = (
    _scheduler(
        text="node(s) didn't match PersistentVolume's node affinity",
        older_texts=(
            "node(s) had volume node affinity conflict",
            "NoVolumeNodeConflict",
        ),
        meaning="A claim of the pod is bound to a volume that is not accessible from these nodes: the volume is in "
        "another zone, or on the disk of another node.",
        action="Check why the pod does not fit on the nodes that can access the volume: they lack resources, are "
        "cordoned or tainted, or no longer exist. Free resources there or add a node in the same topology segment. If "
        "the segment is lost permanently, so is the volume: restore the data into a new claim. Use volumeBindingMode "
        "WaitForFirstConsumer for new claims.",
    ),
    _scheduler(
        text="node(s) didn't find available persistent volumes to bind",
        older_texts=("VolumeBindingNoMatch",),
        meaning="A claim with WaitForFirstConsumer has no matching volume on these nodes, and its class cannot "
        "provision one there.",
        action="For classes without a provisioner, add a volume of the class that is large enough, has the access "
        "modes and is accessible from the node. For other classes, check allowedTopologies, and whether the claim "
        f"already has a selected node. {data_loss.sentence(data_loss.ANY_CLAIM_REF)}",
    ),
    _scheduler(
        text="node(s) did not have enough free storage",
        meaning="The driver publishes its free capacity, and for these nodes it is zero or too small for the claim, or "
        "no CSIStorageCapacity object exists for the class and the segment.",
        action="Compare the claim's size with `mooring capacity`: free or add storage in the segment, request less, "
        "or, if objects are missing, check that the provisioner runs with capacity publishing enabled and reaches the "
        "driver.",
    ),
    _scheduler(
        text="node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        meaning="A claim is bound to a PersistentVolume that was deleted.",
        action="Create the PersistentVolume again if its storage still exists, with the same name and a claimRef to "
        f"the claim. {data_loss.sentence(data_loss.RESTORE_CLAIM)}",
    ),
    _scheduler(
        text="pod has unbound immediate PersistentVolumeClaims",
        older_texts=("pod has unbound PersistentVolumeClaims",),
        meaning="A claim of the pod has binding mode Immediate and is not bound yet, so the suitable nodes are "
        "unknown. A claim whose class does not exist counts as Immediate.",
        action="Explain the claim: its class may be missing, its provisioner may not be running or has failed, or no "
        "existing volume matches.",
    ),
    _scheduler(
        text='persistentvolumeclaim "<claim>" not found',
        older_texts=("persistentvolumeclaim <claim> not found",),
        meaning="The pod names a claim that does not exist in its namespace.",
        action="Create the claim in the pod's namespace, or correct the name in the pod.",
    ),
    _scheduler(
        text='waiting for ephemeral volume controller to create the persistentvolumeclaim "<claim>"',
        meaning="The pod has a generic ephemeral volume, whose claim the ephemeral volume controller has not created "
        "yet.",
        action="Wait. If the message persists, check that the controller manager runs and what it reports about the "
        "claim, for example an exceeded quota.",
    ),
    _scheduler(
        text='persistentvolumeclaim "<claim>" bound to non-existent persistentvolume "<volume>"',
        meaning="The claim is Lost: the volume it was bound to was deleted.",
        action="Restore the data into a new claim. If the storage still exists, create a PersistentVolume with the "
        "same name and a claimRef to the claim.",
    ),
    _scheduler(
        text='persistentvolumeclaim "<claim>" is being deleted',
        meaning="The claim is being deleted; it is removed when no pod uses it.",
        action="Deletion cannot be undone. Wait until it is removed and create the claim again, or remove it from the "
        "pod.",
    ),
    _mooring(
        text='persistentvolumeclaim "<claim>" is being rolled back',
        meaning="The claim's unused volume is being rolled back because the pod cannot get all its volumes there.",
        action="Wait: the claim can then be bound on another node.",
    ),
    Message(
        text="PVC <claim> was not created for pod <pod> (pod is not owner)",
        source="scheduler and kubelet, in events of the pod",
        meaning="The claim of a generic ephemeral volume must be owned by the pod, and a claim with that name exists "
        "that is not.",
        action="Rename the pod or the volume, so that its claim gets another name.",
    ),
    _mooring(
        text='persistentvolumeclaim "<claim>" is invalid: <problem>',
        meaning="The claim's selector or size is invalid.",
        action="Create the claim again with a valid selector and size; neither can be changed.",
    ),
    _scheduler(
        text='VolumeBindingMode not set for StorageClass "<class>"',
        meaning="The class has no volumeBindingMode. API servers set the default, so the class was not written through "
        "one.",
        action="Create the class again with volumeBindingMode set.",
    ),
    _scheduler(
        text='looking up PVC <claim>: persistentvolumeclaim "<claim name>" not found',
        meaning="The pod names a claim that does not exist in its namespace, so its volumes cannot be counted.",
        action="Create the claim in the pod's namespace, or correct the name in the pod.",
    ),
    _scheduler(
        text="node(s) exceed max volume count",
        older_texts=("MaxVolumeCount",),
        meaning="The node has reached the volume limit of a driver; volumes its pods use and volumes still attached "
        "count.",
        action="Move pods with volumes to other nodes, add a node, or use larger machines. An attached volume that no "
        "pod uses counts as well: check VolumeAttachments. The driver sets the limit in CSINode.",
    ),
    _scheduler(
        text="<driver> CSI driver is not installed on the node",
        meaning="The driver requires registration on the node, and the node's CSINode does not list it.",
        action="Check that the driver's node pod runs there; on a new node it may not have registered yet.",
    ),
    _scheduler(
        text="node(s) had no available disk",
        older_texts=("NoDiskConflict",),
        meaning="The pod's spec names a disk that another pod on the node uses and that cannot be mounted twice there.",
        action=f"Have both mount the disk read-only, or use a claim. {data_loss.sentence(data_loss.ANY_POD)}",
    ),
    _scheduler(
        text="node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod",
        meaning="Only one pod at a time may use the claim, and another pod uses it.",
        action="Wait until the other pod has ended, or use ReadWriteOnce if several pods on one node may share the "
        f"volume. {data_loss.sentence(data_loss.ANY_POD)}",
    ),
    _scheduler(
        text="node(s) had no available volume zone",
        older_texts=("NoVolumeZoneConflict",),
        meaning="A bound volume has zone or region labels that the node does not match.",
        action="Check why the pod does not fit on the nodes of that zone. If the labels are wrong, correct them on the "
        "PersistentVolume.",
    ),
    Message(
        text='storageclass.storage.k8s.io "<class>" not found',
        older_texts=('storageclass "<class>" not found',),
        source="scheduler, PV controller and provisioners, in events of pods and claims",
        meaning="The claim names a class that does not exist.",
        action="Create the StorageClass, or create the claim again with one that exists; kubectl get storageclass "
        "lists them.",
    ),
    _scheduler(
        text='persistentvolume "<volume>" not found',
        older_texts=("could not find v1.PersistentVolume <volume>",),
        meaning="The claim names a volume that does not exist.",
        action="Create the PersistentVolume if its storage still exists. "
        f"{data_loss.sentence(data_loss.RESTORE_CLAIM)}",
    ),
    _scheduler(
        text="PersistentVolumeClaim had no name",
        meaning="A volume of the pod refers to a claim without naming it.",
        action="Create the pod again with claimName filled in.",
    ),
    _scheduler(
        text="PersistentVolumeClaim had no pv name and storageClass name",
        meaning="The claim is not bound and has no class, so only an existing volume without a class can match.",
        action="Create such a volume, mark a class as default, or create the claim again with a class.",
    ),
    _scheduler(
        text="PersistentVolume had no name",
        meaning="The claim has binding mode Immediate and is not bound yet.",
        action="Explain the claim: its provisioner may not be running or has failed, or no existing volume matches.",
    ),
    _mooring(
        text='persistentvolumeclaim "<claim>" waits for a consumer, but the feature gate VolumeScheduling is off',
        meaning="The claim's class delays binding until a pod is scheduled. With the gate off the scheduler does not "
        "select volumes; PV controller and provisioner bind such claims at once if the gate is off there too.",
        action="Enable the gate VolumeScheduling, or disable it in the PV controller and the provisioner too.",
    ),
)
