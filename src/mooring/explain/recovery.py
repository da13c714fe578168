"""The plan of `mooring orphans --plan`: which claims would be replaced by empty ones, and what that loses. Pure.

`volumes.lost_storage` decides about each volume; here every pod of a planned claim is scheduled on trial, because to
delete a claim whose pod would not fit gains nothing.
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, ClaimStatus
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.cluster_view import users_of
from mooring.explain.orphans import unreachable
from mooring.explain.pod import explain_pod
from mooring.explain.results import ExplainStruct
from mooring.explain.text import counted_noun
from mooring.explain.volume_candidates import quantity_text
from mooring.volumes.lost_storage import (
    Confirmation,
    LostPair,
    ReachableNodes,
    RecoveryRefusalCode,
    Refusal,
    VolumePair,
    lost_pair,
)
from mooring.volumes.lost_storage_record import STORAGE_FINALIZERS
from mooring.volumes.matching import is_reserved_for


class PodTrial(ExplainStruct, frozen=True):
    """Whether a pod fits after the recovery."""

    pod: str
    fits: bool
    verdict: str


class PlannedRecovery(ExplainStruct, frozen=True):
    """A claim that would be replaced, with every write in order."""

    claim: str
    volume: str
    node: str
    storage_class: str
    reclaim_policy: str
    confirmed_by: str
    #: What is lost, as a sentence.
    loses: str
    steps: tuple[str, ...]
    pods: tuple[PodTrial, ...] = ()


class RefusedRecovery(ExplainStruct, frozen=True):
    """An unreachable volume that is left alone."""

    volume: str
    claim: str
    code: str
    reason: str


class RecoveryPlan(ExplainStruct, frozen=True):
    verdict: str
    items: tuple[PlannedRecovery, ...] = ()
    refused: tuple[RefusedRecovery, ...] = ()


def recovery_plan(objects: ClusterObjects, confirmed: Collection[str] = ()) -> RecoveryPlan:
    """`confirmed` are nodes whose storage the administrator has confirmed to be lost."""
    nodes, users, lost = ReachableNodes(objects.of(NODE)), users_of(objects.of(POD)), unreachable(objects)
    pairs: list[LostPair] = []
    refused: list[RefusedRecovery] = []
    for volume in sorted(objects.of(VOLUME), key=lambda one: one.name):
        reference = volume.spec.claim_ref
        key = f"{reference.namespace}/{reference.name}" if reference is not None else ""
        claim = objects.get(CLAIM, key)
        named = claim.storage_class if claim is not None else volume.storage_class
        pair = VolumePair(volume, claim, objects.get(STORAGE_CLASS, named), users.get(key, ()))
        decided = lost_pair(pair, nodes, Confirmation(nodes=confirmed))
        if isinstance(decided, LostPair):
            pairs.append(decided)
        elif volume.name in lost and claim is not None and is_reserved_for(volume, claim):
            refused.append(_refused(volume.name, key, decided))
    after = _recovered(objects, pairs)
    items: list[PlannedRecovery] = []
    for one in pairs:
        trials = tuple(_trial(pod, after) for pod in users.get(one.claim.key, ()))
        misfit = next((trial for trial in trials if not trial.fits), None)
        if misfit is None:
            items.append(_planned(one, trials))
        else:
            reason = f"with an empty volume, too: {misfit.verdict}"
            refused.append(_refused(one.volume.name, one.claim.key, Refusal(RecoveryRefusalCode.WOULD_NOT_FIT, reason)))
    return RecoveryPlan(_verdict(items, refused), tuple(items), tuple(sorted(refused, key=lambda one: one.volume)))


def _refused(volume: str, claim: str, refusal: Refusal) -> RefusedRecovery:
    return RefusedRecovery(volume, claim, refusal.code.value, refusal.reason)


def _recovered(objects: ClusterObjects, pairs: Sequence[LostPair]) -> ClusterObjects:
    """The objects after all these recoveries."""
    after = objects.copied()
    for pair in pairs:
        if pair.volume.spec.persistent_volume_reclaim_policy == "Delete":
            after.drop(VOLUME, pair.volume.name)
        after.put(CLAIM, _emptied(pair.claim))
        for pod in pair.pods:
            after.put(POD, _unscheduled(pod))
    return after


def _emptied(claim: Claim) -> Claim:
    written = (well_known.BIND_COMPLETED, well_known.BOUND_BY_CONTROLLER, well_known.SELECTED_NODE)
    notes = {key: value for key, value in claim.metadata.annotations.items() if key not in written}
    # Another uid, so that a volume that is kept does not match.
    meta = msgspec.structs.replace(claim.metadata, annotations=notes, uid=f"{claim.uid}-replaced")
    spec = msgspec.structs.replace(claim.spec, volume_name="")
    return msgspec.structs.replace(claim, metadata=meta, spec=spec, status=ClaimStatus(phase="Pending"))


def _unscheduled(pod: Pod) -> Pod:
    """The pod that its controller creates instead."""
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=None)
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def _trial(pod: Pod, after: ClusterObjects) -> PodTrial:
    verdict, _ = explain_pod(after.get(POD, pod.key) or pod, after)
    return PodTrial(pod.key, verdict.ok, verdict.verdict)


def _planned(pair: LostPair, trials: tuple[PodTrial, ...]) -> PlannedRecovery:
    claim, volume = pair.claim, pair.volume
    return PlannedRecovery(
        claim.key,
        volume.name,
        pair.node,
        claim.storage_class,
        volume.spec.persistent_volume_reclaim_policy,
        pair.confirmed_by,
        _loss(pair),
        tuple(_steps(pair)),
        trials,
    )


def _loss(pair: LostPair) -> str:
    size, name = quantity_text(pair.volume.size), pair.volume.name
    if pair.volume.spec.persistent_volume_reclaim_policy == "Delete":
        return f"all data on {name} ({size}), and the only record of where its storage is on {pair.node}"
    return f"the binding of {pair.claim.key} to {name} ({size}); {name} is kept, with the only record of its storage"


def _steps(pair: LostPair) -> Iterator[str]:
    claim, volume = pair.claim, pair.volume
    yield f"delete PersistentVolumeClaim {claim.key}"
    for pod in pair.pods:
        yield f"delete Pod {pod.key}, which was on {pair.node}"
    if volume.spec.persistent_volume_reclaim_policy == "Delete":
        waiting = [each for each in volume.metadata.finalizers if each in STORAGE_FINALIZERS]
        removed = f", and remove its finalizer {', '.join(waiting)}" if waiting else ""
        yield f"delete PersistentVolume {volume.name}{removed}"
    else:
        policy = volume.spec.persistent_volume_reclaim_policy
        yield f"keep PersistentVolume {volume.name} (reclaim policy {policy})"
    yield f"create PersistentVolumeClaim {claim.key} without a volume"


def _verdict(items: Sequence[PlannedRecovery], refused: Sequence[RefusedRecovery]) -> str:
    if not items and not refused:
        return "No claim has lost its storage with its node."
    kept = f"{counted_noun(len(refused), 'unreachable volume')} would be left alone"
    if not items:
        return f"No claim would be replaced; {kept}."
    planned = f"{counted_noun(len(items), 'claim')} would be replaced, and the data lost"
    return f"{planned}; {kept}." if refused else f"{planned}."
