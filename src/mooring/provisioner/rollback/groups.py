"""For which group of pods a claim's volume is held, and with which marks.

A volume is held for a group only while a coordinator announces that it decides about groups: an earlier version would
commit such a volume by its pod alone. PodGroups and records are read live and reused for a second or two, since a
group's claims come at once; a mark that is out of date by then makes the volume stale, which is safe and costs one
attempt.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import Forbidden
from mooring.api.kinds import POD, POD_GROUP
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.client.cache import POD_BY_GROUP
from mooring.client.group_records import GroupRecords
from mooring.client.live_reads import get_or_none
from mooring.clock import Clock
from mooring.control.feature_gates import GANG_VOLUMES
from mooring.control.leader_election import LeaseMonitor
from mooring.provisioner.provision.create import DriverContext
from mooring.volumes.holds import group_objects
from mooring.volumes.holds.group_record import LISTS, UNMARKED, GroupMark, GroupPhase, StoredGroup

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: How long a live read is reused.
REUSE_SECONDS: Final = 1.0
#: Groups whose reads are kept.
MAX_GROUPS: Final = 64

T = TypeVar("T")


class HoldingGroup(NamedTuple):
    """The group that a volume is held for."""

    uid: str
    #: Without mark where the record does not have the member: the coordinator enters it.
    mark: GroupMark = UNMARKED


class _RecentReads(Generic[T]):
    """Values by key, reused for a short time; the oldest go first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: OrderedDict[str, tuple[float, T]] = OrderedDict()

    async def get(self, key: str, read: Callable[[], Awaitable[T]], *, fresh: Callable[[T], bool]) -> T:
        """The last value unless it is old, or `fresh` says that it is not good enough."""
        now = self._clock.monotonic()
        # Not only the first ones: a read that took long has an older time than those before it.
        for old in [key for key, (read_at, _) in self._values.items() if now - read_at >= REUSE_SECONDS]:
            del self._values[old]
        known = self._values.get(key)
        if known is not None and fresh(known[1]):
            return known[1]
        value = await read()
        self._values[key] = now, value
        self._values.move_to_end(key)
        if len(self._values) > MAX_GROUPS:
            self._values.popitem(last=False)
        return value


class GroupHolds:
    def __init__(self, context: DriverContext, coordinator: LeaseMonitor, *, enabled: bool) -> None:
        self._client = context.client
        self._coordinator = coordinator
        self._enabled = enabled and context.component.gates.enabled(GANG_VOLUMES)
        self._pods = context.component.informers.of(POD) if self._enabled else None
        if self._pods is not None:
            self._pods.add_index(*POD_BY_GROUP)
        self._groups: _RecentReads[PodGroup | None] = _RecentReads(context.clock)
        self._records = GroupRecords(context.client, namespace=context.namespace)
        self._reads: _RecentReads[StoredGroup | None] = _RecentReads(context.clock)

    async def group_for(
        self, claim: Claim, pods: Iterable[Pod], awaits_volume: Callable[[str], bool]
    ) -> HoldingGroup | None:
        """None where the pod's own rules apply. `pods` wait for the claim; `awaits_volume` is asked by claim key."""
        key = next((pod.group_key for pod in pods if pod.group_key), "")
        if self._pods is None or not key or not await self._coordinator.announces(group_objects.ANNOUNCEMENT):
            return None
        group = await self._pod_group(key)
        if group is None or not group.is_gang:
            return None
        members = self._pods.by_index(POD_BY_GROUP.name, key)
        late = {name for pod in members if pod.waits for name in pod.claim_keys if awaits_volume(name)}
        if len(late) < 2 and len(members) >= group.min_count:
            # Nothing can succeed in part.
            return None
        stored = await self._record(group.uid, claim)
        if stored is None or stored.record.phase in (GroupPhase.IDLE, GroupPhase.GIVING_UP):
            return HoldingGroup(group.uid)
        if stored.record.phase in LISTS:
            is_complete = sum(pod.uid in stored.record.by_pod for pod in members if not pod.finished) >= group.min_count
            return None if is_complete else HoldingGroup(group.uid)
        return HoldingGroup(group.uid, _mark(stored, claim))

    async def _pod_group(self, key: str) -> PodGroup | None:
        namespace, _, name = key.partition("/")

        async def read() -> PodGroup | None:
            try:
                return await get_or_none(self._client, POD_GROUP, name, namespace=namespace)
            except Forbidden as refusal:
                log.info("pod group not readable", group=key, error=refusal.message)
                return None

        return await self._groups.get(key, read, fresh=lambda group: group is not None)

    async def _record(self, uid: str, claim: Claim) -> StoredGroup | None:
        def is_good(stored: StoredGroup | None) -> bool:
            return stored is not None and _mark(stored, claim) != UNMARKED

        return await self._reads.get(uid, partial(self._records.read, uid), fresh=is_good)


def _mark(stored: StoredGroup, claim: Claim) -> GroupMark:
    for member in stored.record.by_claim.get(claim.uid, ()):
        if member.node == claim.selected_node:
            return GroupMark(stored.uid, member.epoch)
    return UNMARKED
