"""How far a claim has come, whatever the node: who has to act next, since when, and what they said last.

One claim at a time, by the PV controller's and the provisioners' own rules. What its pods say to single nodes is
`pod`'s work; what a provisioner said is `provisioning_progress`'.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from mooring.api import keys
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.label_selector import SelectorError
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.explain import candidates, data_loss, mismatches
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.consumers import awaiting, users_of
from mooring.explain.events import Events, moment
from mooring.explain.lost_nodes import lost_nodes, told_since
from mooring.explain.provisioning_progress import progress
from mooring.explain.verdicts import ClaimStanding
from mooring.pvcontroller.provisioners import who_serves
from mooring.volumes.affinity import affinity
from mooring.volumes.clean_claims import rolls_back
from mooring.volumes.holds import objects as marks
from mooring.volumes.matching import Criterion, Needs, needs_of, outgrows, points_to
from mooring.volumes.nodeset import EMPTY
from mooring.volumes.plan import HOLD_PREFIX, ROLLBACK_PREFIX, HoldState
from mooring.volumes.pod_claims import is_delayed
from mooring.volumes.shortage import NOWHERE, where
from mooring.volumes.topology import TopologyIndex

ROLLED_BACK: Final = "ProvisioningRolledBack"
#: What nobody asks of a volume that a claim names itself; "" is nothing at all.
_USERS_CHOICE: Final = frozenset({"", Criterion.PHASE.name, Criterion.SELECTOR.name, Criterion.AFFINITY.name})

#: What can be done about a claim that asks for more than its volume has.
RESIZE: Final = "whether the driver has an external-resizer; without one, copy the data to a larger claim"


class Standings:
    """The claims of a cluster, one by one."""

    def __init__(self, objects: ClusterObjects, events: Events) -> None:
        self._objects = objects
        self._events = events
        self._classes: Mapping[str, StorageClass] = {each.name: each for each in objects.of(STORAGE_CLASS)}
        self._pods = users_of(objects.of(POD))
        self._topology = TopologyIndex()
        for node, labels in objects.node_labels.items():
            self._topology.put(node, labels)
        self._lost_since = lost_nodes(objects)
        self._lost = EMPTY
        for node in self._lost_since:
            self._lost |= self._topology.named(node)
        self._held: dict[str, Volume] = {}
        for volume in objects.of(VOLUME):
            reference = volume.spec.claim_ref
            if reference is not None and mismatches.held(volume) in (HoldState.HELD, HoldState.ROLLING_BACK):
                self._held[reference.name.removeprefix(HOLD_PREFIX).removeprefix(ROLLBACK_PREFIX)] = volume

    def of(self, claim: Claim) -> ClaimStanding:
        if claim.deleting:
            return self._deleting(claim)
        if rolls_back(claim):
            name = claim.spec.volume_name
            verdict = f"{claim.key} is being rolled back: it loses {name}, unused, so that its pod can go elsewhere."
            return ClaimStanding(claim.key, "RollingBack", verdict, volume=name)
        if claim.fully_bound or claim.status.phase == "Lost":
            return self._bound(claim)
        if claim.spec.volume_name:
            return self._named(claim)
        return self._open(claim)

    def pods(self, claim: Claim) -> Sequence[Pod]:
        """The pods that use a claim and have not finished."""
        return self._pods.get(claim.key, ())

    def _deleting(self, claim: Claim) -> ClaimStanding:
        users = [pod.key for pod in self.pods(claim)]
        waits = f" and goes when {', '.join(users)} no longer uses it" if users else ""
        since = claim.metadata.deletion_timestamp or ""
        verdict = f"{claim.key} is being deleted since {since}{waits}."
        checks = (data_loss.delete_pods(users),) if users else ()
        return ClaimStanding(claim.key, "Deleting", verdict, stuck=bool(users), since=since, checks=checks)

    def _bound(self, claim: Claim) -> ClaimStanding:
        name = claim.spec.volume_name
        volume = self._objects.get(VOLUME, name) if name else None
        if volume is None:
            gone = f"its volume {name} does not exist" if name else "nothing says which volume it had"
            lost = "Lost" if claim.status.phase == "Lost" else "VolumeMissing"
            return ClaimStanding(claim.key, lost, f"{claim.key} is lost: {gone}.", stuck=True, volume=name)
        if volume.spec.claim_ref is not None and not points_to(volume, claim):
            reference = volume.spec.claim_ref
            verdict = f"{claim.key} names volume {name}, which belongs to {reference.namespace}/{reference.name}."
            return ClaimStanding(claim.key, "Misbound", verdict, stuck=True, volume=name)
        nodes, reached_from = len(self._topology), self._topology.matching(affinity(volume))
        reaching = (reached_from & ~self._lost).bit_count()
        if nodes and not reaching:
            return self._unreachable(claim, volume, tuple(sorted(self._topology.names(reached_from))))
        some = f"{reaching} of {nodes} nodes" if nodes else "nodes that are not listed"
        verdict = f"{claim.key} is bound to {name} ({mismatches.amount(volume.size)}), usable from {some}."
        if not outgrows(claim, volume):
            return ClaimStanding(claim.key, "Bound", verdict, volume=name)
        asked, has = mismatches.amount(claim.request), mismatches.amount(volume.size)
        note = f"{claim.key} asks for {asked} and {name} has {has}: Mooring resizes no volumes"
        return ClaimStanding(claim.key, "Bound", verdict, volume=name, notes=(note,), checks=(RESIZE,))

    def _unreachable(self, claim: Claim, volume: Volume, lost: tuple[str, ...]) -> ClaimStanding:
        place = where(affinity(volume))
        bound = f"{claim.key} is bound to {volume.name}"
        if lost:
            told = ", ".join(f"{name} (not ready {told_since(self._lost_since[name])})" for name in lost)
            verdict = f"{bound}, which no node that is ready can reach: only {told}."
        else:
            verdict = f"{bound}, which no node can reach: it is for {place}, and no node has that."
        again = f"create PersistentVolume {volume.name} again, with a node affinity that a node can have"
        checks = (again,) if place == NOWHERE else ()
        return ClaimStanding(
            claim.key, "Unreachable", verdict, stuck=True, volume=volume.name, lost_nodes=lost, checks=checks
        )

    def _named(self, claim: Claim) -> ClaimStanding:
        name = claim.spec.volume_name
        volume = self._objects.get(VOLUME, name)
        if volume is None:
            verdict = f"{claim.key} asks for volume {name}, which does not exist."
            checks = (f"create PersistentVolume {name}, or create the claim again without volumeName",)
            return ClaimStanding(claim.key, "NamedVolumeMissing", verdict, stuck=True, volume=name, checks=checks)
        needs = _needs(claim)
        if isinstance(needs, str):
            return _senseless(claim, needs)
        [judged] = candidates.anywhere(needs, (volume,)).candidates
        if judged.criterion in _USERS_CHOICE:
            return ClaimStanding(claim.key, "Binding", f"{claim.key} is about to be bound to {name}.", volume=name)
        verdict = f"{claim.key} asks for volume {name}, which {judged.reason}: {judged.detail}."
        checks = ("create the claim or the volume again so that they go together, or ask for another volume",)
        return ClaimStanding(claim.key, "NamedVolumeMismatch", verdict, stuck=True, volume=name, checks=checks)

    def _open(self, claim: Claim) -> ClaimStanding:
        if (held := self._held.get(claim.uid)) is not None:
            return self._with_rollbacks(claim, self._of_held(claim, held))
        delayed = is_delayed(claim, self._classes)
        if isinstance(delayed, str):
            checks = (f"create StorageClass {claim.storage_class} again with volumeBindingMode set",)
            return ClaimStanding(
                claim.key, "BindingModeMissing", f"{claim.key} waits: {delayed}.", stuck=True, checks=checks
            )
        if delayed and claim.selected_node is None:
            return self._with_rollbacks(claim, awaiting(claim, self.pods(claim), self._events))
        needs = _needs(claim)
        if isinstance(needs, str):
            return _senseless(claim, needs)
        storage_class = self._classes.get(claim.storage_class)
        maker = "" if storage_class is None else who_serves(storage_class.provisioner)
        if not (delayed and maker):
            # SEEN: an existing volume would be bound at once, or is the only hope.
            found = candidates.anywhere(needs, self._objects.of(VOLUME))
            if not delayed and any(not each.criterion for each in found.candidates):
                verdict = f"{claim.key} is about to be bound to {found.candidates[0].volume}."
                return ClaimStanding(claim.key, "Binding", verdict, volume=found.candidates[0].volume)
            if storage_class is None:
                return self._without_class(claim, found)
            if not maker:
                return _no_volume(claim, found, f"class {storage_class.name} makes none ({storage_class.provisioner})")
        return self._with_rollbacks(claim, progress(claim, maker, self._objects, self._events))

    def _of_held(self, claim: Claim, volume: Volume) -> ClaimStanding:
        notes = volume.metadata.annotations
        node, since = notes.get(marks.NODE, ""), notes.get(marks.SINCE, "")
        if mismatches.held(volume) is HoldState.ROLLING_BACK:
            why = notes.get(marks.REASON, "no reason given")
            verdict = f"{claim.key}: volume {volume.name} on {node} is being rolled back: {why}."
            return ClaimStanding(claim.key, "RollingBack", verdict, since=since, node=node, volume=volume.name)
        verdict = (
            f"{claim.key}: volume {volume.name} is there and held on {node} since {since}, until its pod has all its "
            "volumes there."
        )
        return ClaimStanding(claim.key, "Held", verdict, since=since, node=node, volume=volume.name)

    def _with_rollbacks(self, claim: Claim, standing: ClaimStanding) -> ClaimStanding:
        events = self._events.about(CLAIM, claim, ROLLED_BACK)
        notes = tuple(f"rolled back at {moment(event)}: {event.message}" for event in events)
        return _with_notes(standing, notes)

    def _without_class(self, claim: Claim, found: candidates.Answer) -> ClaimStanding:
        name = claim.storage_class
        if name:
            known = ", ".join(sorted(self._classes)) or "none"
            notes = (f"there is: {known}",)
            checks = () if self._classes else (f"create StorageClass {name}",)
            verdict = f"{claim.key} names class {name}, which does not exist, and no existing volume does for it."
            return ClaimStanding(
                claim.key,
                "ClassMissing",
                verdict,
                stuck=True,
                notes=notes,
                candidates=found.candidates,
                failed=found.failed,
                checks=checks,
            )
        default = next((each.name for each in self._classes.values() if _is_default(each)), "")
        if default and not claim.has_class:
            return ClaimStanding(claim.key, "Binding", f"{claim.key} is about to be given the default class {default}.")
        return _no_volume(claim, found, "it has no class" + ("" if claim.has_class else " and there is no default one"))


def _is_default(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations
    return any(annotations.get(key) == "true" for key in (keys.DEFAULT_CLASS, keys.DEFAULT_CLASS_BETA))


def _needs(claim: Claim) -> Needs | str:
    try:
        return needs_of(claim)
    except (SelectorError, QuantityError) as problem:
        return str(problem)


def _senseless(claim: Claim, problem: str) -> ClaimStanding:
    checks = ("create the claim again with a selector and a size that make sense",)
    return ClaimStanding(
        claim.key, "Senseless", f"{claim.key} cannot be understood: {problem}.", stuck=True, checks=checks
    )


def _no_volume(claim: Claim, found: candidates.Answer, why: str) -> ClaimStanding:
    count = sum(found.failed.values())
    none = f"none of {count} volumes does for it" if count else "there are no volumes"
    return ClaimStanding(
        claim.key,
        "NoVolume",
        f"{claim.key} waits for a volume: {none}, and {why}.",
        stuck=True,
        candidates=found.candidates,
        failed=found.failed,
    )


def _with_notes(standing: ClaimStanding, notes: tuple[str, ...]) -> ClaimStanding:
    return msgspec.structs.replace(standing, notes=(*standing.notes, *notes)) if notes else standing
