"""Unbinding a claim that no pod has used: what is the next write, and what stands in the way?

Pure, a part of the claim state machine with the gate `ClaimRollback`. Whoever finds that a pod cannot be placed because
of clean claims marks them; here each is taken apart from its volume, the claim first:

    bound, marked ──► claim without volume ──► volume without claim, or gone ──► mark goes, claim is free

A crash in between leaves the mark, and the next look goes on from there. Until the claim has lost its volume the
rollback can be refused; if the mark disappears after that, the claim is bound anew to what still points to it.
"""

from collections.abc import Iterable
from typing import Protocol

from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.pvcontroller import claim_status
from mooring.pvcontroller.claim_status import PENDING
from mooring.pvcontroller.intents import (
    EndRollback,
    ForsakeVolume,
    ReleaseVolume,
    Say,
    SetClaimStatus,
    Step,
    UnbindClaim,
)
from mooring.volumes.clean_claims import Fate, fate, forsaken_by, unbound_from, why_kept

ROLLED_BACK = "ClaimRolledBack"
REFUSED = "ClaimRollbackRefused"


class Facts(Protocol):
    """What has to be looked up."""

    def volume(self, name: str) -> Volume | None: ...

    def pods_near(self, claim: Claim) -> Iterable[str]:
        """Names of pods of the claim that were let onto a node, or may still be."""
        ...


def next_step(claim: Claim, facts: Facts) -> Step:
    """For a claim that is marked."""
    if claim.spec.volume_name:
        return _unbind(claim, facts)
    # SEEN: the claim has no volume any more, or had none when it was marked; nobody can be using any.
    volume = facts.volume(unbound_from(claim))
    if volume is not None and forsaken_by(volume) == claim.uid:
        # SEEN: its provisioner is about to remove it, and would make none beside it.
        return _pending(claim) or Step()
    if volume is not None and volume.spec.claim_ref is not None and volume.spec.claim_ref.uid == claim.uid:
        return _let_go(volume, claim)
    return _pending(claim) or Step(EndRollback(claim))


def _unbind(claim: Claim, facts: Facts) -> Step:
    refused = why_kept(claim, facts.volume(claim.spec.volume_name)) or _needed(claim, facts)
    if refused is not None:
        text = f"claim keeps its volume: {refused}"
        return Step(EndRollback(claim), (Say(claim, "Warning", REFUSED, text),))
    text = f'claim is unbound from volume "{claim.spec.volume_name}", which no pod has used'
    return Step(UnbindClaim(claim), (Say(claim, "Normal", ROLLED_BACK, text),))


def _needed(claim: Claim, facts: Facts) -> str | None:
    """A pod that has a node is its node's to refuse; unbound under its hands, the claim would never come back there."""
    pods = sorted(facts.pods_near(claim))
    return f"{'pod' if len(pods) == 1 else 'pods'} {','.join(pods)} may be about to use it" if pods else None


def _let_go(volume: Volume, claim: Claim) -> Step:
    match fate(claim, volume):
        case Fate.REMOVED:
            return Step(ForsakeVolume(volume, claim))
        case Fate.FREED:
            return Step(ReleaseVolume(volume, whole=True))
        case str():
            # SEEN: somebody has reserved the volume by hand since: then it shall be the claim's.
            return Step(EndRollback(claim))


def _pending(claim: Claim) -> Step | None:
    changes = claim_status.changes(claim, PENDING, None)
    return Step(SetClaimStatus(claim, PENDING, changes)) if changes else None
