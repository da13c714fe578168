"""One claim explained: how far it has come, and, where it waits for a pod, what that pod waits for.

Remedies of a claim that a pod waits for are that pod's, tried by deciding again. Where no pod uses the claim, they are
tried by looking at the claim again: it must not be stuck then.
"""

from typing import Final

import msgspec

from mooring.api.kinds import CLAIM
from mooring.api.views.claim import Claim
from mooring.explain import claim_remedies, new_node
from mooring.explain.pod import explain_in
from mooring.explain.remedies import Advice, only_steps
from mooring.explain.situation import Situation
from mooring.explain.standings import Standings
from mooring.explain.trials import applied
from mooring.explain.verdicts import ClaimStanding, Remedy

#: How many of the pods a claim waits for are explained with it.
PODS_TOLD: Final = 3
#: How many proposals are tried for a claim that no pod uses.
MAX_PROPOSALS: Final = 8


def explain_claim(situation: Situation, claim: Claim) -> ClaimStanding:
    standing = situation.standings.of(claim)
    waiting = [pod for pod in situation.standings.pods(claim) if not pod.spec.node_name][:PODS_TOLD]
    if standing.state == "ConsumerUnscheduled" and waiting:
        told = [explain_in(situation, pod).verdict for pod in waiting]
        verdict = f"{standing.verdict.removesuffix('.')}: {told[0].verdict}"
        notes = (*standing.notes, *(other.verdict for other in told[1:]))
        standing = msgspec.structs.replace(
            standing, verdict=verdict, notes=notes, stuck=not any(one.ok for one in told), checks=()
        )
        first = told[0]
    elif standing.stuck and waiting:
        first = explain_in(situation, waiting[0]).verdict
    else:
        found = _tried_alone(situation, claim, standing) if standing.stuck else Advice()
        helps = tuple(one.text for one in found.remedies)
        return msgspec.structs.replace(standing, helps=helps, remedies=found.remedies, not_enough=found.not_enough)
    return msgspec.structs.replace(
        standing,
        helps=first.helps,
        remedies=first.remedies,
        not_enough=first.not_enough,
        checks=tuple(dict.fromkeys((*standing.checks, *first.checks))),
    )


def _tried_alone(situation: Situation, claim: Claim, standing: ClaimStanding) -> Advice:
    objects = situation.objects
    proposals = [
        *new_node.for_place(standing, claim, objects),
        *claim_remedies.for_standing(standing, claim, objects),
    ]
    remedies: list[Remedy] = []
    short: list[str] = []
    for remedy in (one for proposal in proposals[:MAX_PROPOSALS] for one in only_steps(proposal)):
        changed, _ = applied(objects, remedy.changes)
        found = changed.get(CLAIM, claim.key)
        after = None if found is None else Standings(changed, situation.events).of(found)
        if after is not None and not after.stuck:
            remedies.append(remedy)
        elif after is not None and after.state != standing.state:
            short.append(f"{remedy.text}; also needs: {after.verdict.removesuffix('.')}")
    return Advice(tuple(remedies), tuple(short))
