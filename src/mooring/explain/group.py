"""Explains a PodGroup: its members, the joint decision about them and their volumes on listed objects, what is held.

Runs the scheduler's own group cycle, on a snapshot of its own: the cycle assumes what it chooses. A remedy is a change
with which the cycle finds a plan.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from mooring.api import quantity, times
from mooring.api.kinds import CLAIM, POD, POD_GROUP, STORAGE_CAPACITY, VOLUME
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Volume
from mooring.explain.cluster_objects import ClusterObjects, moment
from mooring.explain.cluster_view import ClusterView, has_no_scheduler
from mooring.explain.remedies import data_loss
from mooring.explain.results import DomainLimit, GroupReport, MemberReport
from mooring.explain.text import MAX_LISTED_NODES, counted_noun, listed_names
from mooring.explain.volume_candidates import observed_hold_state, quantity_text
from mooring.scheduler.framework.cycle import fit_error
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput, decision_of, run_to_end
from mooring.scheduler.groups.members import Group, GroupMembers, GroupState, MemberState, invalid_group
from mooring.volumes.binding import BindingPlan, HoldState
from mooring.volumes.group.outcome import GroupPlan, GroupRefusal, RefusalCode, ShortageCode, shortage_text
from mooring.volumes.holds import objects as marks
from mooring.volumes.holds.group_objects import COMMITTED, GIVEN_UP, group_uid_of
from mooring.volumes.holds.group_policy import GroupTimeouts
from mooring.volumes.holds.group_record import GROUP_EPOCH

#: Segments whose growth is tried as a remedy, the smallest growth first.
MAX_TRIED_SEGMENTS: Final = 8
#: Members whose move to another domain is shown.
MAX_MOVES: Final = 5
ONE_BY_ONE: Final = "  a scheduler that examines members one by one finds storage for each of them"
_NOT_READ: Final = (
    "PodGroups cannot be read ({}): Mooring's scheduler rejects pods of groups, and others may ignore them"
)


def explain_group(view: ClusterView, key: str) -> GroupReport | None:
    """None if neither the PodGroup nor a pod of it is listed."""
    group = group_of(view, key)
    if group is None:
        return None
    if (why := view.objects.unlisted.get(POD_GROUP)) is not None and group.pod_group is None:
        return _report(group, "Ignored", f"{key}: {_NOT_READ.format(why)}.", ok=False)
    if group.pod_group is None:
        count = len(_known(group))
        verdict = f"{key} does not exist, and {_pods(count)} wait for it."
        check = f"create PodGroup {key}, or create the pods again without spec.schedulingGroup"
        return _report(group, "GroupMissing", verdict, ok=False, checks=(check,))
    return GroupInspection(view, group, group.pod_group).report()


def group_of(view: ClusterView, key: str) -> Group | None:
    """The group with the pods that name it; pods of schedulers of which nothing is heard are not members."""
    pods = [pod for pod in view.objects.of(POD) if pod.group_key == key]
    heard = {pod.spec.scheduler_name for pod in pods if not has_no_scheduler(pod, view.events)}
    members = GroupMembers(heard)
    members.observe_group(None, view.objects.get(POD_GROUP, key))
    for pod in sorted(pods, key=lambda pod: pod.name):
        members.observe_pod(None, pod)
    return members.get(key)


def waiting_groups(view: ClusterView, namespace: str = "") -> Iterator[GroupReport]:
    """The reports of all groups with pods that wait, of one namespace or of all."""
    keys = {pod.group_key for pod in view.objects.of(POD) if pod.group_key and pod.waits}
    for key in sorted(keys):
        if namespace in ("", key.partition("/")[0]) and (report := explain_group(view, key)) is not None:
            yield report


class GroupInspection:
    """One group with its PodGroup, decided once."""

    def __init__(self, view: ClusterView, group: Group, pod_group: PodGroup) -> None:
        self._view = view
        self._group = group
        self._pod_group = pod_group
        self._placed = group.pods(MemberState.PLACED)
        self._members = group.unassigned()

    def report(self) -> GroupReport:
        group, status = self._group, self._group.status
        if problem := invalid_group(self._pod_group, [*self._members, *self._placed]):
            return self._with_members("Invalid", f"{group.key} cannot be scheduled: {problem}.", ok=False)
        if status.state is GroupState.WAITING_FOR_MEMBERS or not self._members:
            return self._without_decision()
        if held := self._held():
            return self._holding(held)
        result = self._decide(self._view.objects)
        return self._fits(result) if isinstance(result, GroupPlan) else self._does_not_fit(result)

    @property
    def _missing(self) -> int:
        return max(0, self._pod_group.min_count - len(self._placed))

    def _without_decision(self) -> GroupReport:
        """No member waits for a node, or too few exist."""
        key, min_count, placed = self._group.key, self._pod_group.min_count, len(self._placed)
        if placed >= min_count:
            return self._with_members("Committed", f"{key} runs: {_pods(placed)} bound, minCount {min_count}.", ok=True)
        status = self._group.status
        known = len(self._members) + placed
        said = (
            str(status) if status.state is GroupState.WAITING_FOR_MEMBERS else f"{known} of {min_count} members exist"
        )
        state = "BelowQuorum" if placed else "WaitingForMembers"
        checks = [f"create {_pods(min_count - known)} more with spec.schedulingGroup.podGroupName: {self._group.name}"]
        ended = len(self._group.pods(MemberState.ENDED))
        if ended:
            checks.append(f"lower minCount: {_pods(ended)} of the group have ended and do not count")
        if gated := self._group.pods(MemberState.GATED):
            checks.append(f"find out which component removes the scheduling gates of {_names(gated)}")
        return self._with_members(state, f"{key} waits for members: {said}.", ok=False, checks=tuple(checks))

    def _held(self) -> list[Volume]:
        uid = self._pod_group.uid
        states = (HoldState.HELD, HoldState.ROLLING_BACK)
        volumes = (volume for volume in self._view.objects.of(VOLUME) if uid and group_uid_of(volume) == uid)
        return [volume for volume in volumes if observed_hold_state(volume) in states]

    def _holding(self, held: Sequence[Volume]) -> GroupReport:
        key = self._group.key
        leaving = [volume for volume in held if observed_hold_state(volume) is HoldState.ROLLING_BACK]
        notes = [volume.metadata.annotations for volume in held]
        epoch = max((int(note.get(GROUP_EPOCH, "0") or 0) for note in notes), default=0)
        if leaving:
            reason = next((note.get(marks.REASON, "") for note in notes if marks.REASON in note), "")
            why = f": {reason}" if reason else ""
            verdict = f"{key} is being given up in epoch {epoch}: {len(leaving)} volumes are rolled back{why}."
            return self._with_members("GivingUp", verdict, ok=True)
        since = min((note.get(marks.SINCE, "") for note in notes if note.get(marks.SINCE)), default="")
        late = {claim for pod in self._members for claim in self._open_claims(pod)}
        claims = {note.get(marks.CLAIM, "") for note in notes}
        waiting = [pod.name for pod in self._members if not claims.issuperset(self._open_claims(pod))]
        ends = times.time_or_none(since)
        until = "" if ends is None else f"; given up at {times.to_time(ends + GroupTimeouts().hold)} if not complete"
        verdict = (
            f"{key} holds {len(held)} of {len(late)} volumes since {since or 'an unknown time'} (epoch {epoch}){until}."
        )
        lines = (f"waits for the volumes of {', '.join(sorted(waiting))}",) if waiting else ()
        return self._with_members("Holding", verdict, ok=True, lines=lines)

    def _open_claims(self, pod: Pod) -> Iterator[str]:
        """The keys of the pod's claims that have no volume yet."""
        for key in pod.claim_keys:
            claim = self._view.objects.get(CLAIM, key)
            if claim is not None and not claim.spec.volume_name:
                yield claim.key

    def _decide(self, objects: ClusterObjects, *, min_count: int | None = None) -> GroupPlan | GroupRefusal:
        snapshot, _ = objects.snapshot()
        snapshot.schedules_groups = True
        given = GroupInput(
            self._members,
            self._pod_group.min_count if min_count is None else min_count,
            [pod.spec.node_name for pod in self._placed],
            self._pod_group.topology_key,
        )
        # Which of equally good nodes would win does not show.
        return run_to_end(GroupCycle(snapshot, self._view.profile, random.Random(0), given))

    def _fits(self, plan: GroupPlan) -> GroupReport:
        key, placed = self._group.key, len(self._placed)
        where = f" in {self._pod_group.topology_key}={plan.domain}" if plan.domain else ""
        already = f", {placed} are bound" if placed else ""
        extras = f"; {len(plan.leftover)} beyond the quorum find no node" if plan.leftover else ""
        verdict = f"{key} would fit{where}: {len(plan.members)} of {len(self._members)} members{already}{extras}."
        members = [MemberReport(one.pod.key, "fits", one.node, _volumes(one.plan)) for one in plan.members.values()]
        members += [
            MemberReport(pod.key, "waits", detail=_rejection(plan.leftover.get(pod.uid)))
            for pod in self._members
            if pod.uid in plan.leftover
        ]
        shared = tuple(
            f"claim {each.claim} is shared by {len(each.users)} members: {', '.join(_volumes(each.plan))}"
            for each in plan.shared
        )
        return self._with_members("WouldFit", verdict, ok=True, members=tuple(members), lines=shared, notes=plan.notes)

    def _does_not_fit(self, refusal: GroupRefusal) -> GroupReport:
        key, placed, min_count = self._group.key, len(self._placed), self._pod_group.min_count
        examined = bool(refusal.fitted or refusal.rejected)
        members = tuple(
            MemberReport(pod.key, "fits" if pod.uid in refusal.fitted else "rejected", detail=self._why(pod, refusal))
            for pod in (self._members if examined else ())
        )
        limits = tuple(
            DomainLimit(one.domain, one.members, one.needed, tuple(map(shortage_text, one.shortages)))
            for one in refusal.certificate
        )
        if not self._missing:
            extras = f"{_pods(len(self._members))} beyond it wait"
            verdict = f"{key} has its quorum ({placed} bound, minCount {min_count}); {extras}."
            return self._with_members("ExtraWaiting", verdict, ok=False, members=members, limits=limits)
        state, why = self._shortfall(refusal)
        if placed:
            lost = _names(self._members)
            why = f"{placed} of {min_count} members are bound, and {lost} cannot follow: {why}"
            state = "BelowQuorum"
        lines = (ONE_BY_ONE,) if _fits_one_by_one(refusal) else ()
        report = self._with_members(
            state, f"{key} does not fit: {why}.", ok=False, members=members, limits=limits, lines=lines
        )
        helps = tuple(self._remedies(refusal))
        is_stuck = bool(placed and self._pod_group.topology_key and not helps)
        checks = tuple(islice(self._stuck_in_domain(), MAX_MOVES)) if is_stuck else ()
        return replace(report, remedy_texts=helps, checks=checks)

    def _why(self, pod: Pod, refusal: GroupRefusal) -> str:
        return "" if pod.uid in refusal.fitted else _rejection(refusal.rejected.get(pod.uid))

    def _shortfall(self, refusal: GroupRefusal) -> tuple[str, str]:
        needed, min_count = self._missing, self._pod_group.min_count
        figures = f"minCount {min_count}, {len(self._placed)} bound"
        if refusal.code is RefusalCode.SHORT:
            most = max((one.members for one in refusal.certificate), default=0)
            return "Short", f"{needed} members are needed, and at most {most} fit together ({figures})"
        if refusal.code is RefusalCode.NOT_FOUND:
            looks = f"none found in {refusal.looks} looks" if refusal.looks else "none found"
            return "NotFound", f"no joint plan: {looks}, best {len(refusal.fitted)} of {needed} ({figures})"
        return "Invalid" if refusal.code is RefusalCode.DOMAINS_DIFFER else "Short", refusal.message

    def _remedies(self, refusal: GroupRefusal) -> Iterator[str]:
        """Changes with which the decision finds a plan."""
        yield from self._growth(refusal)
        fewer = max((one.members for one in refusal.certificate), default=len(refusal.fitted))
        quorum = len(self._placed) + fewer
        is_lower = self._pod_group.is_gang and fewer > 0 and quorum < self._pod_group.min_count
        if is_lower and isinstance(self._decide(self._view.objects, min_count=quorum), GroupPlan):
            yield f"lower minCount to {quorum}"

    def _growth(self, refusal: GroupRefusal) -> Iterator[str]:
        """By how much which segments would have to grow, those of the same growth in one line."""
        sizes = {
            shortage.subject: shortage.size
            for domain in refusal.certificate
            for shortage in domain.shortages
            if shortage.size and shortage.code in (ShortageCode.CAPACITY, ShortageCode.VOLUMES)
        }
        tried: list[tuple[int, str, str]] = []
        segments = {segment.key: segment for segment in self._view.objects.of(STORAGE_CAPACITY)}
        for segment in segments.values():
            size = sizes.get(segment.storage_class_name, 0)
            if size and segment.capacity is not None:
                free = quantity.to_bytes(segment.capacity)
                tried.append((size - free % size, segment.key, segment.storage_class_name))
        found: dict[tuple[int, str], list[str]] = {}
        for more, key, storage_class in sorted(tried)[:MAX_TRIED_SEGMENTS]:
            changed = self._view.objects.copied()
            segment = segments[key]
            grown = str(quantity.to_bytes(segment.capacity or "0") + more)
            largest = None if segment.maximum_volume_size is None else grown
            changed.put(STORAGE_CAPACITY, replace(segment, capacity=grown, maximum_volume_size=largest))
            if isinstance(self._decide(changed), GroupPlan):
                labels = segment.node_topology.match_labels if segment.node_topology is not None else {}
                found.setdefault((more, storage_class), []).append(",".join(labels.values()) or segment.name)
        for (more, storage_class), places in found.items():
            yield f"{_bytes(more)} more capacity of class {storage_class} on {' or '.join(sorted(places))}"

    def _stuck_in_domain(self) -> Iterator[str]:
        """Bound members fix the domain, and their volumes fix them there."""
        yield f"whether to move {_names(self._placed)}: bound members fix {self._pod_group.topology_key} for all others"
        for pod in self._placed:
            for key in pod.claim_keys:
                claim = self._view.objects.get(CLAIM, key)
                if claim is not None and claim.spec.volume_name:
                    volume = self._view.objects.get(VOLUME, claim.spec.volume_name)
                    yield data_loss.delete_claim(key, volume, [pod.key])

    def _with_members(
        self,
        state: str,
        verdict: str,
        *,
        ok: bool,
        members: tuple[MemberReport, ...] = (),
        limits: tuple[DomainLimit, ...] = (),
        lines: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        checks: tuple[str, ...] = (),
    ) -> GroupReport:
        bound = [MemberReport(pod.key, "bound", pod.spec.node_name) for pod in self._placed]
        told = [*notes, *self._events()]
        report = _report(self._group, state, verdict, ok=ok, checks=checks)
        return replace(
            report,
            min_count=self._pod_group.min_count,
            members=tuple(sorted((*bound, *members), key=lambda member: member.pod)),
            limits=limits,
            lines=lines,
            notes=tuple(told),
        )

    def _events(self) -> Iterator[str]:
        last = self._view.events.last(POD_GROUP, self._pod_group, GIVEN_UP, COMMITTED)
        if last is not None:
            yield f"{last.reason} at {moment(last)}: {last.message}"
        condition = self._pod_group.scheduled
        if condition is not None:
            yield f"condition {condition.type} {condition.status} ({condition.reason}): {condition.message}".rstrip(
                ": "
            )


