"""How a volume goes that was never bound: storage first, then the choice of its node, then the object.

    R2 DeleteStorage ──► R3 Unselect, Close(ROLLED_BACK) ──► R4/R5 Remove

Storage before the object, or a crash in between leaves a volume that nothing names. The record before the object,
because the object is what keeps another attempt from beginning. Whether storage was deleted is not on record: after a
crash it is deleted again, which drivers answer with success.
"""

from typing import TypeAlias

import msgspec

from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Phase
from mooring.volumes.holds.provisioning import Close, Nothing, Unselect
from mooring.volumes.plan import HoldState


class GiveUp(msgspec.Struct, frozen=True):
    """Swap the volume from HELD to ROLLING_BACK."""


class DeleteStorage(msgspec.Struct, frozen=True):
    """Call DeleteVolume until it succeeds."""

    handle: str


class Remove(msgspec.Struct, frozen=True):
    """Delete the PersistentVolume and take our finalizer off it."""


class Refuse(msgspec.Struct, frozen=True):
    """Somebody with rights over volumes turned a used one around: nothing is deleted, a person is told."""


Step: TypeAlias = Nothing | GiveUp | DeleteStorage | Unselect | Close | Remove | Refuse


def next_step(situation: Situation, *, storage_deleted: bool) -> Step:
    """`storage_deleted` is whether this very run has had success from DeleteVolume for the volume's handle."""
    volume, claim, intent = situation.volume, situation.claim, situation.intent
    if volume is None:
        return Nothing()
    if volume.state is HoldState.HELD and volume.deleting and not situation.bound_here:
        # SEEN: a person deleted the object of a held volume. That is a decision like any other.
        return GiveUp()
    if volume.state is not HoldState.ROLLING_BACK:
        return Nothing()
    if situation.bound_here or volume.attached or not volume.marked or volume.static:
        return Refuse()
    if not storage_deleted:
        return DeleteStorage(volume.handle)
    if intent is not None and intent.attempt == volume.attempt and intent.phase is not Phase.ROLLED_BACK:
        if claim is not None and claim.selected_node == volume.node:
            return Unselect(volume.node)
        return Close(intent.now(Phase.ROLLED_BACK))
    return Remove()
