"""Model of a pod with several claims and two nodes, where one claim cannot be provisioned on one of the nodes.

Scheduler, provisioner, coordinator, PV controller and crashes of each, with the production rules deciding what the
provisioner and the coordinator do. Timers are nondeterministic: an action that follows a timeout may occur at any time.
Without rollback the model is Kubernetes as it is, where pods get stuck.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from mooring.volumes.binding import HoldState
from mooring.volumes.holds import policy, transitions
from mooring.volumes.holds.transitions import ClaimFacts, HoldSnapshot, Intent, IntentPhase, VolumeFacts

NODES: Final = ("A", "B")
LAST_ATTEMPT: Final = 3


class Claim(NamedTuple):
    #: Static claims have a volume on each node already; theirs are held by the scheduler and never deleted.
    static: bool = False
    selected: str = ""
    bound: bool = False
    #: State, node and attempt of its volume.
    pv: tuple[HoldState, str, int] | None = None
    backend: str = ""
    intent: Intent | None = None
    doing: tuple[Any, ...] | None = None


class State(NamedTuple):
    claims: tuple[Claim, ...]
    #: Where the pod was bound to.
    pod: str = ""

    def with_claim(self, number: int, claim: Claim) -> "State":
        claims = list(self.claims)
        claims[number] = claim
        return self._replace(claims=tuple(claims))


class GroupModel:
    def __init__(self, *, rolls_back: bool = True, only_on: dict[int, str] | None = None) -> None:
        """`only_on`: the single node on which the volume of a claim, by number, can be provisioned."""
        self._rolls_back = rolls_back
        self._only_on = only_on or {}

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        if not state.pod:
            yield from self._scheduler(state)
        for number, claim in enumerate(state.claims):
            yield from self._provisioner(state, number, claim)
            yield from self._coordinator(state, number, claim)
            if claim.pv is not None and claim.pv[0] is HoldState.COMMITTED and not claim.bound:
                yield f"claim {number} is bound", state.with_claim(number, claim._replace(bound=True))
            if claim.doing is not None:
                yield "the provisioner crashes", state.with_claim(number, claim._replace(doing=None))

    def _scheduler(self, state: State) -> Iterator[tuple[str, State]]:
        """One claim at a time, as its writes go out; bound claims and claims with a node pin the others."""
        pinned = {claim.pv[1] if claim.bound and claim.pv else claim.selected for claim in state.claims} - {""}
        for node in NODES if not pinned else pinned if len(pinned) == 1 else ():
            for number, claim in enumerate(state.claims):
                if claim.bound or claim.selected:
                    continue
                if claim.static and claim.pv is None:
                    held = claim._replace(selected=node, pv=(HoldState.HELD, node, 0))
                    yield f"claim {number} holds its volume on {node}", state.with_claim(number, held)
                elif not claim.static:
                    chosen = claim._replace(selected=node)
                    yield f"claim {number} selects {node}", state.with_claim(number, chosen)
        places = {claim.pv[1] for claim in state.claims if claim.bound and claim.pv}
        if all(claim.bound for claim in state.claims) and len(places) == 1:
            yield "the pod is bound", state._replace(pod=places.pop())

    def _provisioner(self, state: State, number: int, claim: Claim) -> Iterator[tuple[str, State]]:
        if claim.static:
            return
        snapshot = snapshot_of(claim)
        match claim.doing:
            case None:
                step = transitions.next_provisioning_step(snapshot)
            case ("refused",):
                step = transitions.after_refusal(snapshot, reschedule=True)
            case ("deleted",):
                step = transitions.Nothing()
        for name, after in self._carried_out(number, claim, step):
            yield f"claim {number}: {name}", state.with_claim(number, after)
        if claim.doing is None or claim.doing == ("deleted",):
            for name, after in self._undone(claim, snapshot):
                yield f"claim {number}: {name}", state.with_claim(number, after)

    def _carried_out(self, number: int, claim: Claim, step: object) -> Iterator[tuple[str, Claim]]:
        match step:
            case transitions.OpenAttempt(intent):
                # Attempts are counted up to a bound, and all further ones are like the last.
                attempt = min(intent.attempt, LAST_ATTEMPT)
                yield "an attempt begins", claim._replace(intent=Intent(attempt, intent.node, intent.phase))
            case transitions.CreateStorage(node, attempt):
                state = HoldState.HELD if self._rolls_back else HoldState.COMMITTED
                if self._only_on.get(number, node) == node:
                    made = claim._replace(backend=node)
                    yield "provisioned and recorded", made._replace(pv=(state, node, attempt))
                    yield "provisioned, response lost", made
                elif not claim.backend:
                    yield "CreateVolume fails", claim._replace(doing=("refused",))
            case transitions.ClearSelectedNode():
                yield "unselected", claim._replace(selected="")
            case transitions.Close(intent):
                yield "closed", claim._replace(intent=intent, doing=None)

    def _undone(self, claim: Claim, snapshot: HoldSnapshot) -> Iterator[tuple[str, Claim]]:
        match transitions.next_rollback_step(snapshot, storage_deleted=claim.doing == ("deleted",)):
            case transitions.DeleteStorage():
                yield "storage deleted", claim._replace(backend="", doing=("deleted",))
            case transitions.ClearSelectedNode():
                yield "unselected", claim._replace(selected="")
            case transitions.Close(intent):
                yield "rollback recorded", claim._replace(intent=intent)
            case transitions.RemoveVolume():
                yield "PersistentVolume deleted", claim._replace(pv=None, doing=None)

    def _coordinator(self, state: State, number: int, claim: Claim) -> Iterator[tuple[str, State]]:
        if claim.pv is None or claim.pv[0] is not HoldState.HELD:
            return
        group = [claim_state_of(each, f"claim-{place}") for place, each in enumerate(state.claims)]
        judged = group[number]
        for timeouts in (ELAPSED, NOT_ELAPSED):
            decided = policy.verdict(judged, [group], held_seconds=1, unused_seconds=0, timeouts=timeouts)
            match decided:
                case policy.Commit() if transitions.may_commit(judged.snapshot):
                    committed = claim._replace(pv=(HoldState.COMMITTED, *claim.pv[1:]))
                    yield f"claim {number} is committed", state.with_claim(number, committed)
                case policy.RollBack() if transitions.may_roll_back(judged.snapshot):
                    if claim.static:
                        freed = claim._replace(pv=None, selected="")
                    else:
                        freed = claim._replace(pv=(HoldState.ROLLING_BACK, *claim.pv[1:]))
                    yield f"claim {number} is rolled back", state.with_claim(number, freed)


#: All timeouts have elapsed, or none: both are possible at any time.
ELAPSED: Final = policy.HoldTimeouts(sibling=0, unused=1e9, hold=1e9)
NOT_ELAPSED: Final = policy.HoldTimeouts(sibling=1e9, unused=1e9, hold=1e9)


@cache
def snapshot_of(claim: Claim) -> HoldSnapshot:
    facts = ClaimFacts("u", claim.selected, "v" if claim.bound else "")
    volume = None
    if claim.pv is not None:
        state, node, attempt = claim.pv
        volume = VolumeFacts("v", state, node, attempt, "h", static=claim.static)
    return HoldSnapshot(facts, volume, claim.intent)


@cache
def claim_state_of(claim: Claim, name: str) -> policy.ClaimState:
    place = claim.pv[1] if claim.pv is not None else ""
    return policy.ClaimState(
        name,
        snapshot_of(claim),
        bound=claim.pv is not None and claim.pv[0] is HoldState.COMMITTED,
        reaches=lambda node: node == place,
        provisioning=claim.intent is not None and claim.intent.phase is IntentPhase.CREATING,
        unassigned_seconds=1,
    )


def half_committed(state: State) -> str:
    """All or nothing: once one volume of the pod is committed, every other is, or is held on the same node."""
    committed = {claim.pv[1] for claim in state.claims if claim.pv and claim.pv[0] is HoldState.COMMITTED}
    if not committed:
        return ""
    if len(committed) > 1:
        return "volumes of one pod were committed on two nodes"
    (node,) = committed
    for claim in state.claims:
        if claim.pv is None or claim.pv[1] != node or claim.pv[0] is HoldState.ROLLING_BACK:
            return "a volume was committed although the pod did not have all of them on its node"
    return ""
