"""The history of a gang's objects on a real API server, in the order in which etcd has written them.

The revisions of one etcd order the objects of all kinds, so that no interval between two reads hides an intermediate
state.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.api.kinds import CLAIM, POD, POD_GROUP, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.contract import WatchEventType
from mooring.client.http import HttpClient
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import group_objects, objects
from mooring.volumes.holds.group_record import GroupPhase
from mooring.volumes.holds.objects import IntentRecord
from support.conformance.gang_cluster import NAMESPACE

WATCHED: Final[Sequence[Kind[Any]]] = (CLAIM, POD, POD_GROUP, VOLUME, objects.INTENT_RECORD)


class GangHistory:
    """Every version of every object since `run` began."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        #: Revision, object, whether it was deleted.
        self._events: list[tuple[int, ApiObject, bool]] = []

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(*map(self._watch, WATCHED))

    async def _watch(self, kind: Kind[Any]) -> None:
        namespace = "" if kind is VOLUME else NAMESPACE
        async for event in self._client.watch(kind, after=None, namespace=namespace):
            if event.change is not WatchEventType.BOOKMARK:
                version = int(event.object.metadata.resource_version)
                self._events.append((version, event.object, event.change is WatchEventType.DELETED))

    def phases(self) -> list[tuple[int, GroupPhase]]:
        """Of the gang's record, with the revision at which each began."""
        found: list[tuple[int, GroupPhase]] = []
        for version, record in self._of(IntentRecord):
            if group_objects.is_record(record):
                phase = group_objects.stored_group(record).record.phase
                if not found or found[-1][1] is not phase:
                    found.append((version, phase))
        return found

    def began(self, phase: GroupPhase) -> int:
        """The first revision at which the record was in the phase."""
        return next(version for version, each in self.phases() if each is phase)

    def first(self, kind: type[ApiObject], holds: Callable[[Any], bool]) -> dict[str, int]:
        """By name, the first revision at which an object of the kind fulfils the condition; only those that do."""
        found: dict[str, int] = {}
        for version, each in self._of(kind):
            if holds(each):
                found.setdefault(each.name, version)
        return found

    def bound_claims(self) -> dict[str, int]:
        return self.first(Claim, lambda claim: bool(claim.spec.volume_name))

    def selected_claims(self) -> dict[str, int]:
        return self.first(Claim, lambda claim: bool(claim.selected_node))

    def bound_pods(self) -> dict[str, int]:
        return self.first(Pod, lambda pod: bool(pod.spec.node_name))

    def scheduled_groups(self) -> dict[str, int]:
        return self.first(PodGroup, lambda group: group.scheduled is not None and group.scheduled.status == "True")

    def held_at(self, version: int) -> set[str]:
        """Names of the volumes that were held at this revision."""
        held: set[str] = set()
        for at, volume, is_deleted in sorted(self._events, key=lambda event: event[0]):
            if at > version:
                break
            if isinstance(volume, Volume):
                held.discard(volume.name)
                if not is_deleted and hold_state(volume, hold_namespace=NAMESPACE) is HoldState.HELD:
                    held.add(volume.name)
        return held

    def _of(self, kind: type[Any]) -> list[tuple[int, Any]]:
        found = [
            (version, each) for version, each, is_deleted in self._events if isinstance(each, kind) and not is_deleted
        ]
        return sorted(found, key=lambda event: event[0])
