"""When a held volume is committed, when it is given up, and why: the coordinator's judgement.

Nothing here is about safety: `gates` stands between every verdict and the write. What is decided here is whether a pod
gets anywhere. A volume is committed as soon as one pod that wants it has all its volumes on one node; it is given up as
soon as it is certain, or has been likely for long enough, that this will not happen there.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Phase
from mooring.volumes.plan import HoldState

#: All of a pod's claims, by their standing.
Group: TypeAlias = Sequence["Standing"]


class Patience(msgspec.Struct, frozen=True):
    """How long what is only likely is waited for, in seconds."""

    #: A sibling without a node, or with another. Longer than a scheduler waits at most before it tries a pod again
    #: (kube-scheduler's podMaxBackoffSeconds, 10 s): as long as that it is nobody's turn, and nothing has failed.
    grace: float = 15.0
    #: The same, where the sibling's last attempt failed on this very node: covers the time between a scheduler's writes
    #: for one pod, in which the record is still that of the time before.
    failed: float = 5.0
    #: No pod wants the claim any more; the next one of its workload may be on its way.
    abandon: float = 60.0
    #: Held for whatever reason: kube-scheduler's bindTimeoutSeconds, after which nobody waits for the volume.
    hold: float = 600.0
    #: Holding ends: nothing that is not complete now is waited for.
    ending: bool = False


class Reason(enum.Enum):
    """Why a volume was given up, in the words of the event; `{sibling}` and `{node}` are filled in."""

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


class Commit(msgspec.Struct, frozen=True):
    """A pod has everything on this volume's node."""


class GiveUp(msgspec.Struct, frozen=True):
    reason: Reason
    #: Name of the claim that is to blame, where one is.
    sibling: str = ""


class Wait(msgspec.Struct, frozen=True):
    """Nothing yet; look again in so many seconds, or when something changes."""

    seconds: float


Verdict: TypeAlias = Commit | GiveUp | Wait


class Standing(msgspec.Struct, frozen=True):
    """How far a claim has come."""

    name: str
    situation: Situation
    #: Bound, or committed and about to be; by us or by anybody.
    bound: bool = False
    #: Another volume is to be the claim's: a scheduler chose anew before the last hold was lifted.
    doubled: bool = False
    #: Whether its volume, held or bound, can be used from a node.
    reaches: Callable[[str], bool] = lambda _: False
    #: Somebody is making its volume: an open attempt of ours, or a driver that keeps no records and was given a node.
    in_the_making: bool = False
    #: How long ago it was first without volume and maker, and without the node its siblings are on. Counted until it
    #: has a volume: being asked for again on that node changes nothing.
    adrift_seconds: float = 0.0

    @property
    def held_on(self) -> str:
        """The node its held volume was created for; "" if none is held."""
        volume = self.situation.volume
        return volume.node if volume is not None and volume.state is HoldState.HELD else ""

    def ready_on(self, node: str) -> bool:
        if not self.reaches(node):
            return False
        return self.bound or (self.held_on == node and not self.moved)

    @property
    def moved(self) -> bool:
        """The choice of the node that its volume was made for went while it was made."""
        claim, volume = self.situation.claim, self.situation.volume
        if volume is None or volume.static:
            return False
        return claim is None or claim.selected_node != volume.node


def verdict(
    held: Standing, groups: Iterable[Group], *, held_seconds: float, unwanted_seconds: float, patience: Patience
) -> Verdict:
    """`groups` are the claims of every pod that wants this one, itself among them; `unwanted_seconds` is for how long
    there has been no such pod."""
    volume, groups = held.situation.volume, tuple(groups)
    assert volume is not None
    if reason := impossible(held):
        return GiveUp(reason)
    if held.situation.bound_here:
        # SEEN: somebody wrote the volume into the claim, which cannot be undone.
        return Commit()
    if any(all(each.ready_on(volume.node) for each in group) for group in groups):
        return Commit()
    if patience.ending:
        return GiveUp(Reason.DRAINED)
    if held_seconds >= patience.hold:
        return GiveUp(Reason.TOO_LONG)
    if not groups:
        left = patience.abandon - unwanted_seconds
        return GiveUp(Reason.ABANDONED) if left <= 0 else Wait(min(left, patience.hold - held_seconds))
    wait = patience.hold - held_seconds
    for sibling in _siblings(held, groups):
        if _elsewhere(sibling, volume.node):
            return GiveUp(Reason.SIBLING_ELSEWHERE, sibling.name)
        if _adrift(sibling, volume.node):
            left = _patience_with(sibling, volume.node, patience) - sibling.adrift_seconds
            if left <= 0:
                return GiveUp(Reason.SIBLING_FAILED, sibling.name)
            wait = min(wait, left)
    return Wait(wait)


#: Reasons that lie in the claim and its record alone, and are looked at once more on live reads.
OF_THE_CLAIM: Final = frozenset({Reason.CLAIM_GONE, Reason.STALE, Reason.MOVED})


def impossible(held: Standing) -> Reason | None:
    """What no patience would change."""
    situation, volume = held.situation, held.situation.volume
    assert volume is not None
    claim, intent = situation.claim, situation.intent
    if claim is None or claim.deleting or situation.bound_elsewhere:
        return Reason.CLAIM_GONE
    if volume.static and held.doubled:
        return Reason.SECOND
    if not volume.static and (intent is None or intent.attempt != volume.attempt or intent.closed):
        return Reason.STALE
    if situation.bound_here:
        return None
    if held.moved:
        return Reason.MOVED
    return None if held.reaches(volume.node) else Reason.MISPLACED


def _siblings(held: Standing, groups: Iterable[Group]) -> list[Standing]:
    return [each for group in groups for each in group if each.name != held.name and not each.ready_on(held.held_on)]


def _elsewhere(sibling: Standing, node: str) -> bool:
    if sibling.bound:
        return not sibling.reaches(node)
    return sibling.held_on not in ("", node)


def _adrift(sibling: Standing, node: str) -> bool:
    """Nobody makes its volume, and nobody was asked to make it on this node."""
    claim = sibling.situation.claim
    if sibling.bound or sibling.in_the_making or sibling.situation.volume is not None:
        return False
    return claim is None or claim.selected_node != node


def _patience_with(sibling: Standing, node: str, patience: Patience) -> float:
    intent = sibling.situation.intent
    failed_here = intent is not None and intent.phase is Phase.FAILED and intent.node == node
    return min(patience.failed, patience.grace) if failed_here else patience.grace


#: The longest pause between two attempts for one claim.
LONGEST_PAUSE: Final = 300.0


def pause_before_retry(attempt: int) -> float:
    """Seconds before the node of a claim is unselected after its n-th volume was rolled back: a pod that two nodes
    refuse in turn must not keep drivers busy."""
    return min(2.0 ** (min(attempt, 20) - 1), LONGEST_PAUSE)
