"""What must be true for a state to change, whoever wants it changed and why.

The two swaps of `claimRef` that decide a volume's fate. Both carry the version of the PersistentVolume that was looked
at, so each succeeds only from HELD, and one of two that cross fails. Safety rests on these two functions, on the
order in `rollback`, and on nothing that `verdicts` says.
"""

from mooring.volumes.holds.facts import Situation
from mooring.volumes.plan import HoldState


def may_commit(situation: Situation) -> bool:
    """Whether the volume may become the claim's own: it is there, it is of the attempt on record, and the claim
    is still there and free to take it."""
    claim, volume, intent = situation.claim, situation.volume, situation.intent
    if claim is None or claim.deleting or situation.bound_elsewhere:
        return False
    if volume is None or volume.state is not HoldState.HELD or volume.deleting:
        return False
    # A volume of a closed attempt may be the late work of an old leader, whose storage is gone; and while an attempt
    # is open, another CreateVolume may still come of it.
    return volume.static or (intent is not None and intent.vouches_for(volume.attempt))


def may_roll_back(situation: Situation) -> bool:
    """Whether the volume may be given up: nobody was ever given it, and nobody is about to be. A static one is freed
    by the same swap that sends a provisioned one on its way out."""
    volume = situation.volume
    if volume is None or volume.state is not HoldState.HELD or volume.attached:
        return False
    return not situation.bound_here
