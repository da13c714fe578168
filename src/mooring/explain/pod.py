"""One pod explained: the scheduler's own cycle on a snapshot of listed objects, with everything every plugin said, what
is behind it, and what would help.

A pod that has its node is looked at as if it were placed anew, without itself in the way; whether its volumes can be
used where it is decides then.
"""

import random
from typing import Final, NamedTuple

import msgspec

from mooring.api.kinds import CLAIM, NODE, POD
from mooring.api.label_selector import SelectorError
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.explain import remedies
from mooring.explain.claims import ClaimsExplained
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.consumers import left_alone
from mooring.explain.events import moment
from mooring.explain.figures import Figures
from mooring.explain.situation import Situation
from mooring.explain.verdicts import ClaimStanding, NodeVerdict, PodVerdict, Reason
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle, Decision
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.required_nodes import required_of
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.affinity import affinity
from mooring.volumes.state import AFFINITY_CONFLICT

#: What keeps a pod out of the scheduling queue is not a plugin's here; kube-scheduler's name and text.
GATES: Final = "SchedulingGates"
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
QUEUE: Final = "SchedulingQueue"
DELETED: Final = "the pod is being deleted"
FINISHED: Final = "the pod has finished"

VOLUME_PLUGINS: Final = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone"})
"""What must still hold where a pod already is. A limit on how many volumes a node takes is for new pods."""

#: How a claim stands that waits for nothing but this pod's node.
_FOR_THE_POD: Final = frozenset({"Bound", "ConsumerUnscheduled", "ConsumerGated", "OtherScheduler", "ConsumerPlaced"})

#: What a scheduler says of a pod it could not place, and Mooring's in figures.
_SAID: Final = ("FailedScheduling", "NotEnoughStorage")


class Explained(NamedTuple):
    verdict: PodVerdict
    #: What in the objects could not be understood and was counted as the scheduler counts it.
    problems: tuple[str, ...]


def explain_pod(pod: Pod, objects: ClusterObjects, *, profile: Profile = DEFAULT) -> Explained:
    """Where the pod would go among these objects, or why nowhere."""
    return explain_in(Situation(objects, profile=profile), pod)


def explain_in(situation: Situation, pod: Pod) -> Explained:
    """The same for one of many."""
    objects = situation.objects
    snapshot, problems = situation.seen_by(pod)
    attempt = Cycle(_unplaced(pod), snapshot)
    # Which of equally good nodes would win does not show.
    decision = cycle.run(attempt, situation.profile, random.Random(0))
    refusals = (*_kept_out(pod), *(Reason(plugin, reason) for plugin, reason in decision.refusals))
    claims = attempt.claims
    explained = None if isinstance(claims, str) else ClaimsExplained(snapshot, claims, objects)
    figures = Figures(attempt, objects)
    nodes = {
        node: NodeVerdict(
            fits=not refusals and not reasons,
            reasons=tuple(msgspec.structs.replace(one, detail=figures.of(one.reason, node)) for one in reasons),
            volumes=() if explained is None else explained.on(node),
        )
        for node, reasons in _by_node(decision, snapshot).items()
    }
    waiting = tuple(_waiting(pod, situation))
    sentence, ok = _sentence(pod, situation, decision, refusals, nodes, waiting)
    verdict = PodVerdict(
        pod.key,
        sentence,
        refusals,
        nodes,
        pod.spec.node_name or None,
        ok,
        waiting,
        tuple(_notes(pod, situation)),
        () if ok else tuple(dict.fromkeys(_helps(attempt, situation, refusals, nodes, waiting, explained))),
    )
    return Explained(verdict, problems)


def _unplaced(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))


def _kept_out(pod: Pod) -> tuple[Reason, ...]:
    """Why the pod would not even be tried."""
    if pod.finished:
        return (Reason(QUEUE, FINISHED),)
    if pod.deleting:
        return (Reason(QUEUE, DELETED),)
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        return (Reason(GATES, GATED, ", ".join(gate.name for gate in pod.spec.scheduling_gates)),)
    return ()


def _by_node(decision: Decision, snapshot: Snapshot) -> dict[str, tuple[Reason, ...]]:
    """Every node by name, with all that was said against it, in the order of the plugins."""
    said: dict[str, list[Reason]] = {name: [] for name in sorted(snapshot.topology.names(snapshot.nodes))}
    for plugin, rejections in decision.said:
        for rejection in rejections:
            reason = Reason(plugin, rejection.reason)
            for name in snapshot.topology.names(rejection.nodes):
                said[name].append(reason)
    return {name: tuple(reasons) for name, reasons in said.items()}


def _claims(pod: Pod, objects: ClusterObjects) -> dict[str, Claim]:
    found = {key: objects.get(CLAIM, key) for key in dict.fromkeys(pod.claim_keys)}
    return {key: claim for key, claim in found.items() if claim is not None}


def _waiting(pod: Pod, situation: Situation) -> list[ClaimStanding]:
    """The pod's claims that wait for something else than its node."""
    standings = [situation.standings.of(claim) for claim in _claims(pod, situation.objects).values()]
    return [one for one in standings if one.state not in _FOR_THE_POD or one.notes]


