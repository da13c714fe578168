"""What becomes of a pod, in one sentence, and whether that is well."""

from typing import Final

from mooring.api.kinds import NODE
from mooring.api.views.pod import Pod
from mooring.explain.consumers import left_alone
from mooring.explain.inspection import Inspection
from mooring.explain.lost_nodes import lost_nodes, told_since
from mooring.explain.verdicts import ClaimStanding, NodeVerdict, Reason
from mooring.scheduler import cycle

VOLUME_PLUGINS: Final = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone"})
"""What must still hold where a pod already is. A limit on how many volumes a node takes is for new pods."""

#: How a claim stands that waits for nothing but the pod's node.
_FOR_THE_POD: Final = frozenset({"Bound", "ConsumerUnscheduled", "ConsumerGated", "OtherScheduler", "ConsumerPlaced"})


def sentence(found: Inspection) -> tuple[str, bool]:
    pod = found.pod
    if pod.finished and pod.status.phase == "Failed" and pod.status.reason:
        return _rejected(pod), False
    if pod.spec.node_name:
        lost = lost_nodes(found.situation.objects)
        if not pod.finished and pod.spec.node_name in lost:
            return on_lost_node(pod, lost[pod.spec.node_name]), False
        return _where_it_is(pod, found.refusals, found.nodes)
    if left_alone(pod, found.situation.events):
        who = pod.spec.scheduler_name
        return f'{pod.key} is left to scheduler "{who}", and nothing shows that it runs.', False
    under_way = [one for one in found.standings if waits_for_others(one)]
    stuck = next((one for one in under_way if one.stuck), None)
    if stuck is not None and found.tried:
        return f"{pod.key} waits for its volumes: {stuck.verdict}", False
    said, ok = _where_it_would_go(found)
    if ok and under_way:
        return f"{pod.key} waits for its volumes: {under_way[0].verdict}", True
    return said, ok


def waits_for_others(claim: ClaimStanding) -> bool:
    """Whether a claim waits for somebody else than whoever chooses its pod's node."""
    return claim.state not in _FOR_THE_POD


def on_lost_node(pod: Pod, since: str) -> str:
    """Of a pod whose node does not report."""
    deleted = pod.metadata.deletion_timestamp
    going = f"; it is being deleted since {deleted}, and nothing confirms that it has ended" if deleted else ""
    return f"{pod.key} is on {pod.spec.node_name}, which is lost: not ready {told_since(since)}{going}."


def on_missing_node(pod: Pod) -> str:
    name = pod.spec.node_name
    return f"{pod.key} is on {name}, which is not among the given nodes: its volumes cannot be checked."


def _rejected(pod: Pod) -> str:
    by = f" by {pod.spec.node_name}" if pod.spec.node_name else ""
    message = pod.status.message.rstrip(".")
    return f"{pod.key} was rejected{by}: {pod.status.reason}{f': {message}' if message else ''}."


def _where_it_would_go(found: Inspection) -> tuple[str, bool]:
    pod, nodes = found.pod, found.decision.considered
    if found.fitting:
        return f"{pod.key} would fit on {found.fitting} of {'1 node' if nodes == 1 else f'{nodes} nodes'}.", True
    if not found.tried:
        return f"{pod.key} would not be tried: {found.refusals[0].reason}.", False
    if not nodes and NODE in found.situation.objects.unseen:
        return f"Where {pod.key} would go cannot be said, since nodes cannot be seen.", False
    why = cycle.failure_message(found.decision).rstrip(".")
    return f"{pod.key} would not fit: {why}.", False


def _where_it_is(pod: Pod, refusals: tuple[Reason, ...], nodes: dict[str, NodeVerdict]) -> tuple[str, bool]:
    name = pod.spec.node_name
    if pod.finished:
        return f"{pod.key} was on {name} and has finished.", True
    here = nodes.get(name)
    if here is None:
        return on_missing_node(pod), False
    against = next((one for one in (*refusals, *here.reasons) if one.plugin in VOLUME_PLUGINS), None)
    if against is not None:
        return f"{pod.key} is on {name}, but its volumes cannot be used there: {against.reason}.", False
    unbound = next((one.claim for one in here.volumes if one.state != "bound"), None)
    if unbound is not None:
        why = "who is placed past the scheduler gets no volume chosen"
        return f"{pod.key} is on {name}, but its claim {unbound} is not bound: {why}.", False
    return f"{pod.key} is on {name}, and its volumes can be used there.", True
