"""One volume explained: whose it is and who uses it, who could have it, or why nobody gets it and what to do.

By the PV controller's and the provisioners' own rules, on what is listed. Volumes that no node can reach are judged as
`orphans` judges them; who could have a volume that is free, as the matcher does (`takers`).
"""

from collections.abc import Iterator

import msgspec

from mooring.api import keys
from mooring.api.kinds import CLAIM, NODE, POD, VOLUME, VOLUME_ATTACHMENT
from mooring.api.views.claim import Claim
from mooring.api.views.storage import VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.explain import candidates, data_loss, mismatches, takers
from mooring.explain.consumers import users_of
from mooring.explain.events import moment
from mooring.explain.orphans import Orphan, orphan_of
from mooring.explain.situation import Situation
from mooring.explain.verdicts import VolumeStanding, VolumeUser
from mooring.volumes.affinity import reaches
from mooring.volumes.holds import objects as marks
from mooring.volumes.matching import points_to
from mooring.volumes.plan import HoldState
from mooring.volumes.zones import in_zone

FAILED_DELETE = "VolumeFailedDelete"


def explain_volume(situation: Situation, volume: Volume) -> VolumeStanding:
    return _Explaining(situation, volume).standing()


class _Explaining:
    def __init__(self, situation: Situation, volume: Volume) -> None:
        self._situation = situation
        self._objects = situation.objects
        self._volume = volume
        self._name = volume.name
        reference = volume.spec.claim_ref
        self._reference = "" if reference is None else f"{reference.namespace}/{reference.name}"
        self._claim = None if reference is None else self._objects.get(CLAIM, self._reference)
        pods = users_of(self._objects.of(POD)).get(self._reference, ()) if self._is_the_claims else ()
        self._users = tuple(VolumeUser(pod.key, pod.status.phase or "Pending", pod.spec.node_name) for pod in pods)
        attached = (each for each in self._objects.of(VOLUME_ATTACHMENT) if _is_of(each, volume))
        self._attachments = sorted(attached, key=lambda each: each.spec.node_name)

    @property
    def _is_the_claims(self) -> bool:
        """Whether the claim it names is there, and no later one of the name."""
        return self._claim is not None and points_to(self._volume, self._claim)

    def standing(self) -> VolumeStanding:
        nodes = self._objects.of(NODE)
        found = self._judged()
        unreached = orphan_of(self._volume, self._objects) if nodes else None
        if unreached is not None:
            found = self._unreachable(found, unreached)
        return msgspec.structs.replace(
            found,
            facts=_facts(self._volume),
            reached_from=() if unreached is not None else tuple(self._reaching()),
            nodes=len(nodes),
            claim=self._reference if mismatches.held(self._volume) in (HoldState.FREE, HoldState.COMMITTED) else "",
            users=self._users,
            attachments=tuple(_attached(each) for each in self._attachments),
        )

    def _judged(self) -> VolumeStanding:
        volume = self._volume
        if volume.deleting:
            return self._deleting()
        match mismatches.held(volume):
            case HoldState.HELD:
                return self._held()
            case HoldState.ROLLING_BACK:
                return self._rolling_back()
            case HoldState.FREE:
                return self._free()
            case HoldState.COMMITTED:
                return self._given()

    def _deleting(self) -> VolumeStanding:
        since = self._volume.metadata.deletion_timestamp or ""
        kept = list(self._keeping())
        why = f": {'; '.join(why for why, _ in kept)}" if kept else " and will be gone soon"
        helps = tuple(step for _, step in kept if step)
        verdict = f"{self._name} is being deleted since {since}{why}."
        return VolumeStanding(self._name, "Deleting", verdict, stuck=bool(helps), notes=self._failures(), helps=helps)

    def _keeping(self) -> Iterator[tuple[str, str]]:
        """What keeps the object there, and what would help, "" where it goes by itself."""
        for finalizer in self._volume.metadata.finalizers:
            if finalizer == keys.PV_PROTECTION:
                if self._is_the_claims:
                    pods = f", which {', '.join(user.pod for user in self._users)} uses" if self._users else ""
                    yield f"{self._reference} is bound to it{pods}", self._without_claim()
            elif finalizer == keys.EXTERNAL_PROVISIONER:
                maker = self._volume.metadata.annotations.get(keys.PROVISIONED_BY, "its provisioner")
                why = f"its finalizer {finalizer} waits until {maker} has deleted the storage"
                lacks = "" if self._is_the_claims else f"look into the logs of {maker}, and whether it runs"
                yield why, lacks
            elif finalizer.startswith("external-attacher/"):
                where = ", ".join(each.spec.node_name for each in self._attachments)
                why = f"it is attached to {where}" if where else f"finalizer {finalizer} is still there"
                yield why, "" if where else "look whether the attacher of its driver runs"
            else:
                yield (
                    f"finalizer {finalizer} is still there",
                    "find out which component owns that finalizer, and whether it runs",
                )

    def _without_claim(self) -> str:
        return data_loss.delete_claim(self._reference, self._volume, [user.pod for user in self._users])

    def _held(self) -> VolumeStanding:
        notes = self._volume.metadata.annotations
        verdict = (
            f"{self._name} is held for {notes[marks.CLAIM]} on {notes.get(marks.NODE, 'some node')} since "
            f"{notes.get(marks.SINCE, 'some time')}, until the pod has all its volumes."
        )
        return VolumeStanding(self._name, "Held", verdict)

    def _rolling_back(self) -> VolumeStanding:
        notes = self._volume.metadata.annotations
        why = notes.get(marks.REASON, "no reason given")
        return VolumeStanding(
            self._name, "RollingBack", f"{self._name}, made for {notes[marks.CLAIM]}, is being rolled back: {why}."
        )

    def _free(self) -> VolumeStanding:
        phase, found = self._volume.status.phase, takers.asked(self._volume, self._objects)
        if phase == "Failed":
            return self._failed()
        takes = [taker.claim for taker in found.takers if not taker.criterion]
        if takes:
            more = f" and {found.served - len(takes)} more" if found.served > len(takes) else ""
            verdict = f"{self._name} is free, and does for {', '.join(takes)}{more}."
        elif found.waiting:
            verdict = f"{self._name} is free, and does for none of {_count(found.waiting, 'waiting claim')}."
        else:
            verdict = f"{self._name} is free, and no claim waits."
        state = "Available" if phase == "Available" else "Pending"
        return VolumeStanding(self._name, state, verdict, takers=found.takers, failed=found.failed)

    def _given(self) -> VolumeStanding:
        reference = self._volume.spec.claim_ref
        assert reference is not None
        if self._is_the_claims and self._claim is not None:
            return self._bound(self._claim) if reference.uid else self._reserved(self._claim)
        if not reference.uid:
            verdict = f"{self._name} is kept for {self._reference}, which does not exist yet."
            helps = (
                f"create claim {self._reference} with volumeName {self._name}",
                data_loss.clear_claim_ref(self._name),
            )
            return VolumeStanding(self._name, "Reserved", verdict, helps=helps)
        if self._volume.status.phase == "Failed":
            return self._failed()
        if self._claim is None and self._volume.status.phase == "Bound":
            # SEEN: a reader without the right to claims, a dump without them, or a controller that has yet to look.
            verdict = f"{self._name} is Bound to {self._reference}, which is not among the claims that were listed."
            return VolumeStanding(self._name, "ClaimMissing", verdict)
        return self._released()

    def _bound(self, claim: Claim) -> VolumeStanding:
        if claim.spec.volume_name not in ("", self._name):
            verdict = f"{self._name} names {claim.key} as its own, which is bound to {claim.spec.volume_name}."
            helps = (data_loss.clear_claim_ref(self._name),)
            return VolumeStanding(self._name, "Misbound", verdict, stuck=True, helps=helps)
        if not claim.fully_bound:
            return VolumeStanding(self._name, "Binding", f"{self._name} is about to be bound to {claim.key}.")
        if not self._users:
            use = "used by no pod"
        else:
            running = sorted({user.node for user in self._users if user.node})
            use = f"used by {_count(len(self._users), 'pod')}" + (
                f" on {', '.join(running)}" if running else ", without a node"
            )
        return VolumeStanding(self._name, "Bound", f"{self._name} is bound to {claim.key}, {use}.")

    def _reserved(self, claim: Claim) -> VolumeStanding:
        """Somebody has written the claim's name on it, and not its uid."""
        if claim.spec.volume_name == self._name and claim.fully_bound:
            return self._bound(claim)
        if claim.spec.volume_name not in ("", self._name):
            verdict = f"{self._name} is kept for {claim.key}, which has {claim.spec.volume_name} already."
            helps = (data_loss.clear_claim_ref(self._name),)
            return VolumeStanding(self._name, "Reserved", verdict, stuck=True, helps=helps)
        found = takers.judge(claim, self._volume)
        if found.criterion:
            verdict = f"{self._name} is kept for {claim.key}, but {found.reason}: {found.detail}."
            helps = ("create the claim or the volume again so that they go together",)
            return VolumeStanding(self._name, "Reserved", verdict, stuck=True, takers=(found,), helps=helps)
        waits = (
            ", once a pod that uses it is placed" if self._situation.standings.of(claim).state == "NoConsumer" else ""
        )
        verdict = f"{self._name} is kept for {claim.key}, and will be bound to it{waits}."
        return VolumeStanding(self._name, "Reserved", verdict)

    def _released(self) -> VolumeStanding:
        """Its claim is gone. What follows is the reclaim policy's word."""
        volume, policy = self._volume, self._volume.spec.persistent_volume_reclaim_policy
        after = "; the claim of that name is a new one" if self._claim is not None else ""
        now = f"{self._name} is Released: it was {self._reference}'s, which is gone{after}"
        if policy == "Delete":
            maker = volume.metadata.annotations.get(keys.PROVISIONED_BY, "") or (
                volume.spec.csi.driver if volume.spec.csi else ""
            )
            who = f"{maker} is to delete its storage" if maker else "no driver is known that could delete its storage"
            failed = self._failures()
            logs = f"look whether the provisioner of {maker} runs, and into its logs"
            step = logs if maker else data_loss.delete_volume(volume)
            stuck = bool(failed) or not maker
            helps = (step,) if stuck else ()
            return VolumeStanding(self._name, "Released", f"{now}, and {who}.", stuck=stuck, notes=failed, helps=helps)
        found = takers.asked(candidates.cleared(volume), self._objects)
        again = [taker.claim for taker in found.takers if not taker.criterion]
        waiting = f"; once it is cleared it does for {', '.join(again)}" if again else ""
        verdict = f"{now}; reclaim policy {policy} keeps it and its data from other claims{waiting}."
        steps = (
            data_loss.clear_claim_uid(self._name, self._reference),
            data_loss.clear_claim_ref(self._name),
            data_loss.delete_volume(volume),
        )
        return VolumeStanding(
            self._name, "Released", verdict, stuck=True, takers=found.takers, failed=found.failed, helps=steps
        )

    def _failed(self) -> VolumeStanding:
        why = self._volume.status.message or self._volume.status.reason or "no reason given"
        verdict = f"{self._name} is Failed: {why}."
        helps = (
            data_loss.delete_volume(self._volume),
            data_loss.clear_claim_ref(self._name),
        )
        return VolumeStanding(self._name, "Failed", verdict, stuck=True, notes=self._failures(), helps=helps)

    def _unreachable(self, found: VolumeStanding, orphan: Orphan) -> VolumeStanding:
        gone = f" ({', '.join(orphan.missing_nodes)} does not exist)" if orphan.missing_nodes else ""
        place = f"no node can reach it: it is for {orphan.where}, and no node has that{gone}"
        if orphan.lost_nodes:
            place = f"no node that is ready can reach it: only {', '.join(orphan.lost_nodes)}"
        is_free = found.state in ("Available", "Pending")
        verdict = f"{self._name} is free, but {place}." if is_free else f"{found.verdict.removesuffix('.')}; {place}."
        if found.state == "Deleting":
            return msgspec.structs.replace(found, verdict=verdict, stuck=True)
        # Whom a volume does for that nobody can use is no news.
        seen = msgspec.structs.replace(found, takers=(), failed={}) if is_free else found
        return msgspec.structs.replace(seen, state="Unreachable", verdict=verdict, stuck=True, helps=orphan.helps)

    def _reaching(self) -> Iterator[str]:
        for node in sorted(self._objects.of(NODE), key=lambda each: each.name):
            labels = node.metadata.labels
            if reaches(node.name, labels, self._volume) and in_zone(self._volume, labels):
                yield node.name

    def _failures(self) -> tuple[str, ...]:
        event = self._situation.events.last(VOLUME, self._volume, FAILED_DELETE)
        return () if event is None else (f"{event.reason} at {moment(event)}: {event.message}",)


def _facts(volume: Volume) -> str:
    spec = volume.spec
    size, modes = mismatches.amount(volume.size), ", ".join(spec.access_modes) or "no access mode"
    policy = spec.persistent_volume_reclaim_policy
    return f"{size}, class {volume.storage_class or 'none'}, {modes}, {spec.volume_mode}, reclaim policy {policy}"


def _is_of(attachment: VolumeAttachment, volume: Volume) -> bool:
    return attachment.spec.source.persistent_volume_name == volume.name


def _attached(attachment: VolumeAttachment) -> str:
    status = attachment.status
    error = status.detach_error or status.attach_error
    state = "attached" if status.attached else "not attached yet"
    state = f"{state}, to be detached" if attachment.deleting else state
    return f"{attachment.spec.node_name}: {state}{f' ({error.message})' if error is not None and error.message else ''}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