def _sentence(
    pod: Pod,
    situation: Situation,
    decision: Decision,
    refusals: tuple[Reason, ...],
    nodes: dict[str, NodeVerdict],
    waiting: tuple[ClaimStanding, ...],
) -> tuple[str, bool]:
    """What becomes of the pod, and whether that is well."""
    if pod.finished and pod.status.phase == "Failed" and pod.status.reason:
        where = f" by {pod.spec.node_name}" if pod.spec.node_name else ""
        message = pod.status.message.rstrip(".")
        return f"{pod.key} was rejected{where}: {pod.status.reason}{f': {message}' if message else ''}.", False
    if pod.spec.node_name:
        return _where_it_is(pod, refusals, nodes)
    if left_alone(pod, situation.events):
        who = pod.spec.scheduler_name
        return f'{pod.key} is left to scheduler "{who}", and nothing shows that it runs.', False
    under_way = [one for one in waiting if one.state not in _FOR_THE_POD]
    stuck = next((one for one in under_way if one.stuck), None)
    if stuck is not None and not (refusals and not decision.refusals):
        return f"{pod.key} waits for its volumes: {stuck.verdict}", False
    sentence, ok = _where_it_would_go(pod, decision, refusals, nodes)
    if ok and under_way:
        return f"{pod.key} waits for its volumes: {under_way[0].verdict}", True
    return sentence, ok


def _where_it_would_go(
    pod: Pod, decision: Decision, refusals: tuple[Reason, ...], nodes: dict[str, NodeVerdict]
) -> tuple[str, bool]:
    fitting = sum(node.fits for node in nodes.values())
    if fitting:
        return f"{pod.key} would fit on {fitting} of {_count(len(nodes))}.", True
    if refusals and not decision.refusals:
        return f"{pod.key} would not be tried: {refusals[0].reason}.", False
    why = cycle.failure_message(decision).rstrip(".")
    return f"{pod.key} would not fit: {why}.", False


def _where_it_is(pod: Pod, refusals: tuple[Reason, ...], nodes: dict[str, NodeVerdict]) -> tuple[str, bool]:
    name = pod.spec.node_name
    if pod.finished:
        return f"{pod.key} was on {name} and has finished.", True
    here = nodes.get(name)
    if here is None:
        return f"{pod.key} is on {name}, which is not among the given nodes: its volumes cannot be checked.", False
    against = next((one for one in (*refusals, *here.reasons) if one.plugin in VOLUME_PLUGINS), None)
    if against is not None:
        return f"{pod.key} is on {name}, but its volumes cannot be used there: {against.reason}.", False
    unbound = next((one.claim for one in here.volumes if one.state != "bound"), None)
    if unbound is not None:
        why = "who is placed past the scheduler gets no volume chosen"
        return f"{pod.key} is on {name}, but its claim {unbound} is not bound: {why}.", False
    return f"{pod.key} is on {name}, and its volumes can be used there.", True


def _notes(pod: Pod, situation: Situation) -> list[str]:
    """What was told about a pod that waits, and what could not be seen."""
    notes: list[str] = []
    if not pod.spec.node_name and not pod.finished:
        said = situation.events.last(POD, pod, *_SAID)
        if said is not None:
            notes.append(f"{said.source.component or 'the scheduler'} said at {moment(said)}: {said.message}")
        if pod.status.nominated_node_name:
            notes.append(f"others are being evicted for it on {pod.status.nominated_node_name}")
    rolled_back = situation.events.about(POD, pod, "ProvisioningRolledBack")
    notes += (f"rolled back at {moment(event)}: {event.message}" for event in rolled_back)
    return notes


def _helps(
    attempt: Cycle,
    situation: Situation,
    refusals: tuple[Reason, ...],
    nodes: dict[str, NodeVerdict],
    waiting: tuple[ClaimStanding, ...],
    explained: ClaimsExplained | None,
) -> list[str]:
    pod = attempt.pod
    helps = [text for one in waiting for text in one.helps]
    if helps:
        return helps
    if pod.finished:
        return [remedies.for_refusal(Reason(QUEUE, f"{pod.status.reason} {pod.status.message}"))]
    if left_alone(pod, situation.events):
        return [f'start scheduler "{pod.spec.scheduler_name}", or create the pod anew with another schedulerName']
    if refusals:
        return [remedies.for_refusal(one) for one in refusals]
    if not situation.objects.of(NODE):
        return ["add nodes"]
    claims = _claims(pod, situation.objects)
    helps += remedies.for_nodes(nodes, claims)
    fixed = [
        remedies.Fixed(claim, affinity(volume))
        for claim in (explained.bound if explained is not None else ())
        if (volume := attempt.snapshot.volumes.volume(claim.spec.volume_name)) is not None
    ]
    served = all(one.state != "unserved" for node in nodes.values() for one in node.volumes)
    if served or any(one.reason == AFFINITY_CONFLICT for node in nodes.values() for one in node.reasons):
        helps.append(remedies.for_new_node(fixed, _wanted(pod), attempt.requests))
    return helps


def _wanted(pod: Pod) -> str:
    try:
        return remedies.place_of(required_of(pod).selectors)
    except SelectorError:
        return ""


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"
