"""DelayedBindingOff: stands in the profile while the feature gate VolumeScheduling is off.

Says no to pods with claims that wait for a node to be chosen, since nobody would choose a volume with it. Pods whose
claims are bound, or are bound without regard to nodes, are not its business.
"""

from typing import ClassVar

from mooring.scheduler import changes
from mooring.scheduler.contract import Cycle, Hint, PreFilter
from mooring.scheduler.interests import CLAIM


def refusal(claim: str) -> str:
    return f'persistentvolumeclaim "{claim}" waits for a consumer, but the feature gate VolumeScheduling is off'


class DelayedBindingOff:
    name: ClassVar[str] = "DelayedBindingOff"
    #: Somebody else may bind the claim.
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("PersistentVolumeClaim", frozenset({changes.ADD, changes.UPDATE}), about=CLAIM),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        claims = cycle.claims
        if isinstance(claims, str) or claims.all_bound:
            return None
        waiting = (*claims.unbound, *claims.selected)[0]
        return refusal(waiting.claim.name)


_contract: PreFilter = DelayedBindingOff()
