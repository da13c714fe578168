"""Remedies of a pod that does not run, verified, in the order of cost; and checks outside the listed objects. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from mooring.api.kinds import CLAIM, NODE
from mooring.explain.cluster_objects import lost_nodes
from mooring.explain.cluster_view import has_no_scheduler
from mooring.explain.inspection import FAR, PodDecision, PodInspection
from mooring.explain.messages import remedy
from mooring.explain.remedies import claims, data_loss, new_node, nodes
from mooring.explain.remedies.changes import RecoverNode
from mooring.explain.remedies.search import Advice, Choice, Proposal, Step, tried
from mooring.explain.remedies.verification import Trials
from mooring.explain.results import ClaimReport, Remedy
from mooring.scheduler.framework.interface import RejectionCode

#: Groups of nodes that advice is given for, and remedies that are told.
NEAREST: Final = 3
MAX_REMEDIES: Final = 6

_FAR: Final = frozenset(code.value for code in FAR)


def advice(found: PodInspection) -> Advice:
    advisor = _Advisor(found)
    checks = tuple(dict.fromkeys(text for text in advisor.checks() if text))
    remedies: dict[str, Remedy] = {}
    short: dict[str, None] = {}
    for proposals in (advisor.proposals(), advisor.last_resorts()):
        for proposal in proposals:
            if len(remedies) >= MAX_REMEDIES:
                break
            told = advisor.tried(proposal)
            remedies |= {one.text: one for one in told.remedies if one.text not in remedies}
            short |= dict.fromkeys(told.not_enough)
        if remedies and not advisor.is_half_stuck:
            break
    done = [(one, frozenset(map(msgspec.json.encode, one.changes))) for one in remedies.values()]
    # Without those that do all that another one does, and more.
    least = [one for one, mine in done if not any(other < mine for _, other in done)]
    shown = sorted(least[:MAX_REMEDIES], key=lambda one: data_loss.is_warned(one.text))
    # What is not enough is worth telling only where nothing is, or where a volume may be gone for good.
    told_short = not shown or any(one.state == "Unreachable" for one in found.claim_reports)
    return Advice(tuple(shown), tuple(short)[:NEAREST] if told_short else (), checks)


class _Advisor:
    def __init__(self, found: PodInspection) -> None:
        self._found = found
        self._pod = found.pod
        self._objects = found.view.objects
        self._scene = found.scene
        self._trials = Trials(self._objects, found.pod, found.scene.snapshot, found.view.profile)
        self._waiting = [one for one in found.claim_reports if one.state not in ("Bound", "ConsumerUnscheduled")]

    def tried(self, proposal: Proposal) -> Advice:
        return tried(proposal, self._trials, self._choices)

    def checks(self) -> Iterator[str]:
        """What to look at, and what is impossible."""
        pod = self._pod
        if pod.finished:
            yield remedy(f"{pod.status.reason} {pod.status.message}") or "create the pod again"
        elif has_no_scheduler(pod, self._found.view.events):
            name = pod.spec.scheduler_name
            yield f'start scheduler "{name}", or create the pod again with another schedulerName'
        elif any(one.checks for one in self._waiting):
            yield from (text for one in self._waiting for text in one.checks)
        elif self._found.refusals and not pod.spec.node_name:
            yield from (remedy(one.reason) or f"see what is behind it: {one.reason}" for one in self._found.refusals)
        elif self._lacks_nodes:
            yield "ask for the right to list nodes; `mooring docs explain` has the role"
        else:
            yield new_node.conflict(self._scene)
            yield from self._untold()

    def proposals(self) -> Iterator[Proposal]:
        """What to try, the nearest first."""
        pod = self._pod
        if pod.finished or has_no_scheduler(pod, self._found.view.events) or self._lacks_nodes:
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
        yield from claims.other_classes(self._scene)

    @property
    def _lacks_nodes(self) -> bool:
        return NODE in self._objects.unlisted and not self._objects.of(NODE)

    @property
    def is_half_stuck(self) -> bool:
        """Whether the pod has some of its volumes and gets no others."""
        return bool(self._scene.claims.bound and self._scene.open_claims)

    def last_resorts(self) -> Iterator[Proposal]:
        """What costs data: for pods whose volumes keep them from every node."""
        placed = self._pod.finished or self._pod.spec.node_name
        if not placed and not self._found.refusals and self._found.nodes:
            yield from claims.without_volumes(self._scene)

    def _for_placed(self, name: str) -> Iterator[Proposal]:
        """Of a pod that is on a node and cannot run there."""
        node = self._objects.get(NODE, name)
        if node is not None and name in lost_nodes(self._objects):
            step = Step(nodes.recovery(node, self._objects.moment), (RecoverNode(name),))
            yield Proposal(((step,),), name)
            yield Proposal(((Step(data_loss.give_up_node(name), ()),),))
        elif not any(one.state == "ConsumerPlaced" for one in self._found.claim_reports):
            yield Proposal(((Step(data_loss.reschedule(self._pod.key), ()),),))

    def _for_claims(self, reports: Iterable[ClaimReport]) -> Iterator[Proposal]:
        for report in reports:
            claim = self._objects.get(CLAIM, report.claim)
            if claim is None:
                continue
            if report.state == "Unreachable":
                yield from new_node.for_place(report, claim, self._objects)
                yield from new_node.new_node(self._scene)
            yield from claims.claim_proposals(report, claim, self._objects)

    def _choices(self, scene: PodDecision, name: str) -> Sequence[Choice]:
        """All that could be done about a node, in the order of the reasons against it."""
        here = self._found.nodes.get(name) if scene is self._scene else None
        verdict = scene.verdict(name) if here is None else here
        return tuple(
            choice
            for reason in verdict.reasons
            for choice in (*claims.choices_on(scene, name, reason, verdict), *nodes.choices_on(scene, name, reason))
            if choice
        )

    def _nearest(self) -> list[str]:
        """One node of each group, those first with the least in the pod's way; none that data keeps it off."""
        groups: dict[tuple[frozenset[str], tuple[str, ...]], str] = {}
        for name, node in self._found.nodes.items():
            codes = frozenset(one.code for one in node.reasons)
            short = RejectionCode.STORAGE_CAPACITY.value in codes
            reported = tuple(
                claim.capacity_reports[0].capacity for claim in node.volumes if claim.capacity_reports and short
            )
            groups.setdefault((codes, reported), name)
        near = sorted((len(codes), name) for (codes, _), name in groups.items() if codes and not codes & _FAR)
        return [name for _, name in near][:NEAREST]

    def _untold(self) -> Iterator[str]:
        """Reasons for which there is nothing to try: what their message means in general."""
        for name in self._nearest():
            for reason in self._found.nodes[name].reasons:
                if RejectionCode(reason.code) is RejectionCode.OTHER:
                    yield f"on {name}: {remedy(reason.reason) or reason.reason}"
