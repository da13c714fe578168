"""The cluster as table rows, the rows that changed since the last call, and the timeline. Pure and bounded.

A row that depends on other objects (a volume on nodes and class) is rebuilt when they change and sent only if
different. The timeline has Events about pods and storage, and hold-state changes of volumes, also without an Event.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.api import well_known
from mooring.api.views.core import Event, Node
from mooring.api.views.meta import ApiObject, View
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageCapacity, StorageClass, Volume, of_existing_nodes
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from mooring.volumes.holds import objects as marks
from mooring.volumes.holds.group_objects import COMMITTED, GIVEN_UP, HOLDING
from mooring.volumes.holds.objects import held_for
from mooring.volumes.topology import affinity_of
from mooring.web.groups import GroupTable
from mooring.web.pool_history import PoolHistory
from mooring.web.rows import (
    LocationIndex,
    PageRow,
    VolumeRow,
    claim_row,
    moment,
    node_row,
    pod_row,
    pool_row,
    volume_row,
)

#: As many as a person scrolls through; about 200 kB.
MAX_TIMELINE_ROWS: Final = 500
#: A scheduler's message about 5,000 nodes is long, and the explanation says it better.
MAX_TEXT_LENGTH: Final = 600

BINDING, HOLD, ROLLBACK, TROUBLE = "binding", "hold", "rollback", "trouble"

#: What is news even where it is no warning, and on which lane it is drawn. Upstream's reasons, and ours. Events
#: of waiting (WaitForPodScheduled, ExternalProvisioning) are repeated every few seconds and left out.
LANE_BY_REASON: Final[Mapping[str, str]] = {
    "Scheduled": BINDING,
    "Preempted": TROUBLE,
    "Provisioning": BINDING,
    "ProvisioningSucceeded": BINDING,
    "SuccessfulAttachVolume": BINDING,
    "VolumeCommitted": HOLD,
    "ProvisioningRolledBack": ROLLBACK,
    "RollbackFailed": ROLLBACK,
    HOLDING: HOLD,
    COMMITTED: HOLD,
    GIVEN_UP: ROLLBACK,
}
#: Whose warnings are news here.
TIMELINE_KINDS: Final = frozenset({"Pod", "PodGroup", "PersistentVolumeClaim", "PersistentVolume", "Node"})


class EventSeriesView(View, frozen=True, gc=False):
    count: int = 0
    last_observed_time: str | None = None


class DatedEvent(Event, frozen=True, gc=False):
    """An Event with the repeats of its newer form, which kube-scheduler counts instead of the old way."""

    series: EventSeriesView | None = None


class TimelineRow(PageRow, frozen=True):
    """One line of the timeline; `about` is what it happened to."""

    at: float
    lane: str
    reason: str
    kind: str
    about: str
    text: str
    count: int = 1


class Timeline:
    """The last so many happenings by id. What changed since it was last asked is `picture`'s to find out."""

    def __init__(self, *, max_rows: int = MAX_TIMELINE_ROWS) -> None:
        self._max_rows = max_rows
        self._rows: dict[str, TimelineRow] = {}
        self._marks = 0

    @property
    def rows(self) -> Mapping[str, TimelineRow]:
        return self._rows

    def observe_event(self, before: DatedEvent | None, after: DatedEvent | None) -> None:
        """Events go after an hour; what they told stays until there is too much of it."""
        if after is not None and (row := from_event(after)) is not None:
            self._put(row)

    def observe_volume(
        self, before: Volume | None, after: Volume | None, *, hold_namespace: str, claim: str, now: float, live: bool
    ) -> None:
        """`live` is whether this happens now, instead of being listed for the first time."""
        was = None if before is None else hold_state(before, hold_namespace=hold_namespace)
        is_now = None if after is None else hold_state(after, hold_namespace=hold_namespace)
        volume = after if after is not None else before
        if volume is None or was is is_now:
            return
        notes = volume.metadata.annotations
        node = f" on {notes[marks.NODE]}" if marks.NODE in notes else ""
        match was, is_now:
            case _, HoldState.HELD:
                at = now if live else moment(notes.get(marks.SINCE)) or now
                self._mark(
                    volume, HOLD, "Held", f"held for {claim or 'a claim'}{node}, until the pod's others are there", at
                )
            case _ if not live:
                return
            case HoldState.HELD, HoldState.COMMITTED:
                self._mark(volume, HOLD, "Committed", f"given to {claim}: all of the pod's volumes are there", now)
            case HoldState.HELD, HoldState.FREE:
                self._mark(volume, ROLLBACK, "HoldLifted", "no longer held, free for any claim", now)
            case _, HoldState.ROLLING_BACK:
                why = f": {notes[marks.REASON]}" if marks.REASON in notes else ""
                self._mark(volume, ROLLBACK, "RollingBack", f"rolled back for {claim or 'a claim'}{node}{why}", now)
            case HoldState.ROLLING_BACK, None:
                self._mark(volume, ROLLBACK, "RolledBack", "gone: the storage is given back", now)
            case ((None | HoldState.FREE), HoldState.COMMITTED):
                self._mark(volume, BINDING, "Bound", f"given to {claim}", now)
            case _:
                return

    def _mark(self, volume: Volume, lane: str, reason: str, text: str, at: float) -> None:
        self._marks += 1
        self._put(TimelineRow(f"mark-{self._marks}", at, lane, reason, "PersistentVolume", volume.name, text))

    def _put(self, row: TimelineRow) -> None:
        self._rows.pop(row.id, None)
        self._rows[row.id] = row
        if len(self._rows) > self._max_rows:
            del self._rows[next(iter(self._rows))]


