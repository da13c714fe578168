"""Convergence: what must hold at the end of a run, after faults stopped and backoffs elapsed. Pure.

Evaluated on API objects only. A pod is pending only if `feasible_nodes` is empty, which is decided by brute force over
all nodes and assignments of volumes to claims, without any code of the scheduler: volumes, resource requests, required
affinity and anti-affinity. `CanProvision` says which volumes the cluster's storage could provision.
"""

from collections.abc import Callable, Iterator
from itertools import permutations

from mooring.api import quantity, well_known
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.pod_requirements import requests_of, to_whole_units
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.provisioner.standins.disks import BY_NAME, REGIONAL
from support.simulation.invariants import Facts, Subject, Violation, reaches, repels, term_matches

#: Whether volumes of a class can be provisioned for all these claims together, accessible from a node.
CanProvision = Callable[[StorageClass, list[Claim], Node, Facts], bool]


def stand_ins_can_provision(storage_class: StorageClass, claims: list[Claim], node: Node, facts: Facts) -> bool:
    """Stand-in provisioners have unlimited capacity: only topology matters."""
    stand_in = BY_NAME.get(storage_class.provisioner)
    if stand_in is None or not admits(storage_class, node):
        return False
    if stand_in.disk_for(storage_class.parameters) is REGIONAL:
        allowed = [other for other in facts.nodes.values() if admits(storage_class, other)]
        return len({other.metadata.labels.get(well_known.ZONE) for other in allowed}) > 1
    return True


def admits(storage_class: StorageClass, node: Node) -> bool:
    """Whether the allowed topologies of a class include the node."""
    labels = node.metadata.labels
    terms = storage_class.allowed_topologies
    return not terms or any(
        all(labels.get(one.key) in one.values for one in term.match_label_expressions) for term in terms
    )


def feasible_nodes(pod: Pod, facts: Facts, can_provision: CanProvision) -> list[str]:
    """Nodes that the pod could be scheduled to, by name."""
    return [name for name, node in sorted(facts.nodes.items()) if _fits(pod, node, facts, can_provision)]


def _fits(pod: Pod, node: Node, facts: Facts, can_provision: CanProvision) -> bool:
    if node.spec.unschedulable or any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints):
        return False
    neighbours = [p for p in facts.pods.values() if p.spec.node_name == node.name and not p.finished]
    if any(repels(pod, other) or repels(other, pod) for other in neighbours if other.uid != pod.uid):
        return False
    if not _has_resources(pod, [other for other in neighbours if other.uid != pod.uid], node):
        return False
    if not _has_required_pods(pod, neighbours, facts):
        return False
    claims = [facts.claims.get(key) for key in dict.fromkeys(pod.claim_keys)]
    return _has_volumes([claim for claim in claims if claim is not None], len(claims), node, facts, can_provision)


def _has_resources(pod: Pod, neighbours: list[Pod], node: Node) -> bool:
    count = [requests_of(one).amounts for one in (pod, *neighbours)]
    return all(
        sum(amounts.get(name, 0) for amounts in count)
        <= to_whole_units(name, quantity.to_milli(node.status.allocatable[name]))
        for name in requests_of(pod).amounts
    )


