"""What a provisioner does next for a claim whose volume is held before it is committed.

    P0 look ──► P1 OpenAttempt ──► P2 Create ──► P3 Save ──► P4 Close(CREATED)
                                        └─ no ──► Unselect ──► Close(FAILED)

A pure function of what is on record, so that a restart goes on where the last run ended: an attempt that was begun is
driven to its end on the node it was begun for, whatever the claim says by then. The caller holds a lock per claim
and does one step at a time.
"""

from typing import TypeAlias

import msgspec

from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent, Phase


class Nothing(msgspec.Struct, frozen=True):
    """There is nothing to do, for now."""


class OpenAttempt(msgspec.Struct, frozen=True):
    """Write the intent, in place of the one that was looked at."""

    intent: Intent


class Create(msgspec.Struct, frozen=True):
    """Call CreateVolume for the node, then save what it answers as a held volume of this attempt."""

    node: str
    attempt: int


class Close(msgspec.Struct, frozen=True):
    """Write how the attempt ended."""

    intent: Intent


class Unselect(msgspec.Struct, frozen=True):
    """Take the claim's selected node away, if it still is this one."""

    node: str


Step: TypeAlias = Nothing | OpenAttempt | Create | Close | Unselect


def next_step(situation: Situation) -> Step:
    claim, volume, intent = situation.claim, situation.volume, situation.intent
    if intent is not None and intent.phase is Phase.CREATING:
        if volume is None:
            return Create(intent.node, intent.attempt)
        # SEEN: saved, but not closed. A volume of another attempt has to go first.
        return Close(intent.now(Phase.CREATED)) if volume.attempt == intent.attempt else Nothing()
    if volume is not None:
        return Nothing()
    if intent is not None and intent.phase is Phase.CREATED:
        if claim is None or claim.volume_name:
            return Nothing()
        # SEEN: the object of a volume that was created is gone; the volume may not be.
        return OpenAttempt(intent.now(Phase.CREATING))
    if claim is None or claim.deleting or claim.volume_name or not claim.selected_node:
        return Nothing()
    attempt = 1 if intent is None else intent.attempt + 1
    return OpenAttempt(Intent(attempt, claim.selected_node, Phase.CREATING))


def after_refusal(situation: Situation, *, reschedule: bool) -> Step:
    """The driver has said that there is no volume, and will be none: the attempt is closed. Where another node is to be
    tried (`reschedule`) the choice of this one goes first."""
    claim, intent = situation.claim, situation.intent
    if intent is None or intent.phase is not Phase.CREATING:
        return Nothing()
    if reschedule and claim is not None and claim.selected_node == intent.node:
        return Unselect(intent.node)
    return Close(intent.now(Phase.FAILED))
