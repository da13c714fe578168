"""All that was found out about one pod, before it is put into words: the scheduler's decision and what is behind it."""

from typing import NamedTuple

from mooring.api.kinds import CLAIM
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.explain.claims import ClaimsExplained
from mooring.explain.situation import Situation
from mooring.explain.verdicts import ClaimStanding, NodeVerdict, Reason
from mooring.scheduler.contract import Cycle, Decision


class Inspection(NamedTuple):
    pod: Pod
    situation: Situation
    #: As if the pod had no node.
    attempt: Cycle
    decision: Decision
    #: Against the pod on every node, what keeps it from being tried first.
    refusals: tuple[Reason, ...]
    nodes: dict[str, NodeVerdict]
    #: None where the claims could not even be looked at.
    explained: ClaimsExplained | None
    #: Its claims, in the order of its volumes.
    standings: tuple[ClaimStanding, ...]

    @property
    def claims(self) -> dict[str, Claim]:
        return claims_of(self.pod, self.situation)

    @property
    def fitting(self) -> int:
        """How many nodes the pod fits on."""
        left = self.attempt.snapshot.nodes
        for _, rejections in self.decision.said:
            for rejection in rejections:
                left &= ~rejection.nodes
        return 0 if self.refusals else left.bit_count()

    @property
    def tried(self) -> bool:
        """Whether a scheduler would look for a node at all."""
        return not self.refusals or bool(self.decision.refusals)


def claims_of(pod: Pod, situation: Situation) -> dict[str, Claim]:
    """The claims of a pod that exist, by key."""
    found = {key: situation.objects.get(CLAIM, key) for key in dict.fromkeys(pod.claim_keys)}
    return {key: claim for key, claim in found.items() if claim is not None}
