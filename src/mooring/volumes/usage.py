"""Which volumes pods use on which nodes: what counts against limits, and disks that exclude each other.

Kept by `state.VolumeState`, which tells it of every pod that comes to a node or leaves it.
"""

from collections.abc import Callable

from mooring.api.views.pod import Pod
from mooring.api.views.storage import VolumeAttachment
from mooring.volumes.attach_limits import AttachLimits, ClaimUse, uses_of
from mooring.volumes.disks_in_use import DisksInUse
from mooring.volumes.in_tree import Identity, disks_with_drivers
from mooring.volumes.topology import TopologyIndex


class VolumeUsage:
    """Volumes of pods on nodes, by driver and by disk."""

    def __init__(
        self,
        topology: TopologyIndex,
        claimed: Callable[[ClaimUse], Identity | None],
        attached: Callable[[VolumeAttachment], Identity | None],
    ) -> None:
        """`claimed` says which volume a pod has that uses a claim so, and `attached` which one an attachment means."""
        self.limits = AttachLimits(topology, claimed, attached)
        self.disks = DisksInUse(topology)

    def place(self, pod: Pod, node: str, sign: int) -> None:
        """A pod came to a node (`sign` 1) or left it (-1)."""
        if pod.spec.volumes:
            self.limits.place(node, uses_of(pod), disks_with_drivers(pod), sign)
            self.disks.place(pod, node, sign)

    def exceeded_by(self, pod: Pod, node: str) -> str:
        """The driver of which a pod that came to a node has one volume too many there; "" where none is."""
        if not (pod.spec.volumes and self.limits.any):
            return ""
        return self.limits.exceeded_by(node, uses_of(pod), disks_with_drivers(pod))
