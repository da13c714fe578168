"""Disks that pods name themselves, without a claim, and whether two of them on one node get in each other's way.

Kept by `state.VolumeState` for the four kinds Kubernetes knows conflicts of. Few pods have such disks; the others cost
nothing here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from mooring.api.views.pod import Pod, PodVolume
from mooring.volumes import nodeset
from mooring.volumes.nodeset import NodeSet
from mooring.volumes.topology import TopologyIndex


class Disk(NamedTuple):
    """What a disk is known by. Of an RBD image there may be several monitors; one in common is the same image."""

    kind: str
    name: str
    monitors: frozenset[str]
    #: Two pods that only read do not disturb each other.
    shared: bool

    def conflicts(self, other: "Disk") -> bool:
        return (
            (self.kind, self.name) == (other.kind, other.name)
            and not (self.shared and other.shared)
            and (not self.monitors or bool(self.monitors & other.monitors))
        )


def disks_of(pod: Pod) -> Iterator[Disk]:
    """The disks of a pod that could conflict with another's."""
    for volume in pod.spec.volumes:
        disk = _disk(volume)
        if disk is not None:
            yield disk


def conflict(pod: Pod, other: Pod) -> bool:
    """Whether two pods cannot be on one node because of a disk."""
    return any(one.conflicts(another) for one in disks_of(pod) for another in disks_of(other))


class DisksInUse:
    """The disks of pods on nodes."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        #: By what a disk is known by: how it is used, on which nodes and by how many pods.
        self._uses: defaultdict[tuple[str, str], defaultdict[Disk, Counter[str]]] = defaultdict(_uses)

    def place(self, pod: Pod, node: str, sign: int) -> None:
        """A pod came to a node (`sign` 1) or left it (-1)."""
        for disk in disks_of(pod):
            uses = self._uses[disk.kind, disk.name]
            uses[disk][node] += sign
            if not uses[disk][node]:
                del uses[disk][node]
            if not uses[disk]:
                del uses[disk]
            if not uses:
                del self._uses[disk.kind, disk.name]

    def conflicting(self, pod: Pod) -> NodeSet:
        """The nodes on which a disk of the pod is in use in a way that excludes it."""
        return nodeset.of(
            self._topology.slot(node)
            for disk in disks_of(pod)
            for used, nodes in self._uses.get((disk.kind, disk.name), _uses()).items()
            if disk.conflicts(used)
            for node in nodes
            if node in self._topology
        )


def _uses() -> defaultdict[Disk, Counter[str]]:
    return defaultdict(Counter)


def _disk(volume: PodVolume) -> Disk | None:
    anywhere: frozenset[str] = frozenset()
    if (gce := volume.gce_persistent_disk) is not None:
        return Disk("gce", gce.pd_name, anywhere, gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        return Disk("ebs", ebs.volume_id, anywhere, shared=False)
    if (iscsi := volume.iscsi) is not None:
        return Disk("iscsi", iscsi.iqn, anywhere, iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        return Disk("rbd", f"{rbd.pool}/{rbd.image}", frozenset(rbd.monitors), rbd.read_only)
    return None
