"""When a held volume is committed and when it is rolled back, and why: the coordinator's policy. Pure.

Liveness only: `transitions` guards every write. A volume is committed as soon as one pod that uses its claim has all
its volumes on one node, and rolled back when that is impossible there, or has been unlikely for long enough.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from mooring.backoff import exponential_backoff
from mooring.volumes.binding import HoldState
from mooring.volumes.holds.transitions import HoldSnapshot, IntentPhase


class HoldTimeouts(msgspec.Struct, frozen=True):
    """How long what is only likely is waited for, in seconds."""

    #: A sibling without a node, or with another. Longer than a scheduler waits at most before it tries a pod again
    #: (kube-scheduler's podMaxBackoffSeconds, 10 s): until then nothing has failed.
    sibling: float = 15.0
    #: The same, where the sibling's last attempt failed on this very node: covers the time between a scheduler's writes
    #: for one pod, in which the record is still that of the time before.
    failed_sibling: float = 5.0
    #: No pod wants the claim any more; the next one of its workload may be on its way.
    unused: float = 60.0
    #: Held for whatever reason: kube-scheduler's bindTimeoutSeconds, after which no scheduler waits for the volume.
    hold: float = 600.0
    #: Holding ends: nothing that is not complete now is waited for.
    draining: bool = False


class RollbackReason(enum.Enum):
    """Why a volume was rolled back, in the words of the event; `{sibling}` and `{node}` are filled in."""

    CLAIM_GONE = "its claim is gone or has another volume"
    STALE = "it belongs to an attempt that was given up before"
    SECOND = "its claim has another volume that is held or given"
    MISPLACED = "its driver made it where node {node} cannot reach it"
    MOVED = "its claim is no longer meant for node {node}"
    SIBLING_ELSEWHERE = 'claim "{sibling}" of the same pod has a volume that node {node} cannot reach'
    SIBLING_FAILED = 'claim "{sibling}" of the same pod gets no volume on node {node}'
    ABANDONED = "no pod wants it any more"
    TOO_LONG = "its pod did not get all its volumes on node {node} in time"
    DRAINED = "volumes are not held any longer, and its pod does not have all of its on node {node}"


#: Reasons and texts of the coordinator's events on claims and pods; `explain` looks them up.
COMMITTED: Final = "VolumeCommitted"
COMMITTED_TEXT: Final = "volume {volume} is given to the claim: its pod has all its volumes"
ROLLED_BACK: Final = "ProvisioningRolledBack"
ROLLED_BACK_TEXT: Final = "volume {volume} is rolled back unused: {reason}"
ROLLED_BACK_POD_TEXT: Final = 'volume of claim "{claim}" is rolled back: {reason}'


class Commit(msgspec.Struct, frozen=True):
    """A pod has everything on this volume's node."""


class RollBack(msgspec.Struct, frozen=True):
    reason: RollbackReason
    #: Name of the claim that is to blame, where one is.
    sibling: str = ""


class Wait(msgspec.Struct, frozen=True):
    """Nothing yet; look again in so many seconds, or when something changes."""

    seconds: float


Verdict: TypeAlias = Commit | RollBack | Wait


class ClaimState(msgspec.Struct, frozen=True):
    """How far a claim has come."""

    name: str
    snapshot: HoldSnapshot
    #: Bound, or committed and about to be; by any component.
    bound: bool = False
    #: Another volume is to be the claim's: a scheduler chose again before the last hold was lifted.
    superseded: bool = False
    #: Whether its volume, held or bound, can be used from a node.
    reaches: Callable[[str], bool] = lambda _: False
    #: Its volume is being provisioned: an open attempt, or a selected node and a driver that keeps no intents.
    provisioning: bool = False
    #: How long ago it was first without volume and maker, and without the node its siblings are on. Counted until it
    #: has a volume: being asked for again on that node changes nothing.
    unassigned_seconds: float = 0.0

    @property
    def held_on(self) -> str:
        """The node its held volume was created for; "" if none is held."""
        volume = self.snapshot.volume
        return volume.node if volume is not None and volume.state is HoldState.HELD else ""

    def ready_on(self, node: str) -> bool:
        if not self.reaches(node):
            return False
        return self.bound or (self.held_on == node and not self.selected_node_changed)

    @property
    def selected_node_changed(self) -> bool:
        """The selected node of the claim changed after its volume was provisioned for another."""
        claim, volume = self.snapshot.claim, self.snapshot.volume
        if volume is None or volume.static:
            return False
        return claim is None or claim.selected_node != volume.node


