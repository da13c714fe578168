"""What would help a pod that fits nowhere: the least that would have to change, the nearest nodes first.

Reads verdicts and words them as advice; whether somebody should follow it they have to know themselves. What nobody
wrote advice of its own for is told in general, from the table of messages.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from mooring.api.label_selector import Operator, Requirement
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.api.pod_requests import Requests
from mooring.api.views.claim import Claim
from mooring.explain import rooms
from mooring.explain.candidates import ONCE_CLEARED
from mooring.explain.claims import ALLOWS_ONLY
from mooring.explain.figures import counted
from mooring.explain.messages.lookup import remedy
from mooring.explain.mismatches import amount
from mooring.explain.verdicts import ClaimVerdict, NodeVerdict, Reason
from mooring.scheduler.plugins import (
    node_affinity,
    node_declared_features,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    taint_toleration,
    volume_restrictions,
    volume_zone,
)
from mooring.volumes.affinity import Affinity
from mooring.volumes.shortage import where
from mooring.volumes.state import AFFINITY_CONFLICT, NOT_ENOUGH_SPACE, NOTHING_TO_BIND, VOLUME_MISSING

#: Groups of nodes that advice is given for.
NEAREST: Final = 3

#: Reasons that nothing short of moving data changes; nodes with others are nearer.
_FAR: Final = frozenset({AFFINITY_CONFLICT, VOLUME_MISSING, volume_zone.ELSEWHERE})
_FAR_WEIGHT: Final = 10

_ADVICE: Final[Mapping[str, Callable[[str, str], str]]] = {
    node_unschedulable.REASON: lambda node, _: f"kubectl uncordon {node}",
    taint_toleration.REASON: lambda node, detail: f"let the pod tolerate {detail}, or take that off {node}",
    node_affinity.REASON: lambda node, detail: f"relabel {node} or ask for something else: {detail}",
    node_declared_features.REASON: lambda node, detail: f"upgrade the kubelet of {node}: {detail}",
    node_ports.REASON: lambda node, detail: f"use another host port, or clear it on {node}: {detail}",
    node_resources_fit.TOO_MANY_PODS: lambda node, detail: f"move a pod off {node}: {detail}",
    node_volume_limits.TOO_MANY: lambda node, detail: f"move pods with volumes off {node}: {detail}",
    volume_restrictions.DISK_CONFLICT: lambda node, detail: f"delete the pod that has the disk on {node}: {detail}",
    volume_zone.ELSEWHERE: lambda _, detail: f"a node of the volume's zone, or other labels on the volume: {detail}",
    volume_restrictions.CLAIM_IN_USE: lambda _, detail: f"delete the pod that has the claim: {detail}",
}


class Fixed(NamedTuple):
    """A bound claim and where its volume can be used."""

    claim: Claim
    place: Affinity


def for_nodes(nodes: Mapping[str, NodeVerdict], claims: Mapping[str, Claim]) -> Iterator[str]:
    """Advice for the nodes that come nearest; `claims` are the pod's, by key."""
    groups: dict[tuple[frozenset[str], tuple[str, ...]], str] = {}
    for name, node in nodes.items():
        reasons = frozenset(one.reason for one in node.reasons)
        short = NOT_ENOUGH_SPACE in reasons
        reported = tuple(claim.rooms[0].capacity for claim in node.volumes if claim.rooms and short)
        groups.setdefault((reasons, reported), name)
    refused = [(reasons, name) for (reasons, _), name in groups.items() if reasons]
    nearest = sorted(refused, key=lambda group: (_distance(group[0]), group[1]))
    near = [name for reasons, name in nearest if not reasons & _FAR]
    for name in (near or [name for _, name in nearest])[:NEAREST]:
        steps = [step for one in nodes[name].reasons for step in _steps(name, one, nodes[name], claims)]
        yield " and ".join(dict.fromkeys(steps))


def conflict(fixed: Sequence[Fixed]) -> str:
    """Why no node whatsoever could do; "" where one could."""
    for one, other in combinations(fixed, 2):
        if not _compatible(one.place, other.place):
            return (
                f"no node can reach both the volume of {one.claim.key} ({where(one.place)}) and that of "
                f"{other.claim.key} ({where(other.place)}): restore one of them where the other is"
            )
    return ""


