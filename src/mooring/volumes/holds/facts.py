"""What the rules look at: as little of the objects as decides, so that a model can enumerate it."""

import msgspec

from mooring.volumes.holds.intent import Intent
from mooring.volumes.plan import HoldState


class ClaimFacts(msgspec.Struct, frozen=True):
    """A claim that exists. One that is gone, or was created anew under another uid, is None to the rules."""

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
    #: It was there before anybody held it: no attempt made it, and giving it up only lifts the hold.
    static: bool = False
    #: Somebody has asked for the object's deletion; the finalizer keeps it.
    deleting: bool = False
    #: It has the marks that every held volume is made with and that go when it is given.
    marked: bool = True
    #: A VolumeAttachment names it.
    attached: bool = False


class Situation(msgspec.Struct, frozen=True):
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
