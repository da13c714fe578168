"""Intents, snapshots, safety rules, and the next step of provisioning, rollback and orphan removal. Pure.

Safety rests on `may_commit`, `may_roll_back` and the order of steps here, on nothing in `policy`. The next step is a
function of recorded state, so that a restart continues where the last run ended; the caller holds a lock per claim.
"""

import enum
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from mooring.volumes.binding import HoldState


class IntentPhase(enum.Enum):
    #: CreateVolume was or is about to be called: a volume may exist that nothing else names.
    CREATING = "Creating"
    #: The volume is in a PersistentVolume.
    CREATED = "Created"
    #: The driver has said that there is no volume.
    FAILED = "Failed"
    #: The volume was deleted again.
    ROLLED_BACK = "RolledBack"


#: Nothing of the attempt is left: another may begin.
CLOSED = frozenset({IntentPhase.FAILED, IntentPhase.ROLLED_BACK})


class Intent(msgspec.Struct, frozen=True):
    """What a provisioner is about to do for a claim, recorded before it does it: one record per claim uid.

    Attempts are numbered and never restart while the claim exists, so that requests of an old leader are recognised.
    Every change is a compare-and-swap:

        (none) ──► CREATING 1 ──► CREATED 1 ──► ROLLED_BACK 1 ──► CREATING 2 ──► …
                        └──► FAILED 1 ──► CREATING 2 ──► …
    """

    #: Numbered from 1 where volumes are held; 0 is an attempt whose volume goes to its claim as soon as it is there.
    attempt: int
    node: str
    phase: IntentPhase

    @property
    def held(self) -> bool:
        return self.attempt > 0

    def now(self, phase: IntentPhase) -> "Intent":
        return msgspec.structs.replace(self, phase=phase)

    @property
    def closed(self) -> bool:
        return self.phase in CLOSED

    def is_being_made(self, attempt: int) -> bool:
        """Whether a volume of this attempt may still be on its way."""
        return self.attempt == attempt and self.phase is IntentPhase.CREATING

    def is_for_attempt(self, attempt: int) -> bool:
        """Whether a volume of this attempt is there for certain: it was created, and not rolled back since."""
        return self.attempt == attempt and self.phase is IntentPhase.CREATED


class MalformedIntent(ValueError):
    """The record was not written by this protocol."""


def to_data(intent: Intent) -> dict[str, str]:
    """As the record's ConfigMap holds it. Attempts that are not held carry no number: a process of an earlier version
    would take the record for one of a held volume."""
    numbered = {"attempt": str(intent.attempt)} if intent.held else {}
    return numbered | {"node": intent.node, "phase": intent.phase.value}


def from_data(data: Mapping[str, str]) -> Intent:
    """The one place that tells records of held attempts from others. Raises MalformedIntent."""
    try:
        attempt = int(data["attempt"]) if "attempt" in data else 0
        if attempt < 0 or ("attempt" in data and not attempt):
            raise ValueError(f"attempt {attempt}")
        return Intent(attempt, data["node"], IntentPhase(data["phase"]))
    except (KeyError, ValueError) as problem:
        raise MalformedIntent(f"not the record of an attempt: {problem}") from problem


class ClaimFacts(msgspec.Struct, frozen=True):
    """A claim that exists. One that is gone, or was created again under another uid, is None to the rules."""

    uid: str
    selected_node: str = ""
    #: Which volume it is bound to or asks for; written once and never cleared.
    volume_name: str = ""
    deleting: bool = False


class VolumeFacts(msgspec.Struct, frozen=True):
    """A volume as its PersistentVolume tells."""

    name: str
    state: HoldState
    #: The node it was created or chosen for.
    node: str
    attempt: int = 0
    #: What the driver calls it; never used twice.
    handle: str = ""
    #: It existed before it was held: no attempt created it, and a rollback only lifts the hold.
    static: bool = False
    #: The object's deletion was requested; the finalizer keeps it.
    deleting: bool = False
    #: It has the marks that every held volume is made with and that go when it is given.
    marked: bool = True
    #: A VolumeAttachment names it.
    attached: bool = False


