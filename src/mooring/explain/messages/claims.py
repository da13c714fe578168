"""Messages of the PV controller and of provisioners about claims and volumes.

Provisioner messages carry gRPC codes of the driver; the CSI specification defines which of them are final.
"""

from functools import partial
from typing import Final

from mooring.explain.remedies import data_loss
from mooring.explain.results import Message
from mooring.provisioner import events
from mooring.volumes import claim_rollback
from mooring.volumes.holds import policy
from mooring.volumes.unused import proof

_claim_event = partial(Message, source="PV controller, in an event of the claim")
_mooring_claim_event = partial(Message, source="Mooring's PV controller, in an event of the claim")
_unused_claim_event = partial(Message, source="Mooring's unused-claim-controller, in an event of the claim")
_volume_event = partial(Message, source="PV controller, in an event of the volume and in its status")

CLAIMS: Final = (
    _claim_event(
        text="waiting for first consumer to be created before binding",
        meaning="Expected state: the class delays binding until a pod uses the claim, so that the volume is "
        "provisioned where the pod can run. No such pod exists.",
        action="Create a pod that uses the claim. For a volume without a pod, use a class with volumeBindingMode "
        "Immediate.",
    ),
    _claim_event(
        text="waiting for pod <pod> to be scheduled",
        older_texts=("waiting for pods <pods> to be scheduled",),
        meaning="The claim waits for its pod, which exists and is not scheduled yet.",
        action="Explain the pod.",
    ),
    _claim_event(
        text="Waiting for a volume to be created either by the external provisioner '<provisioner>' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered.",
        older_texts=(
            'waiting for a volume to be created, either by external provisioner "<provisioner>" or manually created by '
            "system administrator",
        ),
        meaning="The claim was passed to its provisioner, which has not created a volume yet.",
        action="Explain the claim: it shows whether the provisioner runs, and its last error.",
    ),
    _claim_event(
        text="no persistent volumes available for this claim and no storage class is set",
        meaning="The claim has no class, no default class exists, and no existing volume without a class matches.",
        action="Mark a StorageClass as default, create the claim again with a class, or add a matching volume.",
    ),
    Message(
        text="no volume plugin matched name: <provisioner>",
        older_texts=(
            "no volume plugin matched",
            'error getting deleter volume plugin for volume "<volume>": no volume plugin matched',
        ),
        source="PV controller, in events of claims and volumes",
        meaning="The class or the volume names an in-tree plugin that is not available; kubernetes.io/no-provisioner "
        "never provisions.",
        action="For kubernetes.io/no-provisioner, create volumes manually; otherwise use a class of a CSI driver.",
    ),
    _claim_event(
        text='Cannot bind to requested volume "<volume>": <why>',
        meaning="The volume in the claim's spec.volumeName does not match the claim.",
        action="Look up what follows the colon; create the claim or the volume again so that they match.",
    ),
    _claim_event(
        text="requested PV is too small",
        meaning="The volume in the claim's spec.volumeName is smaller than the requested size.",
        action="Request less, or name another volume.",
    ),
    _claim_event(
        text="storageClassName does not match",
        meaning="The volume in the claim's spec.volumeName has another class. A claim without storageClassName gets "
        "the default class.",
        action='Set the same storageClassName on both; "" means no class.',
    ),
    _claim_event(
        text="volumeAttributesClassName does not match",
        meaning="The volume in the claim's spec.volumeName has another volumeAttributesClassName.",
        action="Set the same volumeAttributesClassName on both.",
    ),
    _claim_event(
        text="incompatible volumeMode",
        meaning="The claim requests volumeMode Block and the volume has Filesystem, or the reverse.",
        action="Create one of them again with the other's volumeMode.",
    ),
    _claim_event(
        text="incompatible accessMode",
        meaning="The volume in the claim's spec.volumeName lacks a requested access mode.",
        action="Request access modes that the volume has.",
    ),
    _claim_event(
        text='the volume is marked for deletion "<volume>"',
        meaning="The volume in the claim's spec.volumeName is being deleted.",
        action="Name another volume.",
    ),
    _claim_event(
        text='volume "<volume>" already bound to a different claim.',
        meaning="The volume in the claim's spec.volumeName is bound to another claim.",
        action="Name another volume, or leave spec.volumeName empty.",
    ),
    Message(
        text='Cannot bind PersistentVolume "<volume>" to requested PersistentVolumeClaim due to incompatible '
        "volumeMode.",
        older_texts=(
            'Cannot bind PersistentVolume to requested PersistentVolumeClaim "<claim>" due to incompatible volumeMode.',
        ),
        source="PV controller, in events of claim and volume",
        meaning="A volume is reserved for a claim that requests the other volumeMode.",
        action="Create one of them again with the other's volumeMode.",
    ),
    _claim_event(
        text="Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        meaning="The PersistentVolume that the claim was bound to was deleted.",
        action="If the storage still exists, create a PersistentVolume with the same name and a claimRef to the claim. "
        "Otherwise restore the data into a new claim.",
    ),
    _claim_event(
        text="Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        meaning="spec.volumeName was removed from a bound claim.",
        action="Create the claim again with spec.volumeName set to the volume. "
        f"{data_loss.sentence(data_loss.ANY_CLAIM_REF)}",
    ),
    _claim_event(
        text="Two claims are bound to the same volume, this one is bound incorrectly",
        meaning="The claim names a volume that is bound to another claim.",
        action="Find out what set volumeName or claimRef; create this claim again.",
    ),
    Message(
        text='PersistentVolume "<volume>" is without a storage capacity',
        source="PV controller, in its log",
        meaning="The volume has no spec.capacity.storage, so the claim's capacity cannot be set.",
        action="Create the PersistentVolume with spec.capacity.storage.",
    ),
    _volume_event(
        text="Volume is used by pods: <pods>",
        meaning="The claim was deleted, but pods still use the volume, so it is not recycled.",
        action=data_loss.sentence(data_loss.THESE_PODS),
    ),
    _volume_event(
        text="No recycler plugin found for the volume!",
        meaning="The reclaim policy Recycle needs a recycler plugin, and none is available.",
        action="Use Retain or Delete.",
    ),
    _volume_event(
        text="Volume has unrecognized PersistentVolumeReclaimPolicy",
        meaning="The volume's reclaim policy is not Retain, Delete or Recycle.",
        action="Correct the reclaim policy.",
    ),
    Message(
        text="Ignoring the PVC: didn't find a plugin capable of expanding the volume; waiting for an external "
        "controller to process this PVC.",
        source="PV controller and Kubernetes' expand controller, in the event ExternalExpanding of the claim",
        meaning="The claim requests more than its volume has. Volumes of CSI drivers are expanded by the "
        "external-resizer of the driver; the PV controller does not expand them.",
        action="Run the driver's external-resizer, if the driver can expand volumes. Mooring has no resizer, and its "
        "own driver cannot expand volumes: create a larger claim and copy the data.",
    ),
)


