"""How many volumes of each driver a node has and may have, for all nodes at once.

Kept by `state.VolumeState`: told which pods are on which nodes, what is attached there, and how many volumes a node's
drivers take. A volume counts once on a node, whether pods use it, an attachment names it, or both. What a claim stands
for changes while it is being bound; `recount` follows that. It decides nothing: `volume_count` asks it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiNode, VolumeAttachment
from mooring.volumes.in_tree import Identity
from mooring.volumes.topology import NodeChange, TopologyIndex

#: Stands for "as many as you like"; no node is given that many volumes.
UNLIMITED: Final = 2**31

Counts = npt.NDArray[np.int64]


class ClaimUse(NamedTuple):
    """A pod's use of a claim."""

    #: By its key.
    claim: str
    #: The uid of the pod that the claim must have been made for, else the pod has no volume of it; "" for any.
    owner: str = ""


def uses_of(pod: Pod) -> dict[ClaimUse, None]:
    """The claims a pod uses, in the order of its volumes. One of an ephemeral volume is the pod's own or none."""
    named = ((pod.claim_name(volume), volume) for volume in pod.spec.volumes)
    return dict.fromkeys(
        ClaimUse(f"{pod.namespace}/{name}", "" if volume.ephemeral is None else pod.uid)
        for name, volume in named
        if name
    )


