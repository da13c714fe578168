"""Volumes and inline disks in use per node, and VolumeAttachment names and bodies. Pure.

Attachment names are Kubernetes', so that both find each other's. Volumes are attached if the CSIDriver requires it;
one that only a single node may use is attached to a second node after it was detached from the first.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from mooring.api.views.core import Node
from mooring.api.views.pods import Pod, PodVolume
from mooring.api.views.storage import CsiDriver, CsiSource, Volume, VolumeAttachment
from mooring.multimap import Tally
from mooring.volumes import topology
from mooring.volumes.topology import NodeSet, TopologyIndex


def attachment_name(driver: str, handle: str, node: str) -> str:
    """The VolumeAttachment of a volume on a node."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def in_use_name(driver: str, handle: str) -> str:
    """How a node names a volume it has not let go of, in its `status.volumesInUse`."""
    return f"kubernetes.io/csi/{driver}^{handle}"


class InlineDisk(NamedTuple):
    """What a disk is known by. Of an RBD image there may be several monitors; one in common is the same image."""

    kind: str
    name: str
    monitors: frozenset[str]
    #: Two pods that only read do not disturb each other.
    shared: bool

    def conflicts(self, other: "InlineDisk") -> bool:
        return (
            (self.kind, self.name) == (other.kind, other.name)
            and not (self.shared and other.shared)
            and (not self.monitors or bool(self.monitors & other.monitors))
        )


def disks_of(pod: Pod) -> Iterator[InlineDisk]:
    """The disks of a pod that could conflict with another's."""
    for volume in pod.spec.volumes:
        disk = _disk(volume)
        if disk is not None:
            yield disk


def disks_conflict(pod: Pod, other: Pod) -> bool:
    """Whether two pods cannot be on one node because of a disk."""
    return any(one.conflicts(another) for one in disks_of(pod) for another in disks_of(other))


class DisksInUse:
    """The disks of pods on nodes."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        #: By what a disk is known by: how it is used, on which nodes and by how many pods.
        self._uses: defaultdict[tuple[str, str], defaultdict[InlineDisk, Tally[str]]] = defaultdict(_uses)

    def count_pod(self, pod: Pod, node: str, sign: int) -> None:
        """A pod came to a node (`sign` 1) or left it (-1)."""
        for disk in disks_of(pod):
            uses = self._uses[disk.kind, disk.name]
            uses[disk].add(node, sign)
            if not uses[disk]:
                del uses[disk]
            if not uses:
                del self._uses[disk.kind, disk.name]

    def conflicting(self, pod: Pod) -> NodeSet:
        """The nodes on which a disk of the pod is in use in a way that excludes it."""
        return topology.node_set_of(
            self._topology.slot(node)
            for disk in disks_of(pod)
            for used, nodes in self._uses.get((disk.kind, disk.name), _uses()).items()
            if disk.conflicts(used)
            for node in nodes
            if node in self._topology
        )


def _uses() -> defaultdict[InlineDisk, Tally[str]]:
    return defaultdict(Tally)


def _disk(volume: PodVolume) -> InlineDisk | None:
    anywhere: frozenset[str] = frozenset()
    if (gce := volume.gce_persistent_disk) is not None:
        return InlineDisk("gce", gce.pd_name, anywhere, gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        return InlineDisk("ebs", ebs.volume_id, anywhere, shared=False)
    if (iscsi := volume.iscsi) is not None:
        return InlineDisk("iscsi", iscsi.iqn, anywhere, iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        return InlineDisk("rbd", f"{rbd.pool}/{rbd.image}", frozenset(rbd.monitors), rbd.read_only)
    return None


_SHARED: Final = frozenset({"ReadOnlyMany", "ReadWriteMany"})


def attachable_source(volume: Volume | None, driver: CsiDriver | None) -> CsiSource | None:
    """The CSI source of a volume that has to be attached before it can be used."""
    if volume is None or volume.spec.csi is None or driver is None or not driver.spec.attach_required:
        return None
    return volume.spec.csi


def pods_needing_attachment(pods: Iterable[Pod], node: str) -> list[Pod]:
    """Of the pods that use a volume, those that need it on a node; one that is being deleted does until it is gone."""
    return [pod for pod in pods if pod.spec.node_name == node and not pod.finished]


def attachment_body(csi: CsiSource, volume: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": attachment_name(csi.driver, csi.volume_handle, node)},
        "spec": {"attacher": csi.driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
    }


def attached_elsewhere(volume: Volume, node: str, attachments: Iterable[VolumeAttachment]) -> str:
    """The node that has a volume which no second one may have; "" if there is none."""
    if _SHARED & set(volume.spec.access_modes):
        return ""
    return next((one.spec.node_name for one in attachments if one.spec.node_name != node), "")


def is_volume_in_use(csi: CsiSource, node: Node | None) -> bool:
    """Whether the node has not let go of the volume yet; one that is gone has."""
    return node is not None and in_use_name(csi.driver, csi.volume_handle) in node.status.volumes_in_use
