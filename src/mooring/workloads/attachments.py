"""Which volumes have to be attached to which nodes. Pure.

Attached are volumes of drivers whose CSIDriver asks for it, to every node with a pod that uses them and has not ended.
A volume that only one node may use is not attached to a second one before the first has let go of it. Without a
CSIDriver nothing is attached: nobody would be there to do it.
"""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, VolumeAttachment
from mooring.api.views.volume import CsiSource, Volume
from mooring.volumes.attachment_names import attachment_name, in_use_name

_SHARED: Final = frozenset({"ReadOnlyMany", "ReadWriteMany"})


def source(volume: Volume | None, driver: CsiDriver | None) -> CsiSource | None:
    """The CSI source of a volume that has to be attached before it can be used."""
    if volume is None or volume.spec.csi is None or driver is None or not driver.spec.attach_required:
        return None
    return volume.spec.csi


def wanted_by(pods: Iterable[Pod], node: str) -> list[Pod]:
    """Of the pods that use a volume, those that need it on a node; one that is being deleted does until it is gone."""
    return [pod for pod in pods if pod.spec.node_name == node and not pod.finished]


def body(csi: CsiSource, volume: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": attachment_name(csi.driver, csi.volume_handle, node)},
        "spec": {"attacher": csi.driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
    }


def elsewhere(volume: Volume, node: str, attachments: Iterable[VolumeAttachment]) -> str:
    """The node that has a volume which no second one may have; "" if there is none."""
    if _SHARED & set(volume.spec.access_modes):
        return ""
    return next((one.spec.node_name for one in attachments if one.spec.node_name != node), "")


def in_use(csi: CsiSource, node: Node | None) -> bool:
    """Whether the node has not let go of the volume yet; one that is gone has."""
    return node is not None and in_use_name(csi.driver, csi.volume_handle) in node.status.volumes_in_use
