"""One pod explained: the scheduler's own cycle on a snapshot of listed objects, with everything every plugin said.

A pod that has its node is looked at as if it were placed anew, without itself in the way; whether its volumes can be
used where it is decides then.
"""

import random
from typing import Final, NamedTuple

import msgspec

from mooring.api.views.pod import Pod
from mooring.explain.claims import ClaimsExplained
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.verdicts import NodeVerdict, PodVerdict, Reason
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle, Decision
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot

#: What keeps a pod out of the scheduling queue is not a plugin's here; kube-scheduler's name and text.
GATES: Final = "SchedulingGates"
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
QUEUE: Final = "SchedulingQueue"
DELETED: Final = "the pod is being deleted"
FINISHED: Final = "the pod has finished"

VOLUME_PLUGINS: Final = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone"})
"""What must still hold where a pod already is. A limit on how many volumes a node takes is for new pods."""


class Explained(NamedTuple):
    verdict: PodVerdict
    #: What in the objects could not be understood and was counted as the scheduler counts it.
    problems: tuple[str, ...]


def explain_pod(pod: Pod, objects: ClusterObjects, *, profile: Profile = DEFAULT) -> Explained:
    """Where the pod would go among these objects, or why nowhere."""
    snapshot, problems = objects.snapshot(without=pod.key)
    attempt = Cycle(_unplaced(pod), snapshot)
    # Which of equally good nodes would win does not show.
    decision = cycle.run(attempt, profile, random.Random(0))
    refusals = (*_kept_out(pod), *(Reason(plugin, reason) for plugin, reason in decision.refusals))
    claims = attempt.claims
    explained = None if isinstance(claims, str) else ClaimsExplained(snapshot, claims, objects)
    nodes = {
        node: NodeVerdict(
            fits=not refusals and not reasons,
            reasons=reasons,
            volumes=() if explained is None else explained.on(node),
        )
        for node, reasons in _by_node(decision, snapshot).items()
    }
    placed = pod.spec.node_name
    if placed:
        sentence, ok = _where_it_is(pod, refusals, nodes)
    else:
        sentence, ok = _where_it_would_go(pod, decision, refusals, nodes)
    return Explained(PodVerdict(pod.key, sentence, refusals, nodes, placed or None, ok), tuple(problems))


def _unplaced(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))


def _kept_out(pod: Pod) -> tuple[Reason, ...]:
    """Why the pod would not even be tried."""
    if pod.finished:
        return (Reason(QUEUE, FINISHED),)
    if pod.deleting:
        return (Reason(QUEUE, DELETED),)
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        return (Reason(GATES, GATED),)
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


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"