class HoldSnapshot(msgspec.Struct, frozen=True):
    """Everything about one claim and its volume at one moment. Read live, not from a cache, before a write."""

    claim: ClaimFacts | None
    volume: VolumeFacts | None
    intent: Intent | None

    @property
    def bound_here(self) -> bool:
        """The claim names this volume, so it is, or is about to be, in use."""
        return self.claim is not None and self.volume is not None and self.claim.volume_name == self.volume.name

    @property
    def bound_elsewhere(self) -> bool:
        return self.claim is not None and bool(self.claim.volume_name) and not self.bound_here


def may_commit(snapshot: HoldSnapshot) -> bool:
    """Whether the volume may become the claim's own: it is there, it is of the attempt on record, and the claim
    is still there and free to take it."""
    claim, volume, intent = snapshot.claim, snapshot.volume, snapshot.intent
    if claim is None or claim.deleting or snapshot.bound_elsewhere:
        return False
    if volume is None or volume.state is not HoldState.HELD or volume.deleting:
        return False
    # A volume of a closed attempt may be the late work of an old leader, whose storage is gone; and while an attempt
    # is open, another CreateVolume may still come of it.
    return volume.static or (intent is not None and intent.is_for_attempt(volume.attempt))


def may_roll_back(snapshot: HoldSnapshot) -> bool:
    """Whether the volume may be rolled back: it was never committed and is not about to be. A static one is freed
    by the same swap that sends a provisioned one on its way out."""
    volume = snapshot.volume
    if volume is None or volume.state is not HoldState.HELD or volume.attached:
        return False
    return not snapshot.bound_here


class Nothing(msgspec.Struct, frozen=True):
    """There is nothing to do, for now."""


class OpenAttempt(msgspec.Struct, frozen=True):
    """Write the intent, in place of the one that was looked at."""

    intent: Intent


class CreateStorage(msgspec.Struct, frozen=True):
    """Call CreateVolume for the node, then save what it answers as a held volume of this attempt."""

    node: str
    attempt: int


class Close(msgspec.Struct, frozen=True):
    """Write how the attempt ended."""

    intent: Intent


class ClearSelectedNode(msgspec.Struct, frozen=True):
    """Take the claim's selected node away, if it still is this one."""

    node: str


ProvisioningStep: TypeAlias = Nothing | OpenAttempt | CreateStorage | Close | ClearSelectedNode


def next_provisioning_step(snapshot: HoldSnapshot) -> ProvisioningStep:
    """OpenAttempt, CreateStorage, save the volume, Close(CREATED); on failure ClearSelectedNode, Close(FAILED).

    An open attempt is completed on its node, whatever node the claim has selected since.
    """
    claim, volume, intent = snapshot.claim, snapshot.volume, snapshot.intent
    if intent is not None and intent.phase is IntentPhase.CREATING:
        if volume is None:
            return CreateStorage(intent.node, intent.attempt)
        # Saved, but not closed. A volume of another attempt has to go first.
        return Close(intent.now(IntentPhase.CREATED)) if volume.attempt == intent.attempt else Nothing()
    if volume is not None:
        return Nothing()
    if intent is not None and intent.phase is IntentPhase.CREATED:
        if claim is None or claim.volume_name:
            return Nothing()
        # The object of a volume that was created is gone; the volume may not be.
        return OpenAttempt(intent.now(IntentPhase.CREATING))
    if claim is None or claim.deleting or claim.volume_name or not claim.selected_node:
        return Nothing()
    attempt = 1 if intent is None else intent.attempt + 1
    return OpenAttempt(Intent(attempt, claim.selected_node, IntentPhase.CREATING))


