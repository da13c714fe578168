"""What users see of a group: its condition PodGroupInitiallyScheduled, and events on the PodGroup and its members.

The condition becomes True once the quorum has all its volumes and not, as kube-scheduler's, when nodes are chosen; once
True it stays True. It is written behind the scheduling loop: of several updates for one PodGroup the last counts.
Groups that wait for their PodGroup or for members, of which kube-scheduler reports nothing, get an event after a while.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import kinds
from mooring.api.errors import Invalid, NotFound
from mooring.api.kinds import Kind
from mooring.api.patches.contract import StrategicPatch
from mooring.api.times import to_time
from mooring.api.views.pod_groups import INITIALLY_SCHEDULED, SCHEDULED, SCHEDULER_ERROR, PodGroup
from mooring.client.recorder import WARNING
from mooring.control.component import Context
from mooring.control.workqueue import work
from mooring.scheduler.groups.members import Group, GroupState, MemberState

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Reasons of events.
GROUP_MISSING: Final = "GroupMissing"
WAITING_FOR_MEMBERS: Final = "WaitingForMembers"
FAILED_SCHEDULING: Final = "FailedScheduling"

#: A group that lacks its PodGroup or members for less than this is being created.
REPORT_AFTER_SECONDS: Final = 10.0


class _ConditionUpdate(NamedTuple):
    uid: str
    status: str
    reason: str
    message: str


class GroupReports:
    """Conditions and events of groups; `run` writes the conditions."""

    def __init__(
        self, context: Context, find: Callable[[str], PodGroup | None], kind: Callable[[], Kind[PodGroup]]
    ) -> None:
        """`find` returns a PodGroup by key, `kind` the version that is read."""
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._find = find
        self._kind = kind
        self._updates: dict[str, _ConditionUpdate] = {}
        self._queue = context.work_queue("pod_group_conditions", kinds.POD_GROUP, find=find)
        #: Since when groups wait for members, by key, and what was reported of it.
        self._waiting: dict[str, tuple[float, str]] = {}

    async def run(self) -> None:
        await work(self._queue, self._write, workers=1, name="pod group conditions")

    def scheduled(self, pod_group: PodGroup) -> None:
        """The quorum of the group is committed."""
        self._set(pod_group, "True", SCHEDULED, "")

    def failed(self, pod_group: PodGroup, reason: str, message: str, details: Sequence[str] = ()) -> None:
        """The group is not scheduled; recorded as an event if it is news. Only the event has the details."""
        if self._set(pod_group, "False", reason, message):
            self.record(pod_group, WARNING, FAILED_SCHEDULING, "; ".join((message, *details)))

    def record(self, pod_group: PodGroup, event_type: str, reason: str, message: str) -> None:
        self._recorder.record(pod_group, self._kind(), event_type, reason, message)

    def given_up(self, pod_group: PodGroup, message: str) -> None:
        """Its held volumes are rolled back; the coordinator records the event."""
        self._set(pod_group, "False", SCHEDULER_ERROR, message)

    def waits(self, group: Group) -> None:
        """The group lacks its PodGroup or members."""
        self._waiting.setdefault(group.key, (self._clock.monotonic(), ""))

    def no_longer_waits(self, key: str) -> None:
        self._waiting.pop(key, None)

    def report_waiting(self, groups: Callable[[str], Group | None]) -> None:
        """Record events for groups that have waited long enough, once for each state."""
        now = self._clock.monotonic()
        for key, (since, reported) in tuple(self._waiting.items()):
            group = groups(key)
            if group is None:
                del self._waiting[key]
                continue
            text = str(group.status)
            if now - since >= REPORT_AFTER_SECONDS and text != reported:
                self._waiting[key] = since, text
                self._record_waiting(group, text)

    def _record_waiting(self, group: Group, text: str) -> None:
        if group.status.state is GroupState.MISSING:
            reason, text = GROUP_MISSING, f'pod group "{group.name}": {text}'
        else:
            reason = WAITING_FOR_MEMBERS
            if group.pod_group is not None:
                self.record(group.pod_group, WARNING, reason, text)
        for pod in group.pods(MemberState.PENDING):
            self._recorder.record(pod, kinds.POD, WARNING, reason, text)

    def _set(self, pod_group: PodGroup, status: str, reason: str, message: str) -> bool:
        """Whether the condition changes by it."""
        update = _ConditionUpdate(pod_group.uid, status, reason, message)
        if self._updates.get(pod_group.key, update) == update and not _is_outdated(pod_group, update):
            return False
        self._updates[pod_group.key] = update
        self._queue.add(pod_group.key)
        return True

    async def _write(self, key: str) -> None:
        update, pod_group = self._updates.get(key), self._find(key)
        if update is None:
            return
        if pod_group is not None and pod_group.uid == update.uid and _is_outdated(pod_group, update):
            patch = StrategicPatch(_body(pod_group, update, self._clock.now()))
            kind, namespace = self._kind(), pod_group.namespace
            try:
                await self._client.patch(kind, pod_group.name, patch, namespace=namespace, subresource="status")
            except (NotFound, Invalid) as error:
                log.info("pod group condition dropped", pod_group=key, error=error.message)
        if self._updates.get(key) is update:
            del self._updates[key]


def _is_outdated(pod_group: PodGroup, update: _ConditionUpdate) -> bool:
    current = pod_group.scheduled
    if current is None:
        return True
    if current.status == "True":
        return False
    return (current.status, current.reason, current.message) != update[1:]


def _body(pod_group: PodGroup, update: _ConditionUpdate, now: float) -> dict[str, Any]:
    """The uid is a precondition: another PodGroup of this name has not been attempted yet."""
    before = pod_group.scheduled
    condition: dict[str, Any] = {
        "type": INITIALLY_SCHEDULED,
        "status": update.status,
        "reason": update.reason,
        "message": update.message,
    }
    if before is None or before.status != update.status:
        condition["lastTransitionTime"] = to_time(now)
    if pod_group.metadata.generation:
        condition["observedGeneration"] = pod_group.metadata.generation
    return {"metadata": {"uid": update.uid}, "status": {"conditions": [condition]}}
