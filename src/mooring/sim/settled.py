"""What must hold at the end of a run, once faults are over and everybody had time: nothing is left half done.

Judged from API objects alone. A pod still waits only if `feasibility` finds no place for it either; volumes and
claims agree about each other; what a provisioner was asked for is made, and what it should remove is gone; what was
placed runs.
"""

from collections.abc import Iterator

from mooring.api import keys
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.sim.facts import Facts, Subject
from mooring.sim.feasibility import Maker, does, places_for, reserved_for, stand_ins_make
from mooring.sim.invariants import Violation


def unsettled(facts: Facts, make: Maker = stand_ins_make) -> Iterator[Violation]:
    for volume in facts.volumes.values():
        yield from _volume(facts, volume)
    for claim in facts.claims.values():
        yield from _claim(facts, claim, make)
    for pod in facts.pods.values():
        yield from _pod(facts, pod, make)


def _volume(facts: Facts, volume: Volume) -> Iterator[Violation]:
    reference, claim = volume.spec.claim_ref, facts.claim_of(volume)
    if reference is None or not reference.uid:
        expected = "Available"
    elif claim is None:
        expected = "Released"
        if _made(volume) and volume.spec.persistent_volume_reclaim_policy == "Delete":
            text = f"volume {volume.name} was made for claim {reference.namespace}/{reference.name}, which is gone"
            yield Violation("what nobody needs any more is deleted", text, (Subject(VOLUME, volume.name),))
            return
    else:
        expected = "Bound"
        if volume.deleting and not claim.fully_bound:
            # SEEN: on its way out, but reserved: as on Kubernetes it stays until the claim has found another or goes.
            return
        if not claim.fully_bound or claim.spec.volume_name != volume.name:
            text = f"volume {volume.name} is reserved for claim {claim.key}, which is not bound to it"
            objects = (Subject(VOLUME, volume.name), Subject(CLAIM, claim.key))
            yield Violation("reservations are completed or lifted", text, objects)
            return
    if volume.status.phase != expected:
        text = f"volume {volume.name} is {volume.status.phase} and should be {expected}"
        yield Violation("volumes say what they are", text, (Subject(VOLUME, volume.name),))


def _made(volume: Volume) -> bool:
    """By a provisioner, not by hand."""
    return keys.PROVISIONED_BY in volume.metadata.annotations


def _claim(facts: Facts, claim: Claim, make: Maker) -> Iterator[Violation]:
    subject = Subject(CLAIM, claim.key)
    if claim.fully_bound:
        if claim.status.phase != "Bound":
            text = f"claim {claim.key} is bound to {claim.spec.volume_name} but says {claim.status.phase}"
            yield Violation("claims say what they are", text, (subject,))
        return
    storage_class = facts.classes.get(claim.storage_class)
    if claim.deleting:
        return
    if storage_class is not None:
        yield from _unmade(facts, claim, storage_class, make)
    if storage_class is not None and storage_class.delayed:
        return
    fitting = sorted(volume.name for volume in facts.volumes.values() if does(claim, volume))
    if fitting:
        text = f"claim {claim.key} waits although it could have {', '.join(fitting)}"
        yield Violation("what can be bound is bound", text, (subject, Subject(VOLUME, fitting[0])))


def _unmade(facts: Facts, claim: Claim, storage_class: StorageClass, make: Maker) -> Iterator[Violation]:
    """What a provisioner was asked for: by the node selected for a claim, or by its class alone."""
    selected = claim.selected_node
    if selected is not None and selected not in facts.nodes:
        text = f"claim {claim.key} waits for a volume on node {selected}, which is gone"
        yield Violation("choices of lost nodes are taken back", text, (Subject(CLAIM, claim.key),))
    elif selected is not None or not storage_class.delayed:
        nodes = [node for name, node in facts.nodes.items() if selected in (None, name)]
        if not reserved_for(claim, facts) and any(make(storage_class, [claim], node, facts) for node in nodes):
            text = f"claim {claim.key} waits for a volume that could be made"
            yield Violation("what can be made is made", text, (Subject(CLAIM, claim.key),))


def _pod(facts: Facts, pod: Pod, make: Maker) -> Iterator[Violation]:
    if pod.finished:
        return
    subject = Subject(POD, pod.key)
    involved = (subject, *(Subject(CLAIM, key) for key in pod.claim_keys))
    if pod.deleting:
        if pod.spec.node_name in facts.nodes:
            yield Violation("deleted pods go", f"pod {pod.key} is still there", (subject,))
    elif not pod.spec.node_name:
        places = places_for(pod, facts, make)
        if places:
            text = f"pod {pod.key} waits although it could be placed on {', '.join(places)}"
            yield Violation("what can be placed is placed", text, involved)
    elif pod.spec.node_name not in facts.nodes:
        text = f"pod {pod.key} is still there although its node {pod.spec.node_name} is gone"
        yield Violation("pods of lost nodes go", text, (subject,))
    elif pod.status.phase == "Running":
        missing = [key for key in pod.claim_keys if key not in facts.claims]
        if missing:
            text = f"pod {pod.key} runs, but claim {', '.join(missing)} is gone"
            yield Violation("claims in use stay", text, involved)
    elif _usable(facts, pod):
        text = f"pod {pod.key} is on {pod.spec.node_name}, has its volumes, and is {pod.status.phase}"
        yield Violation("what is placed runs", text, involved)


def _usable(facts: Facts, pod: Pod) -> bool:
    claims = facts.claims_of(pod)
    return len(claims) == len(pod.claim_keys) and all(
        facts.volume_of(claim) is not None and not claim.deleting for claim in claims
    )