def for_new_node(fixed: Sequence[Fixed], wanted: str, requests: Requests | str) -> str:
    """What a node would have to be like."""
    places = [where(one.place) for one in fixed if one.place is not None]
    amounts = {} if isinstance(requests, str) else requests.amounts
    free = ", ".join(f"{counted(name, much)} {name}" for name, much in amounts.items())
    labels = " and ".join(dict.fromkeys([*places, *([wanted] if wanted else [])]))
    described = " and ".join(part for part in (labels, f"{free} free" if free else "") if part)
    return f"a node with {described}" if described else "another node"


def for_refusal(reason: Reason) -> str:
    return remedy(reason.reason) or f"see what is behind it: {reason.reason}"


def _distance(reasons: Iterable[str]) -> int:
    return sum(_FAR_WEIGHT if reason in _FAR else 1 for reason in reasons)


def _steps(node: str, reason: Reason, verdict: NodeVerdict, claims: Mapping[str, Claim]) -> Iterator[str]:
    text = reason.reason
    if (advice := _ADVICE.get(text)) is not None:
        yield advice(node, reason.detail)
    elif text.startswith(node_resources_fit.insufficient("")):
        yield f"free {text.removeprefix(node_resources_fit.insufficient(''))} on {node}: {reason.detail}"
    elif text in (NOTHING_TO_BIND, NOT_ENOUGH_SPACE):
        for claim in verdict.volumes:
            if claim.state == "unserved" and claim.reason == text:
                yield from _for_claim(node, claim, claims[claim.claim])
    elif text in _FAR:
        stuck = [one for one in verdict.volumes if one.state == "bound" and one.reason]
        yield from (f"restore {one.claim} where {node} reaches it: {one.volume} {one.detail}" for one in stuck)
    else:
        yield f"on {node}: {remedy(text) or text}"


def _for_claim(node: str, verdict: ClaimVerdict, claim: Claim) -> Iterator[str]:
    if verdict.rooms:
        yield _for_room(node, verdict)
        return
    if claim.selected_node is not None:
        yield (
            f"wait until the volume of {verdict.claim} is made for {claim.selected_node}, or take the annotation "
            "volume.kubernetes.io/selected-node off the claim"
        )
        return
    if ALLOWS_ONLY in verdict.detail:
        yield f"use a node in a place that the class allows, or allow the place of {node}: {verdict.detail}"
        return
    released = [
        f", or remove spec.claimRef from Released volume {candidate.volume} once its data may go"
        for candidate in verdict.candidates
        if candidate.criterion == "RELEASED" and candidate.detail.endswith(ONCE_CLEARED)
    ]
    yield (
        f"add a volume for {verdict.claim} that {node} reaches: class {verdict.storage_class}, at least "
        f"{amount(claim.request)}, {','.join(claim.spec.access_modes)}{''.join(released[:1])}"
    )


def _for_room(node: str, verdict: ClaimVerdict) -> str:
    nearest = verdict.rooms[0]
    match nearest.problem:
        case rooms.TOO_SMALL | rooms.ZERO | rooms.TOGETHER:
            return f"add {nearest.missing} to segment {nearest.segment} ({nearest.capacity}), or ask for less"
        case rooms.MAXIMUM:
            return f"ask for less for {verdict.claim}, in several volumes if need be: {nearest.detail}"
        case rooms.IN_FLIGHT:
            return f"wait for the volumes in flight, or add {nearest.missing} to segment {nearest.segment}"
        case rooms.NO_TOPOLOGY | rooms.NO_FIGURE | rooms.UNREADABLE:
            return f"have the driver publish {nearest.capacity} anew: {nearest.detail}"
    return (
        f"have the driver publish its capacity for class {verdict.storage_class} and {node}: see that its provisioner "
        f"runs with capacity on and knows the node, or set storageCapacity: false in its CSIDriver ({nearest.detail})"
    )


def _compatible(one: Affinity, other: Affinity) -> bool:
    """Whether some node could be in both places."""
    if one is None or other is None:
        return True
    return any(not _exclude(a, b) for a in one.terms for b in other.terms)


def _exclude(one: NodeSelectorTerm, other: NodeSelectorTerm) -> bool:
    return any(_disjoint(a, b) for a in one.expressions for b in other.expressions)


def _disjoint(one: Requirement, other: Requirement) -> bool:
    if one.key != other.key or not one.operator is other.operator is Operator.IN:
        return False
    return set(one.values).isdisjoint(other.values)


def place_of(selectors: Sequence[NodeSelector]) -> str:
    """What a pod itself wants of a node."""
    return " and ".join(where(one) for one in selectors)
