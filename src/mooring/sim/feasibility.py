"""Could this pod be placed? Answered by trying everything, for small worlds.

The judge of the scheduler must not share its cleverness: no index, no bit sets, no greedy matching. Every node is
tried with every way of giving free volumes to the pod's claims, and new volumes to the others. Understood are volumes,
resource requests, required affinity and anti-affinity; pods of simulated scenarios ask for nothing else that could be
short.

What volumes somebody would make is the business of whoever plays the storage: a `Maker` says so.
"""

from collections.abc import Callable
from itertools import permutations

from mooring.api import keys, quantity
from mooring.api.pod_requests import requests_of, whole
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.provisioner.standins.disks import REGIONAL
from mooring.provisioner.standins.table import BY_NAME
from mooring.sim.facts import Facts, reaches
from mooring.sim.invariants import means, repels

#: Whether volumes of a class can be made for claims, all of them together, so that a node reaches them.
Maker = Callable[[StorageClass, list[Claim], Node, Facts], bool]


def stand_ins_make(storage_class: StorageClass, claims: list[Claim], node: Node, facts: Facts) -> bool:
    """The stand-in provisioners, which have room for everything: what they need is a place."""
    stand_in = BY_NAME.get(storage_class.provisioner)
    if stand_in is None or not admits(storage_class, node):
        return False
    if stand_in.disk_for(storage_class.parameters) is REGIONAL:
        allowed = [other for other in facts.nodes.values() if admits(storage_class, other)]
        return len({other.metadata.labels.get(keys.ZONE) for other in allowed}) > 1
    return True


def admits(storage_class: StorageClass, node: Node) -> bool:
    """Whether a class allows volumes where the node is."""
    labels = node.metadata.labels
    terms = storage_class.allowed_topologies
    return not terms or any(
        all(labels.get(one.key) in one.values for one in term.match_label_expressions) for term in terms
    )


def places_for(pod: Pod, facts: Facts, make: Maker) -> list[str]:
    """The nodes the pod could be placed on as things are, in the order of their names."""
    return [name for name, node in sorted(facts.nodes.items()) if _fits(pod, node, facts, make)]


def _fits(pod: Pod, node: Node, facts: Facts, make: Maker) -> bool:
    if node.spec.unschedulable or any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints):
        return False
    neighbours = [p for p in facts.pods.values() if p.spec.node_name == node.name and not p.finished]
    if any(repels(pod, other) or repels(other, pod) for other in neighbours if other.uid != pod.uid):
        return False
    if not _has_room(pod, [other for other in neighbours if other.uid != pod.uid], node):
        return False
    if not _in_company(pod, neighbours, facts):
        return False
    claims = [facts.claims.get(key) for key in dict.fromkeys(pod.claim_keys)]
    return _has_volumes([claim for claim in claims if claim is not None], len(claims), node, facts, make)


def _has_room(pod: Pod, neighbours: list[Pod], node: Node) -> bool:
    wanted = [requests_of(one).amounts for one in (pod, *neighbours)]
    return all(
        sum(amounts.get(name, 0) for amounts in wanted) <= whole(name, quantity.to_milli(node.status.allocatable[name]))
        for name in requests_of(pod).amounts
    )


def _in_company(pod: Pod, neighbours: list[Pod], facts: Facts) -> bool:
    """Whether a node's pods are those the pod must be with; the first of its kind may go anywhere."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    placed = [other for other in facts.pods.values() if other.spec.node_name and not other.finished]
    if not any(means(term, pod, other) for other in placed for term in terms):
        return all(means(term, pod, pod) for term in terms)
    return all(any(means(term, pod, other) for other in neighbours) for term in terms)


def _has_volumes(claims: list[Claim], wanted: int, node: Node, facts: Facts, make: Maker) -> bool:
    if len(claims) < wanted or any(claim.deleting for claim in claims):
        return False
    for claim in claims:
        if claim.fully_bound:
            volume = facts.volume_of(claim)
            if volume is None or claim.status.phase == "Lost" or not reaches(node, volume):
                return False
    unbound = [claim for claim in claims if not claim.fully_bound]
    if any(claim.selected_node not in (None, node.name) for claim in unbound):
        # A choice of node stands until it is taken back, which `settled` looks after.
        return False
    usable = [v for _, v in sorted(facts.volumes.items()) if any(does(claim, v) for claim in unbound)]
    offered = [volume for volume in usable if reaches(node, volume)]
    choices: list[Volume | None] = [*offered, *(None for _ in unbound)]
    return any(_does(unbound, chosen, node, facts, make) for chosen in permutations(choices, len(unbound)))


def _does(claims: list[Claim], chosen: tuple[Volume | None, ...], node: Node, facts: Facts, make: Maker) -> bool:
    """Whether each claim could have the volume chosen for it, and one made where that is none."""
    pairs = list(zip(claims, chosen, strict=True))
    if not all(does(claim, volume) for claim, volume in pairs if volume is not None):
        return False
    wanting = [claim for claim, volume in pairs if volume is None]
    by_class: dict[str, list[Claim]] = {}
    for claim in wanting:
        if reserved_for(claim, facts):
            return False
        by_class.setdefault(claim.storage_class, []).append(claim)
    return all(_makes(name, alike, node, facts, make) for name, alike in by_class.items())


def _makes(name: str, claims: list[Claim], node: Node, facts: Facts, make: Maker) -> bool:
    storage_class = facts.classes.get(name)
    delayed = storage_class is not None and storage_class.delayed
    return storage_class is not None and delayed and make(storage_class, claims, node, facts)


def reserved_for(claim: Claim, facts: Facts) -> list[Volume]:
    """The volumes that are given to a claim: it gets no others."""
    return [volume for volume in facts.volumes.values() if facts.claim_of(volume) is claim]


def does(claim: Claim, volume: Volume) -> bool:
    """Whether the claim could have the volume, wherever that is."""
    reference = volume.spec.claim_ref
    if reference is not None:
        mine = (reference.namespace, reference.name) == (claim.namespace, claim.name)
        if not mine or reference.uid not in ("", claim.uid):
            return False
    elif volume.status.phase != "Available" or claim.selected_node is not None:
        # A claim that was sent to a provisioner gets what is made for it.
        return False
    return (
        not volume.deleting
        and volume.storage_class == claim.storage_class
        and volume.spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and quantity.parse(volume.size) >= quantity.parse(claim.request)
    )