def _fits_one_by_one(refusal: GroupRefusal) -> bool:
    """Whether storage that is too little for the group is enough for each member by itself."""
    storage = (ShortageCode.CAPACITY, ShortageCode.VOLUMES)
    shortages = [shortage for domain in refusal.certificate for shortage in domain.shortages]
    return any(one.code in storage and any(place.members for place in one.places) for one in shortages)


def _bytes(number: int) -> str:
    return quantity.spelled_like(number * 1000, "1Gi")


def _volumes(plan: BindingPlan) -> tuple[str, ...]:
    static = (f"{each.claim.name} gets volume {each.volume.name}" for each in plan.static)
    made = (
        f"{each.claim.name} ({quantity_text(each.claim.request)}) is provisioned with class {each.claim.storage_class}"
        for each in plan.provision
    )
    return (*static, *made)


def _rejection(detail: object) -> str:
    decision = decision_of(detail)
    return "" if decision is None else fit_error(decision)


def _report(group: Group, state: str, verdict: str, *, ok: bool, checks: tuple[str, ...] = ()) -> GroupReport:
    return GroupReport(group.key, state, verdict, ok, checks=checks)


def _known(group: Group) -> list[Pod]:
    return [pod for state in MemberState for pod in group.pods(state)]


def _pods(number: int) -> str:
    return counted_noun(number, "pod")


def _names(pods: Iterable[Pod]) -> str:
    return listed_names(sorted(pod.name for pod in pods), MAX_LISTED_NODES)