_driver = partial(Message, source="provisioner, in the event ProvisioningFailed of the claim, with the driver's error")
_provisioner = partial(Message, source="provisioner, in the event ProvisioningFailed of the claim")
_SAME_NODE: Final = "No other node is tried: only ResourceExhausted clears the selected node."

RESOURCE_EXHAUSTED: Final = _driver(
    text="rpc error: code = ResourceExhausted desc = <why>",
    meaning="The driver lacks capacity for the volume in the topology segment of the selected node. The provisioner "
    "clears the selected node, and the pod is scheduled again.",
    action="Free or add storage there. If the same node is selected repeatedly, the reported free capacity is wrong: "
    "compare it with `mooring capacity`.",
)

PROVISIONING: Final = (
    RESOURCE_EXHAUSTED,
    _driver(
        text="rpc error: code = Internal desc = <why>",
        older_texts=("rpc error: code = Unknown desc = <why>",),
        meaning="The driver failed for another reason than missing capacity. The provisioner repeats the same request "
        f"on the same node. {_SAME_NODE}",
        action="Check the driver's log. If the message is about missing space, the driver should return "
        "ResourceExhausted: report that to its authors. To have another node tried now, remove the annotation "
        "volume.kubernetes.io/selected-node from the claim.",
    ),
    _driver(
        text="rpc error: code = InvalidArgument desc = <why>",
        meaning="The driver rejects the request: parameters of the class, size, access mode or volume mode. Retries do "
        "not help and are rare.",
        action="Correct the class or the claim; both must be created again.",
    ),
    _driver(
        text="rpc error: code = OutOfRange desc = <why>",
        meaning=f"The driver cannot provision a volume of this size. {_SAME_NODE}",
        action="Request a size that the driver supports.",
    ),
    _driver(
        text="rpc error: code = DeadlineExceeded desc = <why>",
        older_texts=("rpc error: code = Canceled desc = <why>",),
        meaning="The driver did not respond in time and may still be provisioning the volume, so the same request is "
        "repeated until it returns.",
        action="Wait, and check the driver's log; raise the provisioner's --timeout if volumes take long.",
    ),
    _driver(
        text="rpc error: code = Unavailable desc = <why>",
        meaning="The driver could not be reached.",
        action="Check that the driver's pod runs and that its socket has the path the provisioner uses.",
    ),
    _driver(
        text="rpc error: code = Aborted desc = <why>",
        meaning="The driver already processes a request for the same volume.",
        action="Wait.",
    ),
    _driver(
        text="rpc error: code = AlreadyExists desc = <why>",
        meaning="The driver already has a volume with that name and other properties, left over from an earlier "
        "attempt.",
        action="Create the claim again: its volume then gets another name. "
        + data_loss.sentence(data_loss.DRIVER_VOLUME),
    ),
    _driver(
        text="rpc error: code = <code> desc = <why>",
        meaning=f"The driver returned an error. {_SAME_NODE}",
        action="Check the message after the code, and the driver's log.",
    ),
    _provisioner(
        text=events.CSI_NODE_NOT_FOUND.format(node="<node>", node_name="<node name>"),
        meaning="The selected node has no CSINode: no driver has registered there, or the node was deleted.",
        action="Check that the driver's node pod runs there. If the node was deleted, remove the annotation "
        "volume.kubernetes.io/selected-node from the claim, so that another node is selected.",
    ),
    _provisioner(
        text=events.NODE_NOT_FOUND.format(node="<node>", node_name="<node name>"),
        meaning="The selected node was deleted.",
        action="Remove the annotation volume.kubernetes.io/selected-node from the claim, unless a controller does it.",
    ),
    _provisioner(
        text="no topology key found on CSINode <node>",
        older_texts=(events.NO_TOPOLOGY_KEY.format(node="<node>"),),
        meaning="The driver supports topology, but has not registered its topology keys on the selected node.",
        action="Check that the driver's node pod runs there and that NodeGetInfo returns a topology. On a new node the "
        "driver may not have registered yet.",
    ),
    _provisioner(
        text=events.TOPOLOGY_FAILED.format(reason="<why>"),
        meaning="The topology requirement of the volume could not be computed from nodes, CSINodes and the class.",
        action="Look up what follows; often the driver has not registered its topology keys on the selected node yet.",
    ),
    _provisioner(
        text=events.PROVISION_FAILED.format(storage_class="<class>", reason="<why>"),
        meaning="No volume was provisioned; the reason follows the colon.",
        action="Look up what follows.",
    ),
    _provisioner(
        text=events.INFEASIBLE.format(reason="<why>"),
        meaning="The driver rejects the request as infeasible, so retries are rare.",
        action="Look up what follows; correct class or claim.",
    ),
    _mooring_claim_event(
        text=claim_rollback.REFUSED_TEXT.format(reason="<reason>"),
        meaning="A requested rollback of the claim was refused; the reason follows the colon.",
        action="Nothing: the claim stays bound. Only claims whose volume was never used are rolled back.",
    ),
    _mooring_claim_event(
        text=claim_rollback.ROLLED_BACK_TEXT.format(volume="<volume>"),
        meaning="The claim was rolled back, so that its pod can be scheduled to a node where it gets all its volumes.",
        action="Nothing: the claim is bound again when its pod is scheduled.",
    ),
    _unused_claim_event(
        text=proof.REPLACED_TEXT.format(volume="<volume>"),
        meaning="The bound claim kept its pod pending, its StorageClass allows replacement, and no pod ever had its "
        "volume: it was deleted and created again without a volume.",
        action="Nothing: the next claim is bound when its pod is scheduled. With reclaim policy Retain, the "
        "PersistentVolume stays: `mooring orphans` lists it.",
    ),
    _unused_claim_event(
        text=proof.KEPT_TEXT.format(code="<code>", reason="<reason>"),
        meaning="The bound claim keeps its pod pending, and its StorageClass allows replacement, but it is not proved "
        "that no pod ever had its volume, or a replacement would not help.",
        action="Explain the pod: each remedy says what it loses.",
    ),
    _unused_claim_event(
        text=proof.RETURNED_TEXT.format(volume="<volume>"),
        meaning="A pod got a node, or the controller was restarted, just before the claim was deleted. The volume may "
        "have data, so the next claim of that name was bound to it.",
        action="Nothing: no data was lost.",
    ),
    Message(
        text=policy.ROLLED_BACK_TEXT.format(volume="<volume>", reason="<why>"),
        older_texts=(policy.ROLLED_BACK_POD_TEXT.format(claim="<claim>", reason="<why>"),),
        source=f"Mooring's coordinator, in the event {policy.ROLLED_BACK} of claim and pod",
        meaning="The volume was provisioned and held for a pod that cannot get all its volumes on that node. The "
        "unused volume is deleted, and another node is tried.",
        action="Usually nothing. If it repeats, explain the pod: no node has capacity for all its volumes.",
    ),
)
