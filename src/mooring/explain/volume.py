"""Explains a volume: its claim and users, the pending claims it matches, or why it is not used and what to do.

Follows the rules of the PV controller and the provisioners. Unreachable volumes are reported as `orphans` reports them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from mooring.api import quantity, well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from mooring.api.quantity import QuantityError
from mooring.api.views.storage import Claim, Volume, VolumeAttachment
from mooring.explain import volume_candidates
from mooring.explain.cluster_objects import ClusterObjects, moment
from mooring.explain.cluster_view import ClusterView, users_of
from mooring.explain.orphans import Orphan, orphan_of
from mooring.explain.remedies import data_loss
from mooring.explain.results import PendingClaim, VolumeReport, VolumeUser
from mooring.explain.text import counted_noun
from mooring.volumes.binding import HoldState, is_delayed
from mooring.volumes.holds import objects as marks
from mooring.volumes.in_tree import in_zone
from mooring.volumes.matching import is_reserved_for
from mooring.volumes.topology import reaches

#: How many claims are told of; the others are counted.
MAX_LISTED: Final = 10
#: Of a claim whose size or selector makes no sense.
SENSELESS: Final = "SENSELESS"


class MatchedClaims(NamedTuple):
    """The claims that wait, those the volume does for first, and how many fail which criterion."""

    pending_claims: tuple[PendingClaim, ...]
    failed: dict[str, int]
    #: How many the volume does for.
    served: int

    @property
    def waiting(self) -> int:
        return self.served + sum(self.failed.values())

    @property
    def matching(self) -> list[str]:
        return [each.claim for each in self.pending_claims if not each.criterion]


def match_pending_claims(volume: Volume, objects: ClusterObjects) -> MatchedClaims:
    """All claims that wait for a volume."""
    waiting = sorted((claim for claim in objects.of(CLAIM) if is_pending(claim)), key=lambda claim: claim.key)
    judged = [(claim, match_claim(claim, volume)) for claim in waiting]
    judged.sort(key=lambda each: bool(each[1].criterion))
    failed = Counter(taker.criterion for _, taker in judged if taker.criterion)
    claims = tuple(
        taker if taker.criterion else _coming(claim, volume, objects) for claim, taker in judged[:MAX_LISTED]
    )
    return MatchedClaims(claims, dict(failed), len(judged) - failed.total())


def is_pending(claim: Claim) -> bool:
    """Whether a claim is still to get its volume, and asks for none by name."""
    return not (claim.deleting or claim.spec.volume_name or claim.status.phase in ("Bound", "Lost"))


def match_claim(claim: Claim, volume: Volume) -> PendingClaim:
    """What the volume is to the claim, wherever it is to be used."""
    needs = volume_candidates.needs_of(claim)
    if isinstance(needs, str):
        return PendingClaim(claim.key, SENSELESS, "is invalid", needs)
    found = volume_candidates.candidate_for(needs, volume)
    against = (found.criterion, found.reason, found.detail) if found.criterion else ()
    return PendingClaim(claim.key, *against)


def _coming(claim: Claim, volume: Volume, objects: ClusterObjects) -> PendingClaim:
    """Of a claim the volume does for: what else it waits for, and which volume would be taken before."""
    classes = {each.name: each for each in objects.of(STORAGE_CLASS)}
    delayed = is_delayed(claim.storage_class, classes.get)
    parts = ["once a pod that uses it is scheduled to a node that reaches the volume"] if delayed is True else []
    better = _smaller(claim, volume, objects.of(VOLUME))
    parts += [f"{better} is smaller, matches as well and is bound first"] if better else []
    return PendingClaim(claim.key, detail="; ".join(parts))


def _smaller(claim: Claim, volume: Volume, others: Iterable[Volume]) -> str:
    """The smallest matching volume without node affinity, if smaller than this one; "" otherwise."""
    if volume.required_affinity is not None:
        # where volumes are on nodes, the smallest of the chosen node is taken, and that is not known yet.
        return ""
    size = _size(volume)
    smaller = (each for each in others if each.required_affinity is None and _size(each) < size)
    found = [each for each in smaller if not match_claim(claim, each).criterion]
    return min(found, key=lambda each: (_size(each), each.name)).name if found else ""


def _size(volume: Volume) -> float:
    try:
        return float(quantity.to_bytes(volume.size))
    except QuantityError:
        return float("inf")


FAILED_DELETE = "VolumeFailedDelete"


def explain_volume(view: ClusterView, volume: Volume) -> VolumeReport:
    """What becomes of a volume: its claim and users, the claims that could take it, and why it is not reused."""
    return _VolumeExplainer(view, volume).report()


class _VolumeExplainer:
    def __init__(self, view: ClusterView, volume: Volume) -> None:
        self._view = view
        self._objects = view.objects
        self._volume = volume
        self._name = volume.name
        reference = volume.spec.claim_ref
        self._reference = "" if reference is None else f"{reference.namespace}/{reference.name}"
        self._claim = None if reference is None else self._objects.get(CLAIM, self._reference)
        pods = users_of(self._objects.of(POD)).get(self._reference, ()) if self._is_the_claims else ()
        self._users = tuple(VolumeUser(pod.key, pod.status.phase or "Pending", pod.spec.node_name) for pod in pods)
        attached = self._objects.of(VOLUME_ATTACHMENT)
        mine = [each for each in attached if each.spec.source.persistent_volume_name == volume.name]
        self._attachments = sorted(mine, key=lambda each: each.spec.node_name)

    @property
    def _is_the_claims(self) -> bool:
        """Whether the claim it names is there, and no later one of the name."""
        return self._claim is not None and is_reserved_for(self._volume, self._claim)

    def report(self) -> VolumeReport:
        nodes = self._objects.of(NODE)
        found = self._judged()
        unreached = orphan_of(self._volume, self._objects) if nodes else None
        placed = ((node.name, node.metadata.labels) for node in nodes)
        usable = ((name, labels) for name, labels in placed if in_zone(self._volume, labels))
        reaching = sorted(name for name, labels in usable if reaches(name, labels, self._volume))
        if unreached is not None:
            found = self._unreachable(found, unreached)
        return replace(
            found,
            facts=_facts(self._volume),
            reached_from=() if unreached is not None else tuple(reaching),
            nodes=len(nodes),
            claim=self._reference
            if volume_candidates.observed_hold_state(self._volume) in (HoldState.FREE, HoldState.COMMITTED)
            else "",
            users=self._users,
            attachments=tuple(_attached(each) for each in self._attachments),
        )

    def _report(self, state: str, text: str, **more: Any) -> VolumeReport:  # noqa: ANN401  fields of several types
        return VolumeReport(self._name, state, f"{self._name} {text}", **more)

    def _judged(self) -> VolumeReport:
        volume = self._volume
        if volume.deleting:
            return self._deleting()
        match volume_candidates.observed_hold_state(volume):
            case HoldState.HELD:
                return self._held()
            case HoldState.ROLLING_BACK:
                notes = volume.metadata.annotations
                why = notes.get(marks.REASON, "no reason given")
                verdict = f"{self._name}, provisioned for {notes[marks.CLAIM]}, is being rolled back: {why}."
                return VolumeReport(self._name, "RollingBack", verdict)
            case HoldState.FREE:
                return self._free()
            case HoldState.COMMITTED:
                return self._given()

    def _deleting(self) -> VolumeReport:
        kept = list(self._keeping())
        why = f": {'; '.join(why for why, _ in kept)}" if kept else " and will be removed soon"
        texts = tuple(step for _, step in kept if step)
        verdict = f"is being deleted since {self._volume.metadata.deletion_timestamp}{why}."
        return self._report("Deleting", verdict, stuck=bool(texts), notes=self._failures(), remedy_texts=texts)

    def _keeping(self) -> Iterator[tuple[str, str]]:
        """What keeps the object there, and what would help, "" where it goes by itself."""
        for finalizer in self._volume.metadata.finalizers:
            if finalizer == well_known.PV_PROTECTION:
                if self._is_the_claims:
                    users = [user.pod for user in self._users]
                    pods = f", which {', '.join(users)} uses" if users else ""
                    remedy = data_loss.delete_claim(self._reference, self._volume, users)
                    yield f"{self._reference} is bound to it{pods}", remedy
            elif finalizer == well_known.EXTERNAL_PROVISIONER:
                maker = self._volume.metadata.annotations.get(well_known.PROVISIONED_BY, "its provisioner")
                why = f"its finalizer {finalizer} waits until {maker} has deleted the storage"
                yield why, "" if self._is_the_claims else f"check that {maker} runs, and its logs"
            elif finalizer.startswith("external-attacher/"):
                where = ", ".join(each.spec.node_name for each in self._attachments)
                why = f"it is attached to {where}" if where else f"finalizer {finalizer} is still there"
                yield why, "" if where else "check that the external-attacher of its driver runs"
            else:
                remedy = "find out which component owns that finalizer, and whether it runs"
                yield f"finalizer {finalizer} is still there", remedy

    def _held(self) -> VolumeReport:
        notes = self._volume.metadata.annotations
        verdict = (
            f"is held for {notes[marks.CLAIM]} on {notes.get(marks.NODE, 'some node')} since "
            f"{notes.get(marks.SINCE, 'some time')}, until all volumes of the pod are available."
        )
        return self._report("Held", verdict)

    def _free(self) -> VolumeReport:
        phase = self._volume.status.phase
        if phase == "Failed":
            return self._failed()
        found = match_pending_claims(self._volume, self._objects)
        takes = found.matching
        if takes:
            more = f" and {found.served - len(takes)} more" if found.served > len(takes) else ""
            verdict = f"is available and matches {', '.join(takes)}{more}."
        elif found.waiting:
            verdict = f"is available and matches none of {counted_noun(found.waiting, 'pending claim')}."
        else:
            verdict = "is available, and no claim is pending."
        state = "Available" if phase == "Available" else "Pending"
        return self._report(state, verdict, pending_claims=found.pending_claims, failed=found.failed)

    def _given(self) -> VolumeReport:
        reference = self._volume.spec.claim_ref
        assert reference is not None
        if self._is_the_claims and self._claim is not None:
            return self._bound(self._claim) if reference.uid else self._reserved(self._claim)
        clear = data_loss.clear_claim_ref(self._name)
        if not reference.uid:
            create = f"create claim {self._reference} with volumeName {self._name}"
            verdict = f"is reserved for {self._reference}, which does not exist yet."
            return self._report("Reserved", verdict, remedy_texts=(create, clear))
        if self._volume.status.phase == "Failed":
            return self._failed()
        if self._claim is None and self._volume.status.phase == "Bound":
            # a reader without the right to claims, a dump without them, or a controller that has yet to look.
            verdict = f"is Bound to {self._reference}, which is not among the claims that were listed."
            return self._report("ClaimMissing", verdict)
        return self._released()

    def _bound(self, claim: Claim) -> VolumeReport:
        if claim.spec.volume_name not in ("", self._name):
            clear = data_loss.clear_claim_ref(self._name)
            verdict = f"names {claim.key} in its claimRef, which is bound to {claim.spec.volume_name}."
            return self._report("Misbound", verdict, stuck=True, remedy_texts=(clear,))
        if not claim.fully_bound:
            return self._report("Binding", f"will be bound to {claim.key}.")
        use = "used by no pod"
        if self._users:
            nodes = sorted({user.node for user in self._users if user.node})
            where = f" on {', '.join(nodes)}" if nodes else ", without a node"
            use = f"used by {counted_noun(len(self._users), 'pod')}{where}"
        return self._report("Bound", f"is bound to {claim.key}, {use}.")

    def _reserved(self, claim: Claim) -> VolumeReport:
        """The claimRef names the claim without its uid."""
        if claim.spec.volume_name == self._name and claim.fully_bound:
            return self._bound(claim)
        if claim.spec.volume_name not in ("", self._name):
            clear = data_loss.clear_claim_ref(self._name)
            verdict = f"is reserved for {claim.key}, which has {claim.spec.volume_name} already."
            return self._report("Reserved", verdict, stuck=True, remedy_texts=(clear,))
        found = match_claim(claim, self._volume)
        if found.criterion:
            verdict = f"is reserved for {claim.key}, but {found.reason}: {found.detail}."
            again = "create the claim or the volume again so that they match"
            return self._report("Reserved", verdict, stuck=True, pending_claims=(found,), remedy_texts=(again,))
        is_unused = self._view.claim_reports.of(claim).state == "NoConsumer"
        waits = ", once a pod that uses it is scheduled" if is_unused else ""
        return self._report("Reserved", f"is reserved for {claim.key}, and will be bound to it{waits}.")

    def _released(self) -> VolumeReport:
        """Its claim is gone. What follows is the reclaim policy's word."""
        volume, policy = self._volume, self._volume.spec.persistent_volume_reclaim_policy
        after = "; the claim with that name is a new one" if self._claim is not None else ""
        now = f"is Released: its claim {self._reference} was deleted{after}"
        if policy == "Delete":
            driver = volume.spec.csi.driver if volume.spec.csi else ""
            maker = volume.metadata.annotations.get(well_known.PROVISIONED_BY, "") or driver
            who = f"{maker} must delete its storage" if maker else "no driver is known that could delete its storage"
            failed = self._failures()
            logs = f"check that the provisioner of {maker} runs, and its logs"
            step = logs if maker else data_loss.delete_volume(volume)
            stuck = bool(failed) or not maker
            texts = (step,) if stuck else ()
            return self._report("Released", f"{now}, and {who}.", stuck=stuck, notes=failed, remedy_texts=texts)
        found = match_pending_claims(volume_candidates.without_claim_ref(volume), self._objects)
        waiting = f"; without its claimRef it would match {', '.join(found.matching)}" if found.matching else ""
        reuse = (data_loss.clear_claim_uid(self._name, self._reference), data_loss.clear_claim_ref(self._name))
        steps = (*reuse, data_loss.delete_volume(volume))
        verdict = f"{now}; reclaim policy {policy} keeps it from other claims{waiting}."
        matched = {"pending_claims": found.pending_claims, "failed": found.failed}
        return self._report("Released", verdict, stuck=True, remedy_texts=steps, **matched)

    def _failed(self) -> VolumeReport:
        why = self._volume.status.message or self._volume.status.reason or "no reason given"
        texts = (data_loss.delete_volume(self._volume), data_loss.clear_claim_ref(self._name))
        return self._report("Failed", f"is Failed: {why}.", stuck=True, notes=self._failures(), remedy_texts=texts)

    def _unreachable(self, found: VolumeReport, orphan: Orphan) -> VolumeReport:
        gone = f" ({', '.join(orphan.missing_nodes)} does not exist)" if orphan.missing_nodes else ""
        place = f"no node can reach it: it requires {orphan.where}, and no node matches{gone}"
        if orphan.lost_nodes:
            place = f"no ready node can reach it: only {', '.join(orphan.lost_nodes)}"
        is_free = found.state in ("Available", "Pending")
        before = f"{self._name} is available, but" if is_free else f"{found.verdict.removesuffix('.')};"
        verdict = f"{before} {place}."
        if found.state == "Deleting":
            return replace(found, verdict=verdict, stuck=True)
        # Matching claims of an unreachable volume are irrelevant.
        seen = replace(found, pending_claims=(), failed={}) if is_free else found
        return replace(seen, state="Unreachable", verdict=verdict, stuck=True, remedy_texts=orphan.remedy_texts)

    def _failures(self) -> tuple[str, ...]:
        event = self._view.events.last(VOLUME, self._volume, FAILED_DELETE)
        return () if event is None else (f"{event.reason} at {moment(event)}: {event.message}",)


def _facts(volume: Volume) -> str:
    spec = volume.spec
    size, modes = volume_candidates.quantity_text(volume.size), ", ".join(spec.access_modes) or "no access mode"
    policy = spec.persistent_volume_reclaim_policy
    return f"{size}, class {volume.storage_class or 'none'}, {modes}, {spec.volume_mode}, reclaim policy {policy}"


def _attached(attachment: VolumeAttachment) -> str:
    status = attachment.status
    error = status.detach_error or status.attach_error
    state = "attached" if status.attached else "not attached yet"
    state = f"{state}, to be detached" if attachment.deleting else state
    return f"{attachment.spec.node_name}: {state}{f' ({error.message})' if error is not None and error.message else ''}"
