"""What would help a pod that is not well, from all that was found out about it, the surest first."""

from collections.abc import Iterator

from mooring.api.kinds import NODE
from mooring.api.label_selector import SelectorError
from mooring.api.views.pod import Pod
from mooring.explain import remedies
from mooring.explain.consumers import left_alone
from mooring.explain.inspection import Inspection
from mooring.explain.messages.lookup import remedy
from mooring.scheduler.required_nodes import required_of
from mooring.volumes.affinity import affinity
from mooring.volumes.state import AFFINITY_CONFLICT


def advice(found: Inspection) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in _advice(found) if text))


def _advice(found: Inspection) -> Iterator[str]:
    pod = found.pod
    if pod.finished:
        yield remedy(f"{pod.status.reason} {pod.status.message}") or "create the pod anew"
        return
    if left_alone(pod, found.situation.events):
        yield f'start scheduler "{pod.spec.scheduler_name}", or create the pod anew with another schedulerName'
        return
    waiting = [one for one in found.standings if one.state not in ("Bound", "ConsumerUnscheduled") and one.helps]
    if waiting:
        yield from (text for one in waiting for text in one.helps)
    elif pod.spec.node_name:
        yield f"delete {pod.key}, so that one is made that is scheduled anew"
    elif found.refusals:
        yield from (remedies.for_refusal(one) for one in found.refusals)
    elif not found.situation.objects.of(NODE):
        unseen = NODE in found.situation.objects.unseen
        yield "ask for the right to list nodes; `mooring docs explain` has the role" if unseen else "add nodes"
    else:
        yield from _for_nodes(found)


def _for_nodes(found: Inspection) -> Iterator[str]:
    fixed = _fixed(found)
    impossible = remedies.conflict(fixed)
    yield impossible
    yield from remedies.for_nodes(found.nodes, found.claims)
    served = all(one.state != "unserved" for node in found.nodes.values() for one in node.volumes)
    misplaced = any(one.reason == AFFINITY_CONFLICT for node in found.nodes.values() for one in node.reasons)
    if not impossible and (served or misplaced):
        yield remedies.for_new_node(fixed, _wanted(found.pod), found.attempt.requests)


def _fixed(found: Inspection) -> list[remedies.Fixed]:
    bound = found.explained.bound if found.explained is not None else ()
    volumes = ((claim, found.attempt.snapshot.volumes.volume(claim.spec.volume_name)) for claim in bound)
    return [remedies.Fixed(claim, affinity(volume)) for claim, volume in volumes if volume is not None]


def _wanted(pod: Pod) -> str:
    """What the pod itself wants of a node."""
    try:
        return remedies.place_of(required_of(pod).selectors)
    except SelectorError:
        return ""