class AttachLimits:
    """Volumes on nodes by driver, and what is left of each limit. Nodes are names; columns over slots follow them."""

    def __init__(
        self,
        topology: TopologyIndex,
        claimed: Callable[[ClaimUse], Identity | None],
        attached: Callable[[VolumeAttachment], Identity | None],
    ) -> None:
        """`claimed` says which volume a pod has that uses a claim so, and `attached` which one an attachment means."""
        self._topology = topology
        self._claimed = claimed
        self._attached = attached
        #: By use of a claim, the nodes with pods that use it so and how many of them.
        self._users: dict[ClaimUse, dict[str, int]] = {}
        self._uses: defaultdict[str, set[ClaimUse]] = defaultdict(set)
        self._counted_as: dict[ClaimUse, Identity | None] = {}
        self._attachments: dict[str, tuple[VolumeAttachment, Identity | None]] = {}
        self._attachments_of: defaultdict[str, set[str]] = defaultdict(set)
        #: By volume, the nodes it is on and for how many reasons.
        self._on: dict[Identity, dict[str, int]] = {}
        self._used: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._limits: dict[str, Mapping[str, int]] = {}
        #: By driver with a limit somewhere: how many nodes have one, and what is left by slot.
        self._limited: defaultdict[str, int] = defaultdict(int)
        self._left: dict[str, Counts] = {}
        self._stale: set[str] = set()
        topology.follow(self._node_changed)

    @property
    def any(self) -> bool:
        """Whether some node limits some driver."""
        return bool(self._limited)

    def limits(self, driver: str) -> bool:
        """Whether some node limits this driver."""
        return driver in self._limited

    def observe_csi_node(self, name: str, now: CsiNode | None) -> None:
        for driver in self._limits.pop(name, {}):
            self._limited[driver] -= 1
            if not self._limited[driver]:
                del self._limited[driver]
                self._left.pop(driver, None)
        if now is not None:
            self._limits[name] = {
                driver.name: driver.allocatable.count
                for driver in now.spec.drivers or ()
                if driver.allocatable is not None and driver.allocatable.count is not None
            }
            for driver in self._limits[name]:
                self._limited[driver] += 1
        self._mark(name)

    def observe_attachment(self, name: str, now: VolumeAttachment | None) -> None:
        known = self._attachments.pop(name, None)
        if known is not None:
            volume = known[0].spec.source.persistent_volume_name
            self._attachments_of[volume].discard(name)
            if not self._attachments_of[volume]:
                del self._attachments_of[volume]
            self._count(known[1], known[0].spec.node_name, -1)
        if now is not None:
            identity = self._attached(now)
            self._attachments[name] = (now, identity)
            self._attachments_of[now.spec.source.persistent_volume_name].add(name)
            self._count(identity, now.spec.node_name, 1)

    def place(self, node: str, uses: Iterable[ClaimUse], disks: Iterable[Identity], sign: int) -> None:
        """A pod that uses claims so and has these disks of its own came to a node (`sign` 1) or left it (-1)."""
        for use in uses:
            users = self._users.setdefault(use, {})
            if use not in self._counted_as:
                self._uses[use.claim].add(use)
                self._counted_as[use] = self._claimed(use)
            users[node] = users.get(node, 0) + sign
            self._count(self._counted_as[use], node, sign)
            if not users[node]:
                del users[node]
            if not users:
                del self._users[use]
                del self._counted_as[use]
                self._uses[use.claim].discard(use)
                if not self._uses[use.claim]:
                    del self._uses[use.claim]
        for disk in disks:
            self._count(disk, node, sign)

    def recount(self, claims: Iterable[str]) -> None:
        """These claims may stand for other volumes than before, or belong to others."""
        for use in [use for claim in claims for use in self._uses.get(claim, ())]:
            before, now = self._counted_as[use], self._claimed(use)
            if before != now:
                self._counted_as[use] = now
                for node, pods in self._users[use].items():
                    self._count(before, node, -pods)
                    self._count(now, node, pods)

    def recount_attachments(self, volume: str) -> None:
        """A volume of this name came, changed or went."""
        for name in self._attachments_of.get(volume, ()):
            attachment, before = self._attachments[name]
            now = self._attached(attachment)
            self._attachments[name] = (attachment, now)
            self._count(before, attachment.spec.node_name, -1)
            self._count(now, attachment.spec.node_name, 1)

    def recount_all(self) -> None:
        """Any claim may stand for another volume than before."""
        self.recount(tuple(self._uses))

    def in_use(self, claim: str, owner: str = "") -> bool:
        """Whether a pod on a node that is there uses a claim, which was made for the pod with this uid, if for any."""
        return any(
            node in self._topology
            for use in self._uses.get(claim, ())
            if use.owner in ("", owner)
            for node in self._users[use]
        )

    def nodes_with(self, volume: Identity) -> Iterable[str]:
        """The nodes a volume is on already."""
        return self._on.get(volume, {}).keys()

    def exceeded_by(self, node: str, uses: Iterable[ClaimUse], disks: Iterable[Identity]) -> str:
        """The driver of which a pod that was placed on the node has one volume too many there; "" where none is.

        Volumes that are there for other reasons as well are not the pod's doing.
        """
        limits = self._limits.get(node, {})
        if not limits:
            return ""
        own = Counter(identity for use in uses if (identity := self._counted_as.get(use)) is not None)
        own.update(disks)
        for identity, reasons in own.items():
            limit = limits.get(identity.driver)
            if limit is not None and self._used[identity.driver][node] > limit and self._on[identity][node] <= reasons:
                return identity.driver
        return ""

    def left(self, driver: str) -> Counts:
        """By slot, how many more volumes of a driver there may be; below zero where there are too many."""
        self._refresh()
        width = self._topology.width
        left = self._left.get(driver)
        if left is None or len(left) < width:
            # Twice as wide as needed, so that nodes that join one by one do not each cost a column.
            left = self._left[driver] = np.full(2 * width, UNLIMITED, dtype=np.int64)
            for name in self._limits:
                self._write(driver, left, name)
        return left[:width]

    def _count(self, identity: Identity | None, node: str, reasons: int) -> None:
        if identity is None:
            return
        on = self._on.setdefault(identity, {})
        before = on.get(node, 0)
        now = on[node] = before + reasons
        if not now:
            del on[node]
            if not on:
                del self._on[identity]
        if bool(before) != bool(now):
            used = self._used[identity.driver]
            used[node] += 1 if now else -1
            if not used[node]:
                del used[node]
            self._mark(node)

    def _mark(self, node: str) -> None:
        """A node that is not there is written when it comes."""
        if node in self._topology:
            self._stale.add(node)

    def _node_changed(self, change: NodeChange) -> None:
        # Whatever the slot of a node that left still says is overwritten when another takes it.
        if change.before is None:
            self._stale.add(change.name)
        elif change.name not in self._topology:
            self._stale.discard(change.name)

    def _refresh(self) -> None:
        for name in self._stale:
            for driver, left in self._left.items():
                self._write(driver, left, name)
        self._stale.clear()

    def _write(self, driver: str, left: Counts, name: str) -> None:
        if name in self._topology and (slot := self._topology.slot(name)) < len(left):
            limit = self._limits.get(name, {}).get(driver)
            used = self._used[driver].get(name, 0) if driver in self._used else 0
            left[slot] = UNLIMITED if limit is None else min(limit - used, UNLIMITED)
