"""What the PV controller says about claims and volumes."""

from typing import Final

from mooring.explain import data_loss
from mooring.explain.messages.contract import Message

_CLAIM: Final = "PV controller, in an event of the claim"
_VOLUME: Final = "PV controller, in an event of the volume and in its status"

CLAIMS: Final = (
    Message(
        text="waiting for first consumer to be created before binding",
        said_by=_CLAIM,
        means="Nothing is wrong: the class waits until a pod uses the claim, so that the volume is made where the "
        "pod can run. No such pod exists.",
        now="Create a pod that uses the claim. To have the volume at once, use a class with volumeBindingMode "
        "Immediate.",
    ),
    Message(
        text="waiting for pod <pod> to be scheduled",
        older=("waiting for pods <pods> to be scheduled",),
        said_by=_CLAIM,
        means="The claim waits for a pod, the pod exists and has no node yet.",
        now="Explain the pod.",
    ),
    Message(
        text="Waiting for a volume to be created either by the external provisioner '<provisioner>' or manually by "
        "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
        "and correctly registered.",
        older=(
            'waiting for a volume to be created, either by external provisioner "<provisioner>" or manually created by '
            "system administrator",
        ),
        said_by=_CLAIM,
        means="The claim was handed to its provisioner, and no volume has come yet.",
        now="Explain the claim: it shows whether a provisioner is there, and what it answered.",
    ),
    Message(
        text="no persistent volumes available for this claim and no storage class is set",
        said_by=_CLAIM,
        means="The claim has no class, there is no default class, and no existing volume without a class does for it.",
        now="Mark a StorageClass as default, create the claim again with a class, or add a volume that does.",
    ),
    Message(
        text='storage class "<class>" waits for a consumer, but the feature gate VolumeScheduling is off: the '
        "claim stays unbound",
        said_by="Mooring's PV controller, in an event of the claim",
        means="The class waits for a pod to be placed, and nobody would choose a volume with the node.",
        now="Turn the gate VolumeScheduling on, or use a class with volumeBindingMode Immediate.",
    ),
    Message(
        text="no volume plugin matched name: <provisioner>",
        older=(
            "no volume plugin matched",
            'error getting deleter volume plugin for volume "<volume>": no volume plugin matched',
        ),
        said_by="PV controller, in events of claims and volumes",
        means="The class or the volume names a plugin that was once inside Kubernetes and is not there; "
        "kubernetes.io/no-provisioner is nobody by design.",
        now="For kubernetes.io/no-provisioner, add volumes by hand; otherwise use a class of a CSI driver.",
    ),
    Message(
        text='Cannot bind to requested volume "<volume>": <why>',
        said_by=_CLAIM,
        means="The claim asks for a volume by name that does not do for it.",
        now="Look up what follows the colon; create the claim or the volume again so that they go together.",
    ),
    Message(
        text="requested PV is too small",
        said_by=_CLAIM,
        means="The claim asks for a volume by name that is smaller than the size it asks for.",
        now="Ask for less, or for another volume.",
    ),
    Message(
        text="storageClassName does not match",
        said_by=_CLAIM,
        means="The claim asks for a volume by name that has another class. A claim that names no class gets the "
        "default one.",
        now='Give both the same storageClassName; "" is the one for none.',
    ),
    Message(
        text="volumeAttributesClassName does not match",
        said_by=_CLAIM,
        means="The claim asks for a volume by name that has another volumeAttributesClassName.",
        now="Give both the same one.",
    ),
    Message(
        text="incompatible volumeMode",
        said_by=_CLAIM,
        means="The claim asks for Block and the volume is Filesystem, or the other way round.",
        now="Create one of them again with the mode of the other.",
    ),
    Message(
        text="incompatible accessMode",
        said_by=_CLAIM,
        means="The claim asks for a volume by name that lacks an access mode it asks for.",
        now="Ask for modes that the volume has.",
    ),
    Message(
        text='the volume is marked for deletion "<volume>"',
        said_by=_CLAIM,
        means="The claim asks for a volume by name that somebody has deleted.",
        now="Ask for another one.",
    ),
    Message(
        text='volume "<volume>" already bound to a different claim.',
        said_by=_CLAIM,
        means="The claim asks for a volume by name that another claim has.",
        now="Ask for another one, or for none and let a volume be found.",
    ),
    Message(
        text='Cannot bind PersistentVolume "<volume>" to requested PersistentVolumeClaim due to incompatible '
        "volumeMode.",
        older=(
            'Cannot bind PersistentVolume to requested PersistentVolumeClaim "<claim>" due to incompatible volumeMode.',
        ),
        said_by="PV controller, in events of claim and volume",
        means="A volume is reserved for a claim that asks for the other volumeMode.",
        now="Create one of them again with the mode of the other.",
    ),
    Message(
        text="Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        said_by=_CLAIM,
        means="The PersistentVolume that the claim was bound to was deleted.",
        now="If the storage is still there, a PersistentVolume of the same name that points to the claim brings it "
        "back. Otherwise restore the data into a new claim.",
    ),
    Message(
        text="Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        said_by=_CLAIM,
        means="Somebody removed spec.volumeName from a bound claim.",
        now="Create the claim again and let it ask for the volume by name. "
        f"{data_loss.sentence(data_loss.ANY_CLAIM_REF)}",
    ),
    Message(
        text="Two claims are bound to the same volume, this one is bound incorrectly",
        said_by=_CLAIM,
        means="The claim names a volume that belongs to another claim.",
        now="Find out what set volumeName or claimRef by hand; create this claim again.",
    ),
    Message(
        text='PersistentVolume "<volume>" is without a storage capacity',
        said_by="PV controller, in its log",
        means="The volume does not say how large it is, so the claim cannot either.",
        now="Create the PersistentVolume with spec.capacity.storage.",
    ),
    Message(
        text="Volume is used by pods: <pods>",
        said_by=_VOLUME,
        means="The claim is gone, but pods still use the volume, so it is not cleared.",
        now=data_loss.sentence(data_loss.THESE_PODS),
    ),
    Message(
        text="No recycler plugin found for the volume!",
        said_by=_VOLUME,
        means="The reclaim policy Recycle needs a plugin, and there is none.",
        now="Use Retain or Delete.",
    ),
    Message(
        text="Volume has unrecognized PersistentVolumeReclaimPolicy",
        said_by=_VOLUME,
        means="The volume's reclaim policy is none of Retain, Delete and Recycle.",
        now="Correct it.",
    ),
    Message(
        text="Ignoring the PVC: didn't find a plugin capable of expanding the volume; waiting for an external "
        "controller to process this PVC.",
        said_by="PV controller and Kubernetes' expand controller, in the event ExternalExpanding of the claim",
        means="The claim was patched to ask for more than its volume has. Volumes of CSI drivers are expanded by the "
        "external-resizer of the driver; the API server and its controllers do not do it.",
        now="Run the driver's external-resizer, if the driver can expand volumes. Mooring has no resizer and its own "
        "driver expands nothing: make a larger claim and copy the data.",
    ),
)
