"""Nodes for the first pod of several that share a claim, chosen so that the others can run too. Pure.

The node of the first consumer decides where the volume of a delayed claim will be, and with it where every other pod
with this claim can go. So the constraints of those that wait already are part of the decision. They narrow the feasible
nodes and never empty them: where not all pods can run, the first is scheduled as if it were alone. Pods that have no
feasible node at present are left out.

A ReadWriteOnce volume is used on one node at a time, so all pods must fit there together. Other volumes are reached
from the nodes of their affinity, or of the driver's topology; within such a place pods are assigned one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from mooring.api.pod_requirements import PODS
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import PodClaims
from mooring.volumes.in_tree import driver_of, identity_of
from mooring.volumes.topology import EMPTY, NodeSet, node_set_from_mask, slots_of

#: Pods that are considered beside the one to schedule: each costs a run of the filters.
MAX_SHARING_PODS: Final = 8
#: Places of a volume that are tried: each costs a run of the filters per pod.
MAX_PLACES: Final = 8

_MANY_NODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_ONE_POD: Final = "ReadWriteOncePod"

#: The nodes on which a pod passes all filters.
FeasibleNodes = Callable[[CycleState], NodeSet]


class _Place(NamedTuple):
    """Where the volumes of the shared claims would be."""

    #: Of the pod to schedule.
    own: NodeSet
    #: Of the other pods.
    reach: NodeSet


def nodes_for_sharing_pods(state: CycleState, feasible: NodeSet, feasible_nodes: FeasibleNodes) -> NodeSet:
    """Those of `feasible` with which the pods that wait for the same claims can run too; all where there are none."""
    claims = state.known_claims
    if claims is None or claims.none or not feasible & (feasible - 1):
        return feasible
    feasible = _with_attached_volume(state.snapshot, claims, feasible)
    shared = {needs.claim.key: needs.claim for needs in claims.unbound if _ONE_POD not in needs.claim.spec.access_modes}
    sharing = _sharing_pods(state, shared)
    if not sharing:
        return feasible
    fitting = {pod.key: feasible_nodes(_without(CycleState(pod, state.snapshot), shared)) for pod in sharing}
    sharing = [pod for pod in sharing if fitting[pod.key]]
    fitting = {pod.key: fitting[pod.key] for pod in sharing}
    if not sharing:
        return feasible
    if not any(_MANY_NODES.isdisjoint(claim.spec.access_modes) for claim in shared.values()):
        return _in_one_place(state, sharing, shared, feasible, fitting, feasible_nodes) or feasible
    together = _on_one_node(state, sharing, feasible, fitting)
    if together or any(_is_attached(state.snapshot, claim) for claim in shared.values()):
        return together or feasible
    # The driver does not attach volumes: where one node has no resources for all, others that reach the volume do.
    return _in_one_place(state, sharing, shared, feasible, fitting, feasible_nodes) or feasible


def _with_attached_volume(snapshot: Snapshot, claims: PodClaims, feasible: NodeSet) -> NodeSet:
    """Beside the pods that use a ReadWriteOnce volume, where that is possible: elsewhere it could not be attached."""
    for claim in (*claims.bound, *(needs.claim for needs in claims.provisioning)):
        if _MANY_NODES.isdisjoint(claim.spec.access_modes) and _is_attached(snapshot, claim):
            feasible = feasible & snapshot.volumes.nodes_using(claim.key) or feasible
    return feasible


def _is_attached(snapshot: Snapshot, claim: Claim) -> bool:
    """Whether the volume that a claim has, or would have provisioned, is attached to nodes."""
    volumes = snapshot.volumes
    volume = volumes.volume(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        identity = identity_of(volume)
        return identity is not None and volumes.provisioners.attaches(identity.driver)
    return volumes.provisioners.attaches(driver_of(volumes.provisioners.provisioner(claim.storage_class)))


def _sharing_pods(state: CycleState, shared: dict[str, Claim]) -> list[Pod]:
    """The other pods that wait for one of these claims, those of highest priority first."""
    found = {pod.key: pod for key in shared for pod in state.snapshot.waiting_pods(key) if pod.key != state.pod.key}
    return sorted(found.values(), key=lambda pod: -pod.spec.priority)[:MAX_SHARING_PODS]


def _without(state: CycleState, shared: dict[str, Claim]) -> CycleState:
    """The state of a pod as if the shared claims were bound to volumes that every node reaches."""
    claims = state.known_claims
    if claims is None:
        return state
    unbound = tuple(needs for needs in claims.unbound if needs.claim.key not in shared)
    return state.with_claims(PodClaims(claims.bound, unbound, claims.provisioning, claims.disks))


def _on_one_node(state: CycleState, sharing: Sequence[Pod], feasible: NodeSet, fitting: dict[str, NodeSet]) -> NodeSet:
    """The nodes with resources for all pods together."""
    nodes = feasible
    for pod in sharing:
        nodes &= fitting[pod.key]
    amounts: dict[str, int] = {PODS: 1 + len(sharing)}
    for pod in (state.pod, *sharing):
        requests = CycleState(pod, state.snapshot).requests
        for resource, amount in (requests.amounts if not isinstance(requests, str) else {}).items():
            amounts[resource] = amounts.get(resource, 0) + amount
    columns = state.snapshot.resources
    for resource, amount in amounts.items():
        enough = columns.requested(resource) + amount <= columns.allocatable(resource)
        nodes &= node_set_from_mask(np.asarray(enough))
    return nodes


def _in_one_place(
    state: CycleState,
    sharing: Sequence[Pod],
    shared: dict[str, Claim],
    feasible: NodeSet,
    fitting: dict[str, NodeSet],
    feasible_nodes: FeasibleNodes,
) -> NodeSet:
    """By place from which all pods reach the volumes, a node for the pod to schedule that leaves others to the rest."""
    preferred = feasible & _near(state.snapshot, shared, min(fitting.values(), key=int.bit_count))
    found = EMPTY
    for place in _places(state, shared, feasible, preferred):
        if all(place.reach & nodes for nodes in fitting.values()):
            found |= _assigned(state, sharing, shared, place, fitting, feasible_nodes)
    return found


def _places(state: CycleState, shared: dict[str, Claim], feasible: NodeSet, preferred: NodeSet) -> Iterator[_Place]:
    """Those of `preferred` nodes first."""
    topology, volumes = state.snapshot.topology, state.snapshot.volumes
    claims = state.known_claims
    assert claims is not None
    own = PodClaims(unbound=tuple(needs for needs in claims.unbound if needs.claim.key in shared))
    left = feasible
    for _ in range(MAX_PLACES):
        if not left:
            return
        slot = next(iter(slots_of(left & preferred or left)))
        node = topology.name(slot)
        reach, provisioned = topology.all, True
        for claim, volume in volumes.matches(own, node):
            if volume is None:
                reach &= volumes.provisioned_reach(claim.storage_class, node) | 1 << slot
            else:
                reach, provisioned = reach & volumes.reaching(volume), False
        nodes = reach & left if provisioned else 1 << slot
        yield _Place(nodes, reach)
        left &= ~nodes


def _near(snapshot: Snapshot, shared: dict[str, Claim], nodes: NodeSet) -> NodeSet:
    """The nodes whose volumes some of `nodes` would reach if provisioned: drivers' topologies are symmetric."""
    near = EMPTY
    for slot in islice(slots_of(nodes), MAX_PLACES):
        reach, name = snapshot.nodes, snapshot.topology.name(slot)
        for claim in shared.values():
            reach &= snapshot.volumes.provisioned_reach(claim.storage_class, name)
        near |= reach
    return near


