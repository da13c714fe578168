"""Backend volumes that nothing names: late work of an old leader, or an answer nobody waited for.

A volume whose name follows from a claim is an orphan when there is neither a PersistentVolume nor an open intent for
that claim. It must not simply be deleted while the claim may still be served: the next attempt would be given the very
volume, by name, that the sweep is about to delete. So the sweep opens an attempt for it, as if it had asked for it;
the volume becomes held, and is rolled back like any other. Only where no attempt can begin any more is it deleted.
"""

from typing import TypeAlias

import msgspec

from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent, Phase
from mooring.volumes.holds.provisioning import Nothing, OpenAttempt


class DeleteOrphan(msgspec.Struct, frozen=True):
    """Call DeleteVolume for what was found."""


Step: TypeAlias = Nothing | OpenAttempt | DeleteOrphan


def next_step(situation: Situation, *, node: str) -> Step:
    """For a backend volume of the claim's name that the driver lists, reachable from `node`."""
    claim, volume, intent = situation.claim, situation.volume, situation.intent
    if volume is not None or (intent is not None and intent.phase is Phase.CREATING):
        return Nothing()
    if claim is None or claim.volume_name:
        return DeleteOrphan()
    attempt = 1 if intent is None else intent.attempt + (1 if intent.closed else 0)
    return OpenAttempt(Intent(attempt, node, Phase.CREATING))
