"""What the scheduler says about a pod's claims and volumes."""

from typing import Final

from mooring.explain import data_loss
from mooring.explain.messages.contract import Message

_SCHEDULER: Final = "scheduler, in the event FailedScheduling of a pod"

VOLUMES: Final = (
    Message(
        text="node(s) didn't match PersistentVolume's node affinity",
        older=(
            "node(s) had volume node affinity conflict",
            "NoVolumeNodeConflict",
        ),
        said_by=_SCHEDULER,
        means="A claim of the pod is bound to a volume that can only be used from some nodes, and these are not "
        "among them: the volume is in another zone, or on the disk of another node.",
        now="Look at what keeps the pod off the nodes that do reach the volume: they are too full, cordoned or "
        "tainted, or no longer exist. Make room there or add a node in the same place. If the place is gone for "
        "good, so is the volume: restore the data into a new claim. New claims avoid this with volumeBindingMode "
        "WaitForFirstConsumer.",
    ),
    Message(
        text="node(s) didn't find available persistent volumes to bind",
        older=("VolumeBindingNoMatch",),
        said_by=_SCHEDULER,
        means="A claim that waits for its pod has no existing volume it could have on these nodes, and its class "
        "does not allow one to be made there.",
        now="For classes without a provisioner, add a volume of the class that is large enough, has the access "
        "modes and can be reached from the node. For others, look at the class's allowedTopologies, and whether the "
        f"claim has a node selected already. {data_loss.sentence(data_loss.ANY_CLAIM_REF)}",
    ),
    Message(
        text="node(s) did not have enough free storage",
        said_by=_SCHEDULER,
        means="The driver reports its free storage, and for these nodes it reports too little for the claim, "
        "nothing at all, or there is no CSIStorageCapacity object for the class and the place. All of these read "
        "the same.",
        now="Compare the claim's size with `mooring capacity`: free or add storage in the segment, ask for less, "
        "or, where objects are missing, see that the provisioner runs with capacity publishing on and can reach "
        "the driver.",
    ),
    Message(
        text="node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        said_by=_SCHEDULER,
        means="A claim is bound to a PersistentVolume that was deleted.",
        now="Create the PersistentVolume again if its storage is still there, with the same name and a claimRef to "
        f"the claim. {data_loss.sentence(data_loss.RESTORE_CLAIM)}",
    ),
    Message(
        text="pod has unbound immediate PersistentVolumeClaims",
        older=("pod has unbound PersistentVolumeClaims",),
        said_by=_SCHEDULER,
        means="A claim of the pod is bound without regard to nodes and does not have its volume yet, so nobody can "
        "know where the pod may go. A claim whose class does not exist counts as such.",
        now="Explain the claim: its class may be missing, its provisioner may not be running or has failed, or no "
        "existing volume does for it.",
    ),
    Message(
        text='persistentvolumeclaim "<claim>" not found',
        older=("persistentvolumeclaim <claim> not found",),
        said_by=_SCHEDULER,
        means="The pod names a claim that does not exist in its namespace.",
        now="Create the claim in the pod's namespace, or correct the name in the pod.",
    ),
    Message(
        text='waiting for ephemeral volume controller to create the persistentvolumeclaim "<claim>"',
        said_by=_SCHEDULER,
        means="The pod has a generic ephemeral volume, whose claim is made for it by a controller that has not "
        "done so.",
        now="Wait a moment. If it stays, see whether the controller manager runs and what it says about the claim, "
        "for example that a quota is used up.",
    ),
    Message(
        text='persistentvolumeclaim "<claim>" bound to non-existent persistentvolume "<volume>"',
        said_by=_SCHEDULER,
        means="The claim is Lost: the volume it was bound to was deleted.",
        now="Restore the data into a new claim. If the storage is still there, a PersistentVolume of the same name "
        "that points to the claim brings it back.",
    ),
    Message(
        text='persistentvolumeclaim "<claim>" is being deleted',
        said_by=_SCHEDULER,
        means="Somebody has deleted the claim; it goes as soon as no pod uses it.",
        now="Deletion cannot be taken back. Let it go and create the claim again, or remove it from the pod.",
    ),
    Message(
        text='persistentvolumeclaim "<claim>" is being rolled back',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod",
        means="The claim's volume is being taken away, unused, because the pod cannot get all its volumes where it is.",
        now="Wait: the claim is free for another node in a moment.",
    ),
    Message(
        text="PVC <claim> was not created for pod <pod> (pod is not owner)",
        said_by="scheduler and kubelet, in events of the pod",
        means="The claim of a generic ephemeral volume must belong to the pod, and one of that name exists that "
        "does not.",
        now="Rename the pod or the volume, so that its claim gets another name.",
    ),
    Message(
        text='persistentvolumeclaim "<claim>" cannot be understood: <problem>',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod",
        means="The claim's selector or size makes no sense.",
        now="Create the claim again with a selector and a size that do; neither can be changed.",
    ),
    Message(
        text='VolumeBindingMode not set for StorageClass "<class>"',
        said_by=_SCHEDULER,
        means="The class does not say whether its claims wait for a pod. API servers fill that in, so the class "
        "was written past one.",
        now="Create the class again with volumeBindingMode set.",
    ),
    Message(
        text='looking up PVC <claim>: persistentvolumeclaim "<claim name>" not found',
        said_by=_SCHEDULER,
        means="The pod names a claim that does not exist in its namespace, so its volumes cannot be counted.",
        now="Create the claim in the pod's namespace, or correct the name in the pod.",
    ),
    Message(
        text="node(s) exceed max volume count",
        older=("MaxVolumeCount",),
        said_by=_SCHEDULER,
        means="The node takes only so many volumes of a driver, and has them: those its pods use, and those that "
        "are still attached.",
        now="Move pods with volumes away, add a node, or use larger machines. A volume that no pod uses and that "
        "is attached all the same counts: look for its VolumeAttachment. The limit is what the driver says in "
        "CSINode.",
    ),
    Message(
        text="<driver> CSI driver is not installed on the node",
        said_by=_SCHEDULER,
        means="The driver wants its pods only where it is registered, and the node's CSINode does not list it.",
        now="See whether the driver's node pod runs there; on a new node it may just have to register first.",
    ),
    Message(
        text="node(s) had no available disk",
        older=("NoDiskConflict",),
        said_by=_SCHEDULER,
        means="The pod names a disk itself that a pod on the node uses, and that cannot be attached there twice.",
        now=f"Have both mount the disk read-only, or use a claim. {data_loss.sentence(data_loss.ANY_POD)}",
    ),
    Message(
        text="node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod",
        said_by=_SCHEDULER,
        means="Only one pod at a time may use the claim, and another one does.",
        now="Wait until the other pod has ended, or use ReadWriteOnce if several pods on one node may share the "
        f"volume. {data_loss.sentence(data_loss.ANY_POD)}",
    ),
    Message(
        text="node(s) had no available volume zone",
        older=("NoVolumeZoneConflict",),
        said_by=_SCHEDULER,
        means="A bound volume has zone or region labels that the node does not match.",
        now="Look at what keeps the pod off the nodes of that zone. If the labels are wrong, correct them on the "
        "PersistentVolume.",
    ),
    Message(
        text='storageclass.storage.k8s.io "<class>" not found',
        older=('storageclass "<class>" not found',),
        said_by="scheduler, PV controller and provisioners, in events of pods and claims",
        means="The claim names a class that does not exist.",
        now="Create the StorageClass, or create the claim again with one that exists; kubectl get storageclass "
        "lists them.",
    ),
    Message(
        text='persistentvolume "<volume>" not found',
        older=("could not find v1.PersistentVolume <volume>",),
        said_by=_SCHEDULER,
        means="The claim names a volume that does not exist.",
        now=f"Create the PersistentVolume if its storage is still there. {data_loss.sentence(data_loss.RESTORE_CLAIM)}",
    ),
    Message(
        text="PersistentVolumeClaim had no name",
        said_by=_SCHEDULER,
        means="A volume of the pod refers to a claim without naming it.",
        now="Create the pod again with claimName filled in.",
    ),
    Message(
        text="PersistentVolumeClaim had no pv name and storageClass name",
        said_by=_SCHEDULER,
        means="The claim is not bound and has no class, so only an existing volume without a class can do for it.",
        now="Create such a volume, mark a class as default, or create the claim again with a class.",
    ),
    Message(
        text="PersistentVolume had no name",
        said_by=_SCHEDULER,
        means="The claim is bound without regard to nodes and has no volume yet.",
        now="Explain the claim: its provisioner may not be running or has failed, or no existing volume does for it.",
    ),
    Message(
        text='persistentvolumeclaim "<claim>" waits for a consumer, but the feature gate VolumeScheduling is off',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod",
        means="The claim's class waits for a pod to be placed, and the scheduler was told not to choose volumes.",
        now="Turn the gate VolumeScheduling on, or use a class with volumeBindingMode Immediate.",
    ),
)
