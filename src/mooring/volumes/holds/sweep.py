"""Backend volumes that nothing names: late work of an old leader, or an answer nobody waited for.

A volume whose name follows from a claim is an orphan when there is neither a PersistentVolume nor an open intent for
that claim. It must not simply be deleted while the claim may still be served: the next attempt would be given the very
volume, by name, that the sweep is about to delete. So the sweep opens an attempt for it, as if it had asked for it;
the volume becomes held, and is rolled back like any other.

Where no attempt can begin any more, it is deleted only if the last one is known to have ended without a volume.
Otherwise it may well be one that was used and kept: a person who deletes the object of a volume whose reclaim policy is
Retain leaves exactly this behind, and wants the data.
"""

from typing import TypeAlias

import msgspec

from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent, Phase
from mooring.volumes.holds.provisioning import Nothing, OpenAttempt


class DeleteOrphan(msgspec.Struct, frozen=True):
    """Call DeleteVolume for what was found."""


class Leave(msgspec.Struct, frozen=True):
    """Nobody can say that it was never used: a person is told of it."""


Step: TypeAlias = Nothing | OpenAttempt | DeleteOrphan | Leave


def next_step(situation: Situation, *, name: str, node: str) -> Step:
    """For a backend volume of the claim's name that the driver lists, reachable from `node`."""
    claim, volume, intent = situation.claim, situation.volume, situation.intent
    if volume is not None or (intent is not None and intent.phase is Phase.CREATING):
        return Nothing()
    if claim is not None and not claim.volume_name:
        attempt = 1 if intent is None else intent.attempt + (1 if intent.closed else 0)
        return OpenAttempt(Intent(attempt, node, Phase.CREATING))
    is_its_own = claim is not None and claim.volume_name == name
    if is_its_own or intent is None or not intent.closed:
        return Leave()
    return DeleteOrphan()
