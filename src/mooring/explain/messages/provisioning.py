"""What provisioners and Mooring's coordinator say about claims whose volumes are to be made.

The codes are gRPC's, as drivers answer with them; which of them end an attempt is the CSI specification's word.
"""

from typing import Final

from mooring.explain import data_loss
from mooring.explain.messages.contract import Message

_DRIVER: Final = "provisioner, in the event ProvisioningFailed of the claim, in its driver's words"
_PROVISIONER: Final = "provisioner, in the event ProvisioningFailed of the claim"
_COORDINATOR: Final = "Mooring's coordinator, in the event ProvisioningRolledBack of claim and pod"
_SAME_NODE: Final = "Nobody will try another node: only ResourceExhausted gives the choice of the node back. "

RESOURCE_EXHAUSTED: Final = Message(
    text="rpc error: code = ResourceExhausted desc = <why>",
    said_by=_DRIVER,
    means="The driver has no room for the volume in the place of the chosen node. The provisioner gives the choice "
    "of the node back, and the scheduler chooses again.",
    now="Free or add storage there. If the same node is chosen over and over, what the driver reports as free is "
    "not true: compare it with `mooring capacity`.",
)

PROVISIONING: Final = (
    RESOURCE_EXHAUSTED,
    Message(
        text="rpc error: code = Internal desc = <why>",
        older=("rpc error: code = Unknown desc = <why>",),
        said_by=_DRIVER,
        means="The driver failed and did not say that it lacks room. The provisioner repeats the same request on the "
        f"same node. {_SAME_NODE}".strip(),
        now="See the driver's own log. If what follows the code is about space, the driver should answer "
        "ResourceExhausted: tell its authors. To have another node tried now, remove the annotation "
        "volume.kubernetes.io/selected-node from the claim.",
    ),
    Message(
        text="rpc error: code = InvalidArgument desc = <why>",
        said_by=_DRIVER,
        means="The driver calls the request wrong: parameters of the class, size, access mode or volume mode. "
        "Repeating it does not help, so it is repeated rarely.",
        now="Correct the class or the claim; both must be created anew.",
    ),
    Message(
        text="rpc error: code = OutOfRange desc = <why>",
        said_by=_DRIVER,
        means=f"The driver cannot make a volume of this size. {_SAME_NODE}".strip(),
        now="Ask for a size that the driver can make.",
    ),
    Message(
        text="rpc error: code = DeadlineExceeded desc = <why>",
        older=("rpc error: code = Canceled desc = <why>",),
        said_by=_DRIVER,
        means="The driver did not answer in time and may still be making the volume, so the same request is "
        "repeated until it has answered.",
        now="Wait, and see the driver's own log; raise the provisioner's --timeout if volumes take long.",
    ),
    Message(
        text="rpc error: code = Unavailable desc = <why>",
        said_by=_DRIVER,
        means="The driver could not be reached.",
        now="See whether the driver's pod runs and its socket is where the provisioner looks.",
    ),
    Message(
        text="rpc error: code = Aborted desc = <why>",
        said_by=_DRIVER,
        means="The driver works on the same volume already.",
        now="Wait.",
    ),
    Message(
        text="rpc error: code = AlreadyExists desc = <why>",
        said_by=_DRIVER,
        means="A volume of that name exists at the driver with other properties, left over from an earlier attempt.",
        now="Create the claim again: it gets another name then. " + data_loss.sentence(data_loss.DRIVER_VOLUME),
    ),
    Message(
        text="rpc error: code = <code> desc = <why>",
        said_by=_DRIVER,
        means=f"The driver refused. {_SAME_NODE}".strip(),
        now="See what follows the code, and the driver's own log.",
    ),
    Message(
        text='error getting CSINode for selected node "<node>": csinode.storage.k8s.io "<node name>" not found',
        said_by=_PROVISIONER,
        means="The chosen node has no CSINode: no driver has registered there, or the node is gone.",
        now="See whether the driver's node pod runs there. If the node is gone, remove the annotation "
        "volume.kubernetes.io/selected-node from the claim, so that another one is chosen.",
    ),
    Message(
        text='error getting selected node "<node>": node "<node name>" not found',
        said_by=_PROVISIONER,
        means="The chosen node was deleted.",
        now="Remove the annotation volume.kubernetes.io/selected-node from the claim, if no component does.",
    ),
    Message(
        text="no topology key found on CSINode <node>",
        older=("no topology key found for node <node>",),
        said_by=_PROVISIONER,
        means="The driver knows places, but has not registered any of its topology keys on the chosen node.",
        now="See whether the driver's node pod runs there and NodeGetInfo answers with a topology. On a new node "
        "it may just have to register first.",
    ),
    Message(
        text="error generating accessibility requirements: <why>",
        said_by=_PROVISIONER,
        means="Where the volume may be could not be worked out from nodes, CSINodes and the class.",
        now="Look up what follows; often the driver has not registered its topology keys on the chosen node yet.",
    ),
    Message(
        text='failed to provision volume with StorageClass "<class>": <why>',
        said_by=_PROVISIONER,
        means="No volume was made; what follows the colon says why.",
        now="Look up what follows.",
    ),
    Message(
        text="Volume provisioning failed with infeasible error. Retries will be delayed. <why>",
        said_by=_PROVISIONER,
        means="The driver calls the request itself wrong, so it is repeated rarely.",
        now="Look up what follows; correct class or claim.",
    ),
    Message(
        text="volume <volume> is rolled back before anybody used it: <why>",
        older=('volume of claim "<claim>" is rolled back: <why>',),
        said_by=_COORDINATOR,
        means="The volume had been made and held for a pod that cannot get all its volumes on that node. It is "
        "deleted again, unused, and another node is tried.",
        now="Usually nothing. If it goes round, explain the pod: no node has room for all its volumes.",
    ),
)