def _assigned(
    state: CycleState,
    sharing: Sequence[Pod],
    shared: dict[str, Claim],
    place: _Place,
    fitting: dict[str, NodeSet],
    feasible_nodes: FeasibleNodes,
) -> NodeSet:
    """A node for the pod to schedule, with nodes for all others in this place; empty if none was found. Pods with
    fewest nodes come first, and each leaves the nodes of others, those with fewest first, where it can."""
    snapshot, own = state.snapshot, state.pod
    within = {own.key: place.own} | {pod.key: place.reach & fitting[pod.key] for pod in sharing}
    order = sorted((own, *sharing), key=lambda pod: (within[pod.key].bit_count(), pod is own))
    chosen: dict[str, int] = {}
    try:
        for pod in order:
            nodes = within[pod.key] & feasible_nodes(_without(CycleState(pod, snapshot), shared))
            if not nodes:
                return EMPTY
            for other in order:
                if other.key not in chosen and other is not pod:
                    nodes = nodes & ~within[other.key] or nodes
            slot = next(iter(slots_of(nodes)))
            chosen[pod.key] = slot
            snapshot.assume(pod, snapshot.topology.name(slot))
    finally:
        for pod in order:
            if pod.key in chosen:
                snapshot.forget(pod)
    return 1 << chosen[own.key]