def from_event(event: DatedEvent) -> TimelineRow | None:
    """None for what is not news here."""
    about = event.involved_object
    lane = LANE_BY_REASON.get(event.reason) or (TROUBLE if event.type == "Warning" else "")
    if about.kind not in TIMELINE_KINDS or not lane:
        return None
    series = event.series
    dates = (
        None if series is None else series.last_observed_time,
        event.last_timestamp,
        event.event_time,
        event.first_timestamp,
        event.metadata.creation_timestamp,
    )
    at = next((found for found in map(moment, dates) if found is not None), 0.0)
    key = f"{about.namespace}/{about.name}" if about.namespace else about.name
    text = event.message if len(event.message) <= MAX_TEXT_LENGTH else f"{event.message[:MAX_TEXT_LENGTH]}…"
    count = max(event.count, 1 if series is None else series.count, 1)
    return TimelineRow(event.key, at, lane, event.reason, about.kind, key, text, count)


V = TypeVar("V", bound=ApiObject)

Rows = Mapping[str, list[PageRow]]

LOADING: Final = "loading"


class Changes(msgspec.Struct, frozen=True):
    """By table: rows that are new or other than before, and the ids of those that are gone."""

    rows: dict[str, list[PageRow]]
    gone: dict[str, list[str]]

    def __bool__(self) -> bool:
        return bool(self.rows or self.gone)


class Notice(PageRow, frozen=True):
    """Something the page cannot show, and why: `id` is the kind, `state` forbidden, unreachable or loading."""

    state: str
    text: str = ""


class _Table(Generic[V]):
    """The objects of one kind and the rows they make."""

    def __init__(self, row: Callable[[V], PageRow]) -> None:
        self.objects: dict[str, V] = {}
        self.sent: dict[str, PageRow] = {}
        self.touched: set[str] = set()
        self._row = row

    def put(self, before: V | None, after: V | None) -> None:
        if after is not None:
            self.objects[after.key] = after
            self.touched.add(after.key)
        elif before is not None:
            self.objects.pop(before.key, None)
            self.touched.add(before.key)

    def touch_all(self) -> None:
        self.touched.update(self.objects)

    def settle(self) -> tuple[list[PageRow], list[str]]:
        """What became of the rows that were touched."""
        changed: list[PageRow] = []
        gone: list[str] = []
        for key in self.touched:
            found = self.objects.get(key)
            if found is not None:
                row = self._row(found)
                if self.sent.get(key) != row:
                    self.sent[key] = row
                    changed.append(row)
            elif self.sent.pop(key, None) is not None:
                gone.append(key)
        self.touched.clear()
        return changed, gone