#: The claims of one pod.
Group: TypeAlias = Sequence[ClaimState]


def verdict(
    held: ClaimState, groups: Iterable[Group], *, held_seconds: float, unused_seconds: float, timeouts: HoldTimeouts
) -> Verdict:
    """`groups` are the claims of every pod that wants this one, itself among them; `unwanted_seconds` is for how long
    there has been no such pod."""
    volume, groups = held.snapshot.volume, tuple(groups)
    assert volume is not None
    if reason := permanent_failure(held):
        return RollBack(reason)
    if held.snapshot.bound_here:
        # The claim's volumeName names the volume already, which cannot be undone.
        return Commit()
    if any(all(each.ready_on(volume.node) for each in group) for group in groups):
        return Commit()
    if timeouts.draining:
        return RollBack(RollbackReason.DRAINED)
    if held_seconds >= timeouts.hold:
        return RollBack(RollbackReason.TOO_LONG)
    if not groups:
        left = timeouts.unused - unused_seconds
        return RollBack(RollbackReason.ABANDONED) if left <= 0 else Wait(min(left, timeouts.hold - held_seconds))
    wait = timeouts.hold - held_seconds
    for sibling in _siblings(held, groups):
        if _is_elsewhere(sibling, volume.node):
            return RollBack(RollbackReason.SIBLING_ELSEWHERE, sibling.name)
        if _is_unassigned(sibling, volume.node):
            left = _timeout_for(sibling, volume.node, timeouts) - sibling.unassigned_seconds
            if left <= 0:
                return RollBack(RollbackReason.SIBLING_FAILED, sibling.name)
            wait = min(wait, left)
    return Wait(wait)


#: Reasons that lie in the claim and its record alone, and are looked at once more on live reads.
CLAIM_REASONS: Final = frozenset({RollbackReason.CLAIM_GONE, RollbackReason.STALE, RollbackReason.MOVED})


def permanent_failure(held: ClaimState) -> RollbackReason | None:
    """What no patience would change."""
    snapshot, volume = held.snapshot, held.snapshot.volume
    assert volume is not None
    claim, intent = snapshot.claim, snapshot.intent
    if claim is None or claim.deleting or snapshot.bound_elsewhere:
        return RollbackReason.CLAIM_GONE
    if volume.static and held.superseded:
        return RollbackReason.SECOND
    if not volume.static and (intent is None or intent.attempt != volume.attempt or intent.closed):
        return RollbackReason.STALE
    if snapshot.bound_here:
        return None
    if held.selected_node_changed:
        return RollbackReason.MOVED
    return None if held.reaches(volume.node) else RollbackReason.MISPLACED


def _siblings(held: ClaimState, groups: Iterable[Group]) -> list[ClaimState]:
    return [each for group in groups for each in group if each.name != held.name and not each.ready_on(held.held_on)]


def _is_elsewhere(sibling: ClaimState, node: str) -> bool:
    if sibling.bound:
        return not sibling.reaches(node)
    return sibling.held_on not in ("", node)


def depends_on_record(sibling: ClaimState, node: str) -> bool:
    """Whether a verdict on volumes for this node depends on the sibling's record: it has no volume, and its claim does
    not say that one is being provisioned there."""
    claim = sibling.snapshot.claim
    if sibling.bound or sibling.snapshot.volume is not None:
        return False
    return claim is None or claim.selected_node != node


def _is_unassigned(sibling: ClaimState, node: str) -> bool:
    """Whether its volume is neither being provisioned nor requested on this node."""
    return depends_on_record(sibling, node) and not sibling.provisioning


def _timeout_for(sibling: ClaimState, node: str, timeouts: HoldTimeouts) -> float:
    intent = sibling.snapshot.intent
    failed_here = intent is not None and intent.phase is IntentPhase.FAILED and intent.node == node
    return min(timeouts.failed_sibling, timeouts.sibling) if failed_here else timeouts.sibling


#: The longest pause between two attempts for one claim.
MAX_RETRY_BACKOFF_SECONDS: Final = 300.0
#: The same for a claim of a group.
MAX_GROUP_CLAIM_SECONDS: Final = 10.0


def retry_backoff(attempt: int, *, in_group: bool = False) -> float:
    """Seconds before the node of a claim is unselected after its n-th volume was rolled back: a pod that two nodes
    refuse in turn must not keep drivers busy. A group has a pause of its own in its record: of its claims it is short,
    for schedulers that do not read the record."""
    return exponential_backoff(1.0, MAX_GROUP_CLAIM_SECONDS if in_group else MAX_RETRY_BACKOFF_SECONDS, attempt)