def _has_required_pods(pod: Pod, neighbours: list[Pod], facts: Facts) -> bool:
    """Whether required pod affinity is satisfied; the first pod of its own term may go to any node."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    scheduled = [other for other in facts.pods.values() if other.spec.node_name and not other.finished]
    if not any(term_matches(term, pod, other) for other in scheduled for term in terms):
        return all(term_matches(term, pod, pod) for term in terms)
    return all(any(term_matches(term, pod, other) for other in neighbours) for term in terms)


def _has_volumes(claims: list[Claim], count: int, node: Node, facts: Facts, can_provision: CanProvision) -> bool:
    if len(claims) < count or any(claim.deleting for claim in claims):
        return False
    for claim in claims:
        if claim.fully_bound:
            volume = facts.volume_of(claim)
            if volume is None or claim.status.phase == "Lost" or not reaches(node, volume):
                return False
    unbound = [claim for claim in claims if not claim.fully_bound]
    if any(claim.selected_node not in (None, node.name) for claim in unbound):
        # The selected node stays until it is cleared, which `convergence_errors` checks.
        return False
    usable = [v for _, v in sorted(facts.volumes.items()) if any(matches(claim, v) for claim in unbound)]
    offered = [volume for volume in usable if reaches(node, volume)]
    choices: list[Volume | None] = [*offered, *(None for _ in unbound)]
    return any(
        _all_match(unbound, chosen, node, facts, can_provision) for chosen in permutations(choices, len(unbound))
    )


def _all_match(
    claims: list[Claim], chosen: tuple[Volume | None, ...], node: Node, facts: Facts, can_provision: CanProvision
) -> bool:
    """Whether each claim matches the volume chosen for it; claims without one need to be provisionable."""
    pairs = list(zip(claims, chosen, strict=True))
    if not all(matches(claim, volume) for claim, volume in pairs if volume is not None):
        return False
    unmatched = [claim for claim, volume in pairs if volume is None]
    by_class: dict[str, list[Claim]] = {}
    for claim in unmatched:
        if reserved_for(claim, facts):
            return False
        by_class.setdefault(claim.storage_class, []).append(claim)
    return all(_provisionable(name, alike, node, facts, can_provision) for name, alike in by_class.items())


def _provisionable(name: str, claims: list[Claim], node: Node, facts: Facts, can_provision: CanProvision) -> bool:
    storage_class = facts.classes.get(name)
    delayed = storage_class is not None and storage_class.delayed
    return storage_class is not None and delayed and can_provision(storage_class, claims, node, facts)


def reserved_for(claim: Claim, facts: Facts) -> list[Volume]:
    """Volumes whose claimRef is the claim: it gets no others."""
    return [volume for volume in facts.volumes.values() if facts.claim_of(volume) is claim]


def matches(claim: Claim, volume: Volume) -> bool:
    """Whether the claim could be bound to the volume, regardless of topology."""
    reference = volume.spec.claim_ref
    if reference is not None:
        mine = (reference.namespace, reference.name) == (claim.namespace, claim.name)
        if not mine or reference.uid not in ("", claim.uid):
            return False
    elif volume.status.phase != "Available" or claim.selected_node is not None:
        # A claim with a selected node gets the volume provisioned for it.
        return False
    return (
        not volume.deleting
        and volume.storage_class == claim.storage_class
        and volume.spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and quantity.parse(volume.size) >= quantity.parse(claim.request)
    )


def convergence_errors(facts: Facts, can_provision: CanProvision = stand_ins_can_provision) -> Iterator[Violation]:
    for volume in facts.volumes.values():
        yield from _volume(facts, volume)
    for claim in facts.claims.values():
        yield from _claim(facts, claim, can_provision)
    for pod in facts.pods.values():
        yield from _pod(facts, pod, can_provision)


def _volume(facts: Facts, volume: Volume) -> Iterator[Violation]:
    reference, claim = volume.spec.claim_ref, facts.claim_of(volume)
    if reference is None or not reference.uid:
        expected = "Available"
    elif claim is None:
        expected = "Released"
        if _is_provisioned(volume) and volume.spec.persistent_volume_reclaim_policy == "Delete":
            text = f"volume {volume.name} of the deleted claim {reference.namespace}/{reference.name} still exists"
            yield Violation("unused provisioned volumes are deleted", text, (Subject(VOLUME, volume.name),))
            return
    else:
        expected = "Bound"
        if volume.deleting and not claim.fully_bound:
            # Race: deleted while reserved. As in Kubernetes it stays until the claim is bound elsewhere or deleted.
            return
        if not claim.fully_bound or claim.spec.volume_name != volume.name:
            text = f"volume {volume.name} is reserved for claim {claim.key}, which is not bound to it"
            objects = (Subject(VOLUME, volume.name), Subject(CLAIM, claim.key))
            yield Violation("reservations are completed or released", text, objects)
            return
    if volume.status.phase != expected:
        text = f"volume {volume.name} is {volume.status.phase} and should be {expected}"
        yield Violation("volume phases are correct", text, (Subject(VOLUME, volume.name),))


def _is_provisioned(volume: Volume) -> bool:
    """By a provisioner, not by an administrator."""
    return well_known.PROVISIONED_BY in volume.metadata.annotations


def _claim(facts: Facts, claim: Claim, can_provision: CanProvision) -> Iterator[Violation]:
    subject = Subject(CLAIM, claim.key)
    if claim.fully_bound:
        if claim.status.phase != "Bound":
            text = f"claim {claim.key} is bound to {claim.spec.volume_name} but its phase is {claim.status.phase}"
            yield Violation("claim phases are correct", text, (subject,))
        return
    storage_class = facts.classes.get(claim.storage_class)
    if claim.deleting:
        return
    if storage_class is not None:
        yield from _unprovisioned(facts, claim, storage_class, can_provision)
    if storage_class is not None and storage_class.delayed:
        return
    fitting = sorted(volume.name for volume in facts.volumes.values() if matches(claim, volume))
    if fitting:
        text = f"claim {claim.key} is pending although it matches {', '.join(fitting)}"
        yield Violation("bindable claims are bound", text, (subject, Subject(VOLUME, fitting[0])))


def _unprovisioned(
    facts: Facts, claim: Claim, storage_class: StorageClass, can_provision: CanProvision
) -> Iterator[Violation]:
    """Requested volumes, by a selected node or by an Immediate class, that were not provisioned."""
    selected = claim.selected_node
    if selected is not None and selected not in facts.nodes:
        text = f"claim {claim.key} waits for a volume on node {selected}, which was deleted"
        yield Violation("selected nodes that were deleted are cleared", text, (Subject(CLAIM, claim.key),))
    elif selected is not None or not storage_class.delayed:
        nodes = [node for name, node in facts.nodes.items() if selected in (None, name)]
        if not reserved_for(claim, facts) and any(can_provision(storage_class, [claim], node, facts) for node in nodes):
            text = f"claim {claim.key} waits for a volume that could be provisioned"
            yield Violation("provisionable volumes are provisioned", text, (Subject(CLAIM, claim.key),))


def _pod(facts: Facts, pod: Pod, can_provision: CanProvision) -> Iterator[Violation]:
    if pod.finished:
        return
    subject = Subject(POD, pod.key)
    involved = (subject, *(Subject(CLAIM, key) for key in pod.claim_keys))
    if pod.deleting:
        if pod.spec.node_name in facts.nodes:
            yield Violation("deleted pods are removed", f"pod {pod.key} still exists", (subject,))
    elif not pod.spec.node_name and pod.group_key:
        # Whether a member could run depends on its group.
        return
    elif not pod.spec.node_name:
        places = feasible_nodes(pod, facts, can_provision)
        if places:
            text = f"pod {pod.key} is pending although it could be scheduled to {', '.join(places)}"
            yield Violation("schedulable pods are scheduled", text, involved)
    elif pod.spec.node_name not in facts.nodes:
        text = f"pod {pod.key} still exists although its node {pod.spec.node_name} was deleted"
        yield Violation("pods of deleted nodes are removed", text, (subject,))
    elif pod.status.phase == "Running":
        missing = [key for key in pod.claim_keys if key not in facts.claims]
        if missing:
            text = f"pod {pod.key} runs, but claim {', '.join(missing)} was deleted"
            yield Violation("claims in use are kept", text, involved)
    elif _usable(facts, pod):
        text = f"pod {pod.key} is on {pod.spec.node_name}, has its volumes, and is {pod.status.phase}"
        yield Violation("scheduled pods run", text, involved)


def _usable(facts: Facts, pod: Pod) -> bool:
    claims = facts.claims_of(pod)
    return len(claims) == len(pod.claim_keys) and all(
        facts.volume_of(claim) is not None and not claim.deleting for claim in claims
    )