class Picture:
    """Everything the page shows."""

    def __init__(
        self,
        *,
        hold_namespace: str = HOLD_NAMESPACE,
        rack_label: str = well_known.RACK,
        history: PoolHistory | None = None,
    ) -> None:
        self.history: Final = PoolHistory() if history is None else history
        #: Whether news are news, and not the first list of what was there before.
        self.live = False
        self._hold_namespace: Final = hold_namespace
        self._places = LocationIndex(rack_label=rack_label)
        self._placed = self._places.version
        self._classes: dict[str, StorageClass] = {}
        self._claimants: dict[str, str] = {}
        self._timeline = Timeline()
        self._notices: dict[str, Notice] = {}
        self._now = 0.0
        #: Nodes that are not ready: some of them count as lost when the grace period is over.
        self._unready: set[str] = set()
        self._nodes = _Table[Node](lambda node: node_row(node, self._places, self._now))
        self._pools = _Table[StorageCapacity](self._pool)
        self._volumes = _Table[Volume](self._volume)
        self._claims = _Table[Claim](claim_row)
        self._pods = _Table[Pod](pod_row)
        self._groups = GroupTable(self._claims.objects, hold_namespace=hold_namespace)
        self._tables: Final[Mapping[str, _Table[Any] | GroupTable]] = {
            "nodes": self._nodes,
            "pools": self._pools,
            "volumes": self._volumes,
            "claims": self._claims,
            "pods": self._pods,
            "groups": self._groups,
        }
        self._sent: dict[str, dict[str, PageRow]] = {"happenings": {}, "notices": {}}
        self.observe_event: Final = self._timeline.observe_event

    def observe_node(self, before: Node | None, after: Node | None) -> None:
        self._places.observe(before, after)
        self._nodes.put(before, after)
        node = after or before
        if node is not None:
            unready = after is not None and any(
                c.type == "Ready" and c.status != "True" for c in after.status.conditions
            )
            (self._unready.add if unready else self._unready.discard)(node.name)

    def observe_pod(self, before: Pod | None, after: Pod | None) -> None:
        self._pods.put(before, after)
        self._groups.observe_pod(before, after)

    def observe_group(self, before: PodGroup | None, after: PodGroup | None) -> None:
        self._groups.observe_group(before, after)
        group = after or before
        if group is not None:
            self._volumes.touched.update(self._groups.held_for(group))

    def observe_capacity(self, before: StorageCapacity | None, after: StorageCapacity | None, *, now: float) -> None:
        before, after = of_existing_nodes(before), of_existing_nodes(after)
        self._pools.put(before, after)
        self.history.observe(before, after, now=now)

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            self._classes[after.name] = after
        elif before is not None:
            self._classes.pop(before.name, None)
        self._pools.touch_all()
        self._volumes.touch_all()

    def observe_claim(self, before: Claim | None, after: Claim | None) -> None:
        self._claims.put(before, after)
        self._groups.observe_claim(before, after)
        if after is not None:
            self._claimants[after.uid] = after.key
        elif before is not None:
            self._claimants.pop(before.uid, None)

    def observe_volume(self, before: Volume | None, after: Volume | None, *, now: float) -> None:
        self._volumes.put(before, after)
        self._groups.observe_volume(before, after)
        volume = after if after is not None else before
        if volume is not None:
            row = self._volume(volume)
            self._timeline.observe_volume(
                before, after, hold_namespace=self._hold_namespace, claim=row.claim, now=now, live=self.live
            )

    def notice(self, kind: str, state: str, text: str = "") -> bool:
        """Say what of a kind cannot be shown; an empty state takes it back. Whether that is news."""
        known = self._notices.get(kind)
        if not state:
            return self._notices.pop(kind, None) is not None
        if known is not None and (known.state, known.text) == (state, text):
            return False
        self._notices[kind] = Notice(kind, state, text)
        return True

    def loaded(self, kind: str) -> None:
        """The first list is there; what else is wrong with the kind stays said."""
        known = self._notices.get(kind)
        if known is not None and known.state == LOADING:
            del self._notices[kind]

    def unreadable(self, kind: str) -> bool:
        known = self._notices.get(kind)
        return known is not None and known.state != LOADING

    def pass_time(self, now: float) -> None:
        """Look again at what depends on the time alone: nodes whose grace period ends."""
        self._now = now
        self._nodes.touched.update(self._unready)

    def changes(self) -> Changes:
        """What is other than when this was last asked."""
        if self._placed != self._places.version:
            self._placed = self._places.version
            self._pools.touch_all()
            self._volumes.touch_all()
        found = {name: table.settle() for name, table in self._tables.items()}
        found["happenings"] = _difference(self._sent["happenings"], self._timeline.rows)
        found["notices"] = _difference(self._sent["notices"], self._notices)
        return Changes(
            {name: rows for name, (rows, _) in found.items() if rows},
            {name: gone for name, (_, gone) in found.items() if gone},
        )

    def all_rows(self) -> Rows:
        """All rows, as of the last `changes`."""
        tables = {name: table.sent for name, table in self._tables.items()} | self._sent
        return {name: list(rows.values()) for name, rows in tables.items()}

    def _pool(self, capacity: StorageCapacity) -> PageRow:
        place = self._places.of_segment(capacity.node_topology)
        return pool_row(capacity, place, self._classes.get(capacity.storage_class_name))

    def _volume(self, volume: Volume) -> VolumeRow:
        uid = held_for(volume, hold_namespace=self._hold_namespace)
        holder = self._claims.objects.get(self._claimants.get(uid, ""))
        return volume_row(
            volume,
            self._places.of(affinity_of(volume)),
            self._classes.get(volume.storage_class),
            holder,
            hold_namespace=self._hold_namespace,
            group=self._groups.key_of(volume),
        )


def _difference(sent: dict[str, PageRow], rows: Mapping[str, PageRow]) -> tuple[list[PageRow], list[str]]:
    """What changed, and `told` brought up to it."""
    changed = [row for key, row in rows.items() if sent.get(key) is not row]
    gone = [key for key in sent if key not in rows]
    sent.clear()
    sent.update(rows)
    return changed, gone
