"""Whether a StatefulSet's claims go with it: the owner references its retention policy asks for.

Pure. A claim that shall go with the set names the set as owner, one that shall go when its ordinal is scaled away names
the pod that is about to go; the garbage collector does the rest. Claims that somebody else controls are left alone.
"""

from typing import Any

from mooring.api.kinds import POD, STATEFUL_SET
from mooring.api.views.claim import Claim
from mooring.api.views.meta import OwnerReference
from mooring.api.views.pod import Pod
from mooring.api.views.workload import ClaimRetention, StatefulSet
from mooring.workloads.ownership import reference
from mooring.workloads.stateful_identity import ordinal_of, ordinals

_RETAIN = ClaimRetention()


def policy(stateful_set: StatefulSet) -> ClaimRetention:
    return stateful_set.spec.persistent_volume_claim_retention_policy or _RETAIN


def owners(stateful_set: StatefulSet, pod: Pod, claim: Claim) -> list[dict[str, Any]] | None:
    """The owner references the claim of this pod should have; None if it has them, or is not ours to change."""
    if claim.controller is not None and claim.controller.uid not in (stateful_set.uid, pod.uid):
        return None
    wish = policy(stateful_set)
    leaving = ordinal_of(stateful_set, pod) not in ordinals(stateful_set)
    wanted: dict[str, dict[str, Any]] = {}
    if wish.when_scaled == "Delete" and leaving:
        wanted[pod.uid] = reference(POD, pod)
    elif wish.when_deleted == "Delete":
        wanted[stateful_set.uid] = reference(STATEFUL_SET, stateful_set)
    references = claim.metadata.owner_references
    others = [reference for reference in references if not _ours(reference, stateful_set, pod)]
    mine = {reference.uid for reference in references} - {reference.uid for reference in others}
    if mine == wanted.keys():
        return None
    return [*(_body(other) for other in others), *wanted.values()]


def _ours(owner: OwnerReference, stateful_set: StatefulSet, pod: Pod) -> bool:
    """Of the set, of this pod, or of an earlier pod of its name."""
    return owner.uid == stateful_set.uid or (owner.kind == POD.kind and owner.name == pod.name)


def _body(owner: OwnerReference) -> dict[str, Any]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }
