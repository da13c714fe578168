"""PodGroups as rows of the dashboard: quorum, held volumes, and what a group waits for. Pure.

A row says what the objects say, in the state words of `mooring explain podgroup/NAME`; whether a waiting group fits
takes a decision, which `explain` makes on a click. A row is rebuilt when the PodGroup, one of its pods, a claim of
theirs or a volume that is held for the group changes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.explain.text import listed_names
from mooring.scheduler.groups.members import Group, GroupMembers, GroupState, MemberState
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import objects as marks
from mooring.volumes.holds.group_objects import group_uid_of
from mooring.web.rows import PageRow, moment

#: Members whose names a row has; the others are counted.
MAX_NAMED_MEMBERS: Final = 3
#: The state of a group that only a decision can tell more of.
PENDING: Final = "Pending"
NO_MESSAGE: Final = "no message from the scheduler yet"


class GroupRow(PageRow, frozen=True):
    """`members` are those that count for the quorum: pending, or on a node."""

    state: str
    min_count: int = 0
    members: int = 0
    bound: int = 0
    #: Volumes that are held for members or being rolled back, and claims of members that have no volume yet.
    held: int = 0
    rolling_back: int = 0
    needed: int = 0
    #: All members run on nodes with one value of this label.
    topology_key: str = ""
    #: What is missing, as a sentence without a period; "" for a group that runs.
    missing: str = ""
    since: float | None = None


class GroupTable:
    """The groups with their members, and the rows they make."""

    def __init__(self, claims: Mapping[str, Claim], *, hold_namespace: str) -> None:
        """`claims` is a live view of all claims by key."""
        self.sent: dict[str, PageRow] = {}
        self._claims = claims
        self._hold_namespace = hold_namespace
        self._pod_groups: dict[str, PodGroup] = {}
        self._keys_by_uid: dict[str, str] = {}
        self._pods: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._held: defaultdict[str, dict[str, Volume]] = defaultdict(dict)
        self._users: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._touched: set[str] = set()

    def key_of(self, volume: Volume) -> str:
        """The group that a volume is held for; "" if there is none."""
        return self._keys_by_uid.get(group_uid_of(volume), "")

    def held_for(self, pod_group: PodGroup) -> Iterable[str]:
        """Names of the volumes that are held for a group."""
        return tuple(self._held.get(pod_group.uid, ()))

    def observe_group(self, before: PodGroup | None, after: PodGroup | None) -> None:
        if before is not None:
            self._keys_by_uid.pop(before.uid, None)
            self._pod_groups.pop(before.key, None)
            self._touched.add(before.key)
        if after is not None:
            self._keys_by_uid[after.uid] = after.key
            self._pod_groups[after.key] = after
            self._touched.add(after.key)

    def observe_pod(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and before.group_key:
            members = self._pods[before.group_key]
            members.pop(before.key, None)
            if not members:
                del self._pods[before.group_key]
            for claim in before.claim_keys:
                users = self._users[claim]
                users.pop(before.key, None)
                if not users:
                    del self._users[claim]
            self._touched.add(before.group_key)
        if after is not None and after.group_key:
            self._pods[after.group_key][after.key] = after
            for claim in after.claim_keys:
                self._users[claim][after.key] = after.group_key
            self._touched.add(after.group_key)

    def observe_claim(self, before: Claim | None, after: Claim | None) -> None:
        claim = after or before
        if claim is not None and claim.key in self._users:
            self._touched.update(self._users[claim.key].values())

    def observe_volume(self, before: Volume | None, after: Volume | None) -> None:
        for volume in (before, after):
            if volume is not None and (uid := group_uid_of(volume)):
                self._held[uid].pop(volume.name, None)
                if not self._held[uid]:
                    del self._held[uid]
                self._touched.add(self._keys_by_uid.get(uid, ""))
        if after is not None and (uid := group_uid_of(after)) and self._hold_state(after) is not HoldState.COMMITTED:
            self._held[uid][after.name] = after

    def settle(self) -> tuple[list[PageRow], list[str]]:
        """Rows that changed, and the keys of groups that are gone."""
        changed: list[PageRow] = []
        gone: list[str] = []
        for key in self._touched:
            row = self._row(key)
            if row is None:
                if self.sent.pop(key, None) is not None:
                    gone.append(key)
            elif self.sent.get(key) != row:
                self.sent[key] = row
                changed.append(row)
        self._touched.clear()
        return changed, gone

    def _row(self, key: str) -> GroupRow | None:
        pod_group, pods = self._pod_groups.get(key), self._pods.get(key, {})
        if pod_group is None and not pods:
            return None
        members = GroupMembers({pod.spec.scheduler_name for pod in pods.values()})
        members.observe_group(None, pod_group)
        for pod in pods.values():
            members.observe_pod(None, pod)
        group = members.get(key)
        if group is None:
            return None
        pending, placed = group.unassigned(), group.pods(MemberState.PLACED)
        held = self._held.get(pod_group.uid, {}).values() if pod_group is not None else ()
        leaving = sum(self._hold_state(volume) is HoldState.ROLLING_BACK for volume in held)
        kept = [volume for volume in held if self._hold_state(volume) is HoldState.HELD]
        state, missing = self._state_of(group, kept, leaving)
        return GroupRow(
            key,
            state,
            min_count=0 if pod_group is None else pod_group.min_count,
            members=len(pending) + len(placed),
            bound=len(placed),
            held=len(kept),
            rolling_back=leaving,
            needed=len({claim for pod in pending for claim in self._open_claims(pod)}),
            topology_key="" if pod_group is None else pod_group.topology_key,
            missing=missing,
            since=None if pod_group is None else moment(pod_group.metadata.creation_timestamp),
        )

    def _state_of(self, group: Group, held: list[Volume], leaving: int) -> tuple[str, str]:
        """The state, and what is missing."""
        pod_group = group.pod_group
        pending, bound = group.unassigned(), len(group.pods(MemberState.PLACED))
        if pod_group is None:
            waiting = f", and {_named(pending)} wait for it" if pending else ""
            return GroupState.MISSING.value, f"the PodGroup does not exist{waiting}"
        if leaving:
            return "GivingUp", f"{leaving} held volumes are being rolled back"
        if held:
            there = {volume.metadata.annotations.get(marks.CLAIM, "") for volume in held}
            late = [pod for pod in pending if not there.issuperset(self._open_claims(pod))]
            return "Holding", f"the volumes of {_named(late)}" if late else "the commit of all volumes"
        if bound >= pod_group.min_count:
            return ("ExtraWaiting", f"nodes for {_named(pending)}") if pending else ("Committed", "")
        state = "BelowQuorum" if bound else PENDING
        if group.status.state is GroupState.READY:
            condition = pod_group.scheduled
            message = condition.message if condition is not None and condition.status != "True" else ""
            return state, message or (f"nodes for {_named(pending)}" if bound else NO_MESSAGE)
        said = str(group.status) if pending else f"{bound} of {pod_group.min_count} members exist"
        return state if bound else GroupState.WAITING_FOR_MEMBERS.value, said

    def _open_claims(self, pod: Pod) -> Iterable[str]:
        """The keys of the pod's claims that have no volume yet."""
        for key in pod.claim_keys:
            claim = self._claims.get(key)
            if claim is not None and not claim.spec.volume_name:
                yield key

    def _hold_state(self, volume: Volume) -> HoldState:
        return hold_state(volume, hold_namespace=self._hold_namespace)


def _named(pods: Iterable[Pod]) -> str:
    return listed_names(sorted(pod.name for pod in pods), MAX_NAMED_MEMBERS)
