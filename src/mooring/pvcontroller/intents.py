"""What the state machines may ask for: one write at a time, and things to say about it.

A machine looks at what is true now and names the next write, if any. The shell carries it out and asks again with
the object the server returned, so a crash between any two writes needs no recovery of its own: the next look
continues where the last write got to.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume


class ReserveVolume(NamedTuple):
    """Let the volume's claimRef point at the claim; `by_controller` marks that no user asked for it."""

    volume: Volume
    claim: Claim
    by_controller: bool


class ReleaseVolume(NamedTuple):
    """Take the volume back from a claim that went elsewhere.

    `whole` clears claimRef and the controller's mark; otherwise only the uid goes, because the user wrote the rest.
    """

    volume: Volume
    whole: bool


class SetVolumePhase(NamedTuple):
    volume: Volume
    phase: str
    message: str = ""


class PointClaim(NamedTuple):
    """Complete the claim: volumeName (unless the user set it) and the annotations that say who did what."""

    claim: Claim
    volume: str


class SetClaimStatus(NamedTuple):
    """Report the phase and what the volume offers: only the fields that differ, None for those that go."""

    claim: Claim
    phase: str
    changes: Mapping[str, Any]


class AssignClass(NamedTuple):
    """Give a claim without any class the default one."""

    claim: Claim
    storage_class: str


class HandToProvisioner(NamedTuple):
    """Tell the external provisioner that this claim is its to serve."""

    claim: Claim
    provisioner: str


class NoteHandover(NamedTuple):
    """Note which CSI driver looks after an object instead of an in-tree plugin, "" for none, and who guards it."""

    target: Claim | Volume
    driver: str
    finalizers: tuple[str, ...]


class MarkClean(NamedTuple):
    """Say that nobody has used the claim's volume, before it has one."""

    claim: Claim


class UnbindClaim(NamedTuple):
    """Take a clean claim's volume from it, and the choice of its node."""

    claim: Claim


class ForsakeVolume(NamedTuple):
    """Take the claim from a volume that was made for it, so that its provisioner removes it."""

    volume: Volume
    claim: Claim


class EndRollback(NamedTuple):
    """Take the mark off a claim whose rollback is over, or was refused."""

    claim: Claim


Write = (
    ReserveVolume
    | ReleaseVolume
    | SetVolumePhase
    | PointClaim
    | SetClaimStatus
    | AssignClass
    | HandToProvisioner
    | NoteHandover
    | MarkClean
    | UnbindClaim
    | ForsakeVolume
    | EndRollback
)


class Say(NamedTuple):
    """An event for people, about a claim or a volume."""

    about: Claim | Volume
    type: str
    reason: str
    message: str


class Step(NamedTuple):
    """The next write, if anything is left to do, and what to say once it is done, or if there is none."""

    write: Write | None = None
    says: tuple[Say, ...] = ()
    #: The key of a claim that should be looked at because of what was seen here.
    look_at_claim: str = ""
    #: What stands in the way of a decision, for the log. The object is looked at again when something changes.
    problem: str = ""