def after_refusal(snapshot: HoldSnapshot, *, reschedule: bool) -> ProvisioningStep:
    """The driver has said that there is no volume, and will be none: the attempt is closed. Where another node is to be
    tried (`reschedule`) the choice of this one goes first."""
    claim, intent = snapshot.claim, snapshot.intent
    if intent is None or intent.phase is not IntentPhase.CREATING:
        return Nothing()
    if reschedule and claim is not None and claim.selected_node == intent.node:
        return ClearSelectedNode(intent.node)
    return Close(intent.now(IntentPhase.FAILED))


class BeginRollback(msgspec.Struct, frozen=True):
    """Swap the volume from HELD to ROLLING_BACK."""


class DeleteStorage(msgspec.Struct, frozen=True):
    """Call DeleteVolume until it succeeds."""

    handle: str


class RemoveVolume(msgspec.Struct, frozen=True):
    """Delete the PersistentVolume and take our finalizer off it."""


class RejectRollback(msgspec.Struct, frozen=True):
    """A used volume was marked for rollback by hand: nothing is deleted, an event reports it."""


RollbackStep: TypeAlias = (
    Nothing | BeginRollback | DeleteStorage | ClearSelectedNode | Close | RemoveVolume | RejectRollback
)


def next_rollback_step(snapshot: HoldSnapshot, *, storage_deleted: bool) -> RollbackStep:
    """DeleteStorage, ClearSelectedNode, Close(ROLLED_BACK), RemoveVolume: in this order.

    Storage goes before the object, or a crash in between leaves a volume that no object names; the record before the
    object, because the object prevents another attempt. `storage_deleted`: this run's DeleteVolume call succeeded; it
    is not recorded, because deleting again after a crash succeeds.
    """
    volume, claim, intent = snapshot.volume, snapshot.claim, snapshot.intent
    if volume is None:
        return Nothing()
    if volume.state is HoldState.HELD and volume.deleting and not snapshot.bound_here:
        # A person deleted the object of a held volume. That is a decision like any other.
        return BeginRollback()
    if volume.state is not HoldState.ROLLING_BACK:
        return Nothing()
    if snapshot.bound_here or volume.attached or not volume.marked or volume.static:
        return RejectRollback()
    if not storage_deleted:
        return DeleteStorage(volume.handle)
    if intent is not None and intent.attempt == volume.attempt and intent.phase is not IntentPhase.ROLLED_BACK:
        if claim is not None and claim.selected_node == volume.node:
            return ClearSelectedNode(volume.node)
        return Close(intent.now(IntentPhase.ROLLED_BACK))
    return RemoveVolume()


class DeleteOrphan(msgspec.Struct, frozen=True):
    """Call DeleteVolume for what was found."""


class IgnoreOrphan(msgspec.Struct, frozen=True):
    """It may have been used: it is reported, not deleted."""


OrphanStep: TypeAlias = Nothing | OpenAttempt | DeleteOrphan | IgnoreOrphan


def next_orphan_step(snapshot: HoldSnapshot, *, name: str, node: str) -> OrphanStep:
    """For a driver volume of the claim's name without PersistentVolume, reachable from `node`.

    While the claim may still be provisioned, deleting it would race with an attempt that gets the same volume by name:
    an attempt is opened for it instead, and the held volume is rolled back like any other. Otherwise it is deleted only
    if the last attempt is known to have ended without a volume: it may be a used one whose object was deleted (Retain).
    """
    claim, volume, intent = snapshot.claim, snapshot.volume, snapshot.intent
    if volume is not None or (intent is not None and intent.phase is IntentPhase.CREATING):
        return Nothing()
    if claim is not None and not claim.volume_name:
        attempt = 1 if intent is None else intent.attempt + (1 if intent.closed else 0)
        return OpenAttempt(Intent(attempt, node, IntentPhase.CREATING))
    is_its_own = claim is not None and claim.volume_name == name
    if is_its_own or intent is None or not intent.closed:
        return IgnoreOrphan()
    return DeleteOrphan()
