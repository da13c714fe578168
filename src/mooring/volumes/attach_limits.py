"""CSINode attach limits: how many volumes of each driver a node has and may have, for all nodes at once.

Fed by `state.VolumeState` with pods, VolumeAttachments and CSINodes. A volume counts once per node, whether pods use
it, an attachment names it, or both; volumes that would be bound or provisioned for the pod count too. Where the
driver depends on the volume chosen, every choice is checked on the nodes close to their limit.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.views.pods import Pod
from mooring.api.views.storage import CsiNode, VolumeAttachment
from mooring.multimap import Multimap, Tally
from mooring.volumes import topology as volumes_topology
from mooring.volumes.in_tree import VolumeIdentity
from mooring.volumes.topology import EMPTY, NodeChange, NodeSet, TopologyIndex

#: Stands for "as many as you like"; no node is given that many volumes.
UNLIMITED: Final = 2**31

Counts = npt.NDArray[np.int64]


class PodClaimUse(NamedTuple):
    """A pod's use of a claim."""

    #: By its key.
    claim: str
    #: The uid of the pod that the claim must have been created for, else the pod has no volume of it; "" for any.
    owner: str = ""


def claim_uses(pod: Pod) -> dict[PodClaimUse, None]:
    """The claims a pod uses, in the order of its volumes. One of an ephemeral volume is the pod's own or none."""
    named = ((pod.claim_name(volume), volume) for volume in pod.spec.volumes)
    return dict.fromkeys(
        PodClaimUse(f"{pod.namespace}/{name}", "" if volume.ephemeral is None else pod.uid)
        for name, volume in named
        if name
    )


def driver_limits(csi_node: CsiNode) -> dict[str, int]:
    """How many volumes of each driver a node takes; a driver without a limit is not listed."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class AttachLimits:
    """Volumes on nodes by driver, and what is left of each limit. Nodes are names; columns over slots follow them."""

    def __init__(
        self,
        topology: TopologyIndex,
        claimed: Callable[[PodClaimUse], VolumeIdentity | None],
        attached: Callable[[VolumeAttachment], VolumeIdentity | None],
    ) -> None:
        """`claimed` says which volume a pod has that uses a claim so, and `attached` which one an attachment means."""
        self._topology = topology
        self._claimed = claimed
        self._attached = attached
        #: By use of a claim, the nodes with pods that use it so and how many of them.
        self._users: defaultdict[PodClaimUse, Tally[str]] = defaultdict(Tally)
        self._uses: Multimap[str, PodClaimUse] = Multimap()
        self._counted_as: dict[PodClaimUse, VolumeIdentity | None] = {}
        self._attachments: dict[str, tuple[VolumeAttachment, VolumeIdentity | None]] = {}
        self._attachments_of: Multimap[str, str] = Multimap()
        #: By volume, the nodes it is on and for how many reasons.
        self._on: defaultdict[VolumeIdentity, Tally[str]] = defaultdict(Tally)
        self._used: defaultdict[str, Tally[str]] = defaultdict(Tally)
        self._limits: dict[str, Mapping[str, int]] = {}
        #: By driver with a limit somewhere: how many nodes have one, and what is left by slot.
        self._limited: Tally[str] = Tally()
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
            if not self._limited.add(driver, -1):
                self._left.pop(driver, None)
        if now is not None:
            self._limits[name] = driver_limits(now)
            for driver in self._limits[name]:
                self._limited.add(driver, 1)
        self._mark(name)

    def observe_attachment(self, name: str, now: VolumeAttachment | None) -> None:
        known = self._attachments.pop(name, None)
        if known is not None:
            self._attachments_of.discard(known[0].spec.source.persistent_volume_name, name)
            self._count(known[1], known[0].spec.node_name, -1)
        if now is not None:
            identity = self._attached(now)
            self._attachments[name] = (now, identity)
            self._attachments_of.add(now.spec.source.persistent_volume_name, name)
            self._count(identity, now.spec.node_name, 1)

    def count_pod(self, node: str, uses: Iterable[PodClaimUse], disks: Iterable[VolumeIdentity], sign: int) -> None:
        """A pod that uses claims so and has these disks of its own came to a node (`sign` 1) or left it (-1)."""
        for use in uses:
            if use not in self._counted_as:
                self._uses.add(use.claim, use)
                self._counted_as[use] = self._claimed(use)
            self._users[use].add(node, sign)
            self._count(self._counted_as[use], node, sign)
            if not self._users[use]:
                del self._users[use], self._counted_as[use]
                self._uses.discard(use.claim, use)
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

    def nodes_using(self, claim: str) -> frozenset[str]:
        """The nodes with pods that use a claim."""
        return frozenset(node for use in self._uses.get(claim, ()) for node in self._users[use])

    def nodes_with(self, volume: VolumeIdentity) -> Iterable[str]:
        """The nodes a volume is on already."""
        return self._on.get(volume, {}).keys()

    def driver_over_limit(self, node: str, uses: Iterable[PodClaimUse], disks: Iterable[VolumeIdentity]) -> str:
        """The driver of which a pod that was placed on the node has one volume too many there; "" where none is.
        Volumes that are there for other reasons as well are not the pod's doing."""
        limits = self._limits.get(node, {})
        if not limits:
            return ""
        own = Counter(identity for use in uses if (identity := self._counted_as.get(use)) is not None)
        own.update(disks)
        for identity, reasons in own.items():
            limit = limits.get(identity.driver)
            if (
                limit is not None
                and self._used[identity.driver].get(node, 0) > limit
                and self._on[identity][node] <= reasons
            ):
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

    def _count(self, identity: VolumeIdentity | None, node: str, reasons: int) -> None:
        if identity is None:
            return
        before = self._on[identity].get(node, 0)
        now = self._on[identity].add(node, reasons)
        if not self._on[identity]:
            del self._on[identity]
        if bool(before) != bool(now):
            self._used[identity.driver].add(node, 1 if now else -1)
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


