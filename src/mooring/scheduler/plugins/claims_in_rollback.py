"""ClaimsInRollback: stands in the profile while the feature gate ClaimRollback is on.

Says no to pods with a claim that is being unbound: what it is bound to now it will not be bound to for long. Which
claims are to be unbound is found out by `unbinding`.
"""

from typing import ClassVar

from mooring.scheduler import changes
from mooring.scheduler.contract import Cycle, Hint, PreFilter
from mooring.scheduler.interests import CLAIM
from mooring.volumes.clean_claims import rolls_back


def refusal(claim: str) -> str:
    return f'persistentvolumeclaim "{claim}" is being rolled back'


class ClaimsInRollback:
    name: ClassVar[str] = "ClaimsInRollback"
    only_volumes: ClassVar[bool] = True
    #: A claim made anew under the same name is not the one that was in the way.
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("PersistentVolumeClaim", frozenset({changes.ADD, changes.UPDATE}), about=CLAIM),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        for key in cycle.pod.claim_keys:
            claim = cycle.snapshot.volumes.claim(key)
            if claim is not None and rolls_back(claim):
                return refusal(claim.name)
        return None


_contract: PreFilter = ClaimsInRollback()
