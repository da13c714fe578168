"""One claim explained: how far it has come, and, where it waits for a pod, what that pod waits for."""

from typing import Final

import msgspec

from mooring.api.views.claim import Claim
from mooring.explain.pod import explain_in
from mooring.explain.situation import Situation
from mooring.explain.verdicts import ClaimStanding

#: How many of the pods a claim waits for are explained with it.
PODS_TOLD: Final = 3


def explain_claim(situation: Situation, claim: Claim) -> ClaimStanding:
    standing = situation.standings.of(claim)
    if standing.state != "ConsumerUnscheduled":
        return standing
    waiting = [pod for pod in situation.standings.pods(claim) if not pod.spec.node_name][:PODS_TOLD]
    told = [explain_in(situation, pod).verdict for pod in waiting]
    if not told:
        return standing
    first = told[0]
    verdict = f"{standing.verdict.removesuffix('.')}: {first.verdict}"
    helps = first.helps or standing.helps
    notes = (*standing.notes, *(other.verdict for other in told[1:]))
    stuck = not any(one.ok for one in told)
    return msgspec.structs.replace(standing, verdict=verdict, notes=notes, stuck=stuck, helps=helps)
