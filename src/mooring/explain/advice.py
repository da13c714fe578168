"""What would help a pod that is not well, from all that was found out about it, the surest first.

Remedies are changes that were tried (`remedies`); what no change to the listed objects can answer is told as something
to look at. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from mooring.api.kinds import CLAIM, NODE
from mooring.explain import claim_remedies, data_loss, new_node, node_remedies
from mooring.explain.cluster_changes import RecoverNode
from mooring.explain.consumers import left_alone
from mooring.explain.inspection import Inspection
from mooring.explain.lost_nodes import lost_nodes
from mooring.explain.messages.lookup import remedy
from mooring.explain.remedies import Advice, Choice, Proposal, Step, tried
from mooring.explain.trials import FAR, FAR_WEIGHT, Scene, Trials
from mooring.explain.verdicts import ClaimStanding, NodeVerdict, Remedy
from mooring.scheduler.contract import RejectionCode

#: Groups of nodes that advice is given for, and remedies that are told.
NEAREST: Final = 3
MAX_REMEDIES: Final = 6

_FAR: Final = frozenset(code.value for code in FAR)
_STORAGE: Final = frozenset(
    {
        RejectionCode.NO_VOLUME,
        RejectionCode.STORAGE_CAPACITY,
        RejectionCode.VOLUME_MISSING,
        RejectionCode.VOLUME_AFFINITY,
        RejectionCode.VOLUME_ZONE,
    }
)


class PodAdvice(NamedTuple):
    remedies: tuple[Remedy, ...] = ()
    not_enough: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


def advice(found: Inspection) -> PodAdvice:
    advising = _Advising(found)
    checks = tuple(dict.fromkeys(text for text in advising.checks() if text))
    remedies: dict[str, Remedy] = {}
    short: dict[str, None] = {}
    for proposals in (advising.proposals(), advising.last_resorts()):
        for proposal in proposals:
            if len(remedies) >= MAX_REMEDIES:
                break
            told = advising.tried(proposal)
            remedies |= {one.text: one for one in told.remedies if one.text not in remedies}
            short |= dict.fromkeys(told.not_enough)
        if remedies and not advising.is_half_stuck:
            break
    shown = sorted(_least([*remedies.values()])[:MAX_REMEDIES], key=lambda one: data_loss.is_warned(one.text))
    # What is not enough is worth telling only where nothing is, or where a volume may be gone for good.
    told_short = not shown or any(one.state == "Unreachable" for one in found.standings)
    return PodAdvice(tuple(shown), tuple(short)[:NEAREST] if told_short else (), checks)


def _least(remedies: Sequence[Remedy]) -> list[Remedy]:
    """Without those that do all that another one does, and more."""
    done = [frozenset(msgspec.json.encode(change) for change in one.changes) for one in remedies]
    return [one for one, mine in zip(remedies, done, strict=True) if not any(other < mine for other in done)]


class _Advising:
    def __init__(self, found: Inspection) -> None:
        self._found = found
        self._pod = found.pod
        self._objects = found.situation.objects
        self._scene = Scene(self._objects, found.attempt, found.decision)
        self._trials = Trials(self._objects, found.pod, found.attempt.snapshot, found.situation.profile)
        self._waiting = [one for one in found.standings if one.state not in ("Bound", "ConsumerUnscheduled")]

    def tried(self, proposal: Proposal) -> Advice:
        return tried(proposal, self._trials, self._choices)

    def checks(self) -> Iterator[str]:
        """What to look at, and what is impossible."""
        pod = self._pod
        if pod.finished:
            yield remedy(f"{pod.status.reason} {pod.status.message}") or "create the pod again"
        elif left_alone(pod, self._found.situation.events):
            name = pod.spec.scheduler_name
            yield f'start scheduler "{name}", or create the pod again with another schedulerName'
        elif any(one.checks for one in self._waiting):
            yield from (text for one in self._waiting for text in one.checks)
        elif self._found.refusals and not pod.spec.node_name:
            yield from (remedy(one.reason) or f"see what is behind it: {one.reason}" for one in self._found.refusals)
        elif NODE in self._objects.unseen and not self._objects.of(NODE):
            yield "ask for the right to list nodes; `mooring docs explain` has the role"
        else:
            yield new_node.conflict(new_node.fixed(self._scene))
            yield from self._untold()

    def proposals(self) -> Iterator[Proposal]:
        """What to try, the nearest first."""
        pod = self._pod
        if pod.finished or left_alone(pod, self._found.situation.events):
            return
        if NODE in self._objects.unseen and not self._objects.of(NODE):
            return
        if pod.spec.node_name:
            yield from self._for_placed(pod.spec.node_name)
            return
        waiting = [one for one in self._waiting if one.stuck or one.checks]
        yield from self._for_claims(waiting)
        if waiting or self._found.refusals:
            return
        for name in self._nearest():
            yield Proposal(tuple(self._choices(self._scene, name)), name)
        yield from new_node.new_node(self._scene)
        yield from claim_remedies.other_classes(self._scene)

    @property
    def is_half_stuck(self) -> bool:
        """Whether the pod has some of its volumes and gets no others."""
        claims = self._found.attempt.claims
        return not isinstance(claims, str) and bool(claims.bound) and not claims.all_bound

    def last_resorts(self) -> Iterator[Proposal]:
        """What costs data: for pods whose volumes keep them from every node."""
        placed = self._pod.finished or self._pod.spec.node_name
        if not placed and not self._found.refusals and self._found.nodes:
            yield from claim_remedies.without_volumes(self._scene)

    def _for_placed(self, name: str) -> Iterator[Proposal]:
        """Of a pod that is on a node and cannot run there."""
        node = self._objects.get(NODE, name)
        if node is not None and name in lost_nodes(self._objects):
            step = Step(node_remedies.recovery(node, self._objects.moment), (RecoverNode(name),))
            yield Proposal(((step,),), name)
            yield Proposal(((Step(data_loss.give_up_node(name), ()),),))
        elif not any(one.state == "ConsumerPlaced" for one in self._found.standings):
            yield Proposal(((Step(data_loss.reschedule(self._pod.key), ()),),))

    def _for_claims(self, standings: Iterable[ClaimStanding]) -> Iterator[Proposal]:
        for standing in standings:
            claim = self._objects.get(CLAIM, standing.claim)
            if claim is None:
                continue
            if standing.state == "Unreachable":
                yield from new_node.for_place(standing, claim, self._objects)
                yield from new_node.new_node(self._scene)
            yield from claim_remedies.for_standing(standing, claim, self._objects)

    def _choices(self, scene: Scene, name: str) -> Sequence[Choice]:
        """All that could be done about a node, in the order of the reasons against it."""
        here = self._found.nodes.get(name) if scene is self._scene else None
        verdict = scene.verdict(name) if here is None else here
        return tuple(choice for choice in _choices_of(scene, name, verdict) if choice)

    def _nearest(self) -> list[str]:
        """One node of each group, those first with the least in the pod's way; none that data keeps it off."""
        groups: dict[tuple[frozenset[str], tuple[str, ...]], str] = {}
        for name, node in self._found.nodes.items():
            codes = frozenset(one.code for one in node.reasons)
            short = RejectionCode.STORAGE_CAPACITY.value in codes
            reported = tuple(claim.rooms[0].capacity for claim in node.volumes if claim.rooms and short)
            groups.setdefault((codes, reported), name)
        ordered = sorted(
            ((_distance(codes), name, codes) for (codes, _), name in groups.items() if codes),
            key=lambda group: group[:2],
        )
        return [name for _, name, codes in ordered if not codes & _FAR][:NEAREST]

    def _untold(self) -> Iterator[str]:
        """Reasons for which there is nothing to try: what their message means in general."""
        told: dict[str, None] = {}
        for name in self._nearest():
            for reason in self._found.nodes[name].reasons:
                if RejectionCode(reason.code) is RejectionCode.OTHER:
                    told[f"on {name}: {remedy(reason.reason) or reason.reason}"] = None
        yield from told


def _choices_of(scene: Scene, name: str, verdict: NodeVerdict) -> Iterator[Choice]:
    for reason in verdict.reasons:
        code = RejectionCode(reason.code)
        if code in _STORAGE:
            yield from claim_remedies.choices_on(scene, name, code, verdict)
        else:
            yield from node_remedies.choices_on(scene, name, reason)


def _distance(codes: Iterable[str]) -> int:
    return sum(FAR_WEIGHT if code in _FAR else 1 for code in codes)