class RequestedVolumes(NamedTuple):
    """What a pod needs on a node: volumes known beforehand, and for each further claim the drivers it may come from.

    A further claim that may also come from no driver at all, such as a local volume, lists "" among them.
    """

    known: Collection[VolumeIdentity] = ()
    further: tuple[frozenset[str], ...] = ()

    @property
    def drivers(self) -> list[str]:
        """The drivers that are needed whatever volumes are chosen, by name."""
        certain = {driver for drivers in self.further if len(drivers) == 1 for driver in drivers if driver}
        return sorted(certain | {volume.driver for volume in self.known})


class DriverChoice(NamedTuple):
    """One way to serve the further claims: where that can be done, and the drivers of the volumes it takes."""

    nodes: NodeSet
    drivers: tuple[str, ...]


def over_limit(
    requested: RequestedVolumes,
    limits: AttachLimits,
    topology: TopologyIndex,
    choices: Callable[[NodeSet], Iterable[DriverChoice]],
) -> NodeSet:
    """The nodes that would have too many volumes, whichever are chosen. `choices` says which there are on nodes in
    doubt; one on which the further claims cannot be served at all is not refused here for what they would take."""
    drivers = {volume.driver for volume in requested.known}.union(*requested.further)
    over, doubtful = EMPTY, EMPTY
    remaining: dict[str, Counts] = {}
    for driver in drivers:
        if not limits.limits(driver):
            continue
        new = _new(requested.known, driver, limits, topology)
        remaining[driver] = limits.left(driver) - new
        least = sum(drivers_of_claim == {driver} for drivers_of_claim in requested.further)
        most = sum(driver in drivers_of_claim for drivers_of_claim in requested.further)
        # A pod without new volumes of a driver may go where there are too many already.
        over |= volumes_topology.node_set_from_mask((remaining[driver] < least) & (new + least > 0))
        if most > least:
            doubtful |= volumes_topology.node_set_from_mask(remaining[driver] < most)
    over &= topology.all
    return over | _in_excess(doubtful & topology.all & ~over, remaining, choices)


def _in_excess(
    nodes: NodeSet, remaining: Mapping[str, Counts], choices: Callable[[NodeSet], Iterable[DriverChoice]]
) -> NodeSet:
    """Those of `nodes` that can serve the pod in some way, but in none with few enough volumes."""
    if not nodes:
        return EMPTY
    served, fitting = EMPTY, EMPTY
    for choice in choices(nodes):
        served |= choice.nodes
        within = choice.nodes & ~fitting
        for driver, count in Counter(choice.drivers).items():
            if within and driver in remaining:
                within &= volumes_topology.node_set_from_mask(remaining[driver] >= count)
        fitting |= within
        if not nodes & ~fitting:
            break
    return nodes & served & ~fitting


def _new(known: Iterable[VolumeIdentity], driver: str, limits: AttachLimits, topology: TopologyIndex) -> Counts:
    """By slot, how many of the known volumes of a driver the node does not have yet."""
    mine = [volume for volume in known if volume.driver == driver]
    new = np.full(topology.width, len(mine), dtype=np.int64)
    for volume in mine:
        for name in limits.nodes_with(volume):
            if name in topology:
                new[topology.slot(name)] -= 1
    return new


def exceeds_limits(volumes: Iterable[VolumeIdentity], node: str, limits: AttachLimits, topology: TopologyIndex) -> bool:
    """Whether these volumes are too many for a node, beside those it has."""
    slot = topology.slot(node)
    coming = Counter(one.driver for one in dict.fromkeys(volumes) if node not in limits.nodes_with(one))
    return any(limits.limits(driver) and limits.left(driver)[slot] < count for driver, count in coming.items())
