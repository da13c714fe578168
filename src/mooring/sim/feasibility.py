"""Could this pod be placed? Answered by trying everything, for small worlds.

The judge of the scheduler must not share its cleverness: no index, no bit sets, no greedy matching. Every node is
tried with every way of giving free volumes to the pod's claims. Understood are volumes, node names and required
anti-affinity; pods of simulated scenarios ask for nothing else that could be short.
"""

from itertools import permutations

from mooring.api import quantity
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.sim.facts import Facts, reaches
from mooring.sim.invariants import repels


def places_for(pod: Pod, facts: Facts) -> list[str]:
    """The nodes the pod could be placed on as things are, in the order of their names."""
    return [name for name, node in sorted(facts.nodes.items()) if _fits(pod, node, facts)]


def _fits(pod: Pod, node: Node, facts: Facts) -> bool:
    if node.spec.unschedulable or any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints):
        return False
    neighbours = [p for p in facts.pods.values() if p.spec.node_name == node.name and not p.finished]
    if any(repels(pod, other) or repels(other, pod) for other in neighbours if other.uid != pod.uid):
        return False
    claims = [facts.claims.get(key) for key in dict.fromkeys(pod.claim_keys)]
    return _has_volumes([claim for claim in claims if claim is not None], len(claims), node, facts)


def _has_volumes(claims: list[Claim], wanted: int, node: Node, facts: Facts) -> bool:
    if len(claims) < wanted or any(claim.deleting for claim in claims):
        return False
    for claim in claims:
        if claim.fully_bound:
            volume = facts.volume_of(claim)
            if volume is None or claim.status.phase == "Lost" or not reaches(node, volume):
                return False
    unbound = [claim for claim in claims if not claim.fully_bound]
    offered = [v for _, v in sorted(facts.volumes.items()) if reaches(node, v)]
    return any(all(map(does, unbound, chosen)) for chosen in permutations(offered, len(unbound)))


def does(claim: Claim, volume: Volume) -> bool:
    """Whether the claim could have the volume, wherever that is."""
    reference = volume.spec.claim_ref
    if reference is not None:
        mine = (reference.namespace, reference.name) == (claim.namespace, claim.name)
        if not mine or reference.uid not in ("", claim.uid):
            return False
    elif volume.status.phase != "Available":
        return False
    return (
        not volume.deleting
        and volume.storage_class == claim.storage_class
        and volume.spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and quantity.parse(volume.size) >= quantity.parse(claim.request)
    )
