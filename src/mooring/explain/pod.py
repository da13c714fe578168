"""One pod explained: the scheduler's own cycle on a snapshot of listed objects, with everything every plugin said, what
is behind it, and what would help.

A pod that has its node is looked at as if it were placed anew, without itself in the way; whether its volumes can be
used where it is decides then.
"""

import random
from typing import Final, NamedTuple

import msgspec

from mooring.api.views.pod import Pod
from mooring.explain.advice import advice
from mooring.explain.claims import ClaimsExplained
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.figures import Figures
from mooring.explain.inspection import Inspection, claims_of
from mooring.explain.pod_notes import notes
from mooring.explain.sentences import sentence, waits_for_others
from mooring.explain.situation import Situation
from mooring.explain.trials import Scene
from mooring.explain.verdicts import NodeVerdict, PodVerdict, Reason
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle, Decision
from mooring.scheduler.kubelet_rejection import in_words, of_others, rejection_of
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot

#: What keeps a pod out of the scheduling queue is not a plugin's here; kube-scheduler's name and text.
GATES: Final = "SchedulingGates"
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
QUEUE: Final = "SchedulingQueue"
DELETED: Final = "the pod is being deleted"
FINISHED: Final = "the pod has finished"


class Explained(NamedTuple):
    verdict: PodVerdict
    #: What in the objects could not be understood and was counted as the scheduler counts it.
    problems: tuple[str, ...]


def explain_pod(pod: Pod, objects: ClusterObjects, *, profile: Profile = DEFAULT) -> Explained:
    """Where the pod would go among these objects, or why nowhere."""
    return explain_in(Situation(objects, profile=profile), pod)


def explain_in(situation: Situation, pod: Pod) -> Explained:
    """The same for one of many."""
    snapshot, problems = situation.seen_by(pod)
    found = _inspected(situation, pod, snapshot)
    said, ok = sentence(found)
    verdict = PodVerdict(
        pod.key,
        said,
        found.refusals,
        found.nodes,
        pod.spec.node_name or None,
        ok,
        tuple(one for one in found.standings if waits_for_others(one) or one.notes),
        tuple(notes(found)),
    )
    if not ok:
        told = advice(found)
        verdict = msgspec.structs.replace(
            verdict,
            helps=tuple(one.text for one in told.remedies),
            remedies=told.remedies,
            not_enough=told.not_enough,
            checks=told.checks,
        )
    return Explained(verdict, problems)


def in_brief(situation: Situation, pod: Pod) -> tuple[str, bool]:
    """Only the sentence about a pod without a node, or one that its node rejected, and whether that is well: for lists
    of many."""
    snapshot, _ = situation.seen_by(pod)
    attempt, decision, refusals = _decided(situation, pod, snapshot)
    standings = tuple(situation.standings.of(claim) for claim in claims_of(pod, situation).values())
    return sentence(Inspection(pod, situation, attempt, decision, refusals, {}, None, standings))


def against_node(situation: Situation, pod: Pod, node: str) -> tuple[Reason, ...]:
    """All that is said against one node for a pod."""
    snapshot, _ = situation.seen_by(pod)
    attempt, decision, refusals = _decided(situation, pod, snapshot)
    return (*refusals, *Scene(situation.objects, attempt, decision).against(node))


class _Decided(NamedTuple):
    attempt: Cycle
    decision: Decision
    refusals: tuple[Reason, ...]


def _decided(situation: Situation, pod: Pod, snapshot: Snapshot) -> _Decided:
    attempt = Cycle(_unplaced(pod), snapshot)
    # Which of equally good nodes would win does not show.
    decision = cycle.run(attempt, situation.profile, random.Random(0))
    refusals = (*_kept_out(pod, snapshot), *(Reason(plugin, reason) for plugin, reason in decision.refusals))
    return _Decided(attempt, decision, refusals)


def _inspected(situation: Situation, pod: Pod, snapshot: Snapshot) -> Inspection:
    attempt, decision, refusals = _decided(situation, pod, snapshot)
    claims = attempt.claims
    explained = None if isinstance(claims, str) else ClaimsExplained(snapshot, claims, situation.objects)
    nodes = {
        node: NodeVerdict(
            fits=not refusals and not reasons,
            reasons=reasons,
            volumes=() if explained is None else explained.on(node),
        )
        for node, reasons in _by_node(decision, attempt, situation.objects).items()
    }
    standings = tuple(situation.standings.of(claim) for claim in claims_of(pod, situation).values())
    return Inspection(pod, situation, attempt, decision, refusals, nodes, explained, standings)


def _unplaced(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))


def _kept_out(pod: Pod, snapshot: Snapshot) -> tuple[Reason, ...]:
    """Why the pod would not even be tried."""
    if pod.finished:
        return (Reason(QUEUE, FINISHED, _turned_down(pod, snapshot)),)
    if pod.deleting:
        return (Reason(QUEUE, DELETED),)
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        return (Reason(GATES, GATED, ", ".join(gate.name for gate in pod.spec.scheduling_gates)),)
    return ()


def _turned_down(pod: Pod, snapshot: Snapshot) -> str:
    """What happened to a pod that its node would not have; "" for all others."""
    rejection = rejection_of(pod)
    if rejection is None:
        return ""
    return in_words(rejection, of_others(snapshot.pods_on(rejection.node), {pod.spec.scheduler_name}))


def _by_node(decision: Decision, attempt: Cycle, objects: ClusterObjects) -> dict[str, tuple[Reason, ...]]:
    """Every node by name, with all that was said against it, in the order of the plugins."""
    snapshot, figures = attempt.snapshot, Figures(attempt, objects)
    said: dict[str, list[Reason]] = {name: [] for name in sorted(snapshot.topology.names(snapshot.nodes))}
    for plugin, rejections in decision.said:
        for rejection in rejections:
            for name in snapshot.topology.names(rejection.nodes):
                said[name].append(figures.of(plugin, rejection, name))
    return {name: tuple(reasons) for name, reasons in said.items()}
