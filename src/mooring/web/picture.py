"""The cluster as the page shows it: a row per object, and which rows became others since somebody last asked.

Pure: `observe_*` take what informers tell, `changes` compares with what was told before. A row that depends on other
objects (a volume's place on the nodes, its pool on the class) is made anew when those change, and is only a change if
it turns out different.
"""

from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import affinity
from mooring.volumes.holds.objects import held_for
from mooring.volumes.plan import HOLD_NAMESPACE
from mooring.web.places import Places
from mooring.web.rows import Row, VolumeRow, claim_row, node_row, pod_row, pool_row, volume_row
from mooring.web.timeline import DatedEvent, Happening, Timeline

V = TypeVar("V", bound=ApiObject)

Rows = Mapping[str, list[Row]]

LOADING: Final = "loading"


class Changes(msgspec.Struct, frozen=True):
    """By table: rows that are new or other than before, and the ids of those that are gone."""

    rows: dict[str, list[Row]]
    gone: dict[str, list[str]]

    def __bool__(self) -> bool:
        return bool(self.rows or self.gone)


class Notice(Row, frozen=True):
    """Something the page cannot show, and why: `id` is the kind, `state` forbidden, unreachable or loading."""

    state: str
    text: str = ""


class _Settling(Protocol):
    """A table, whatever its objects are."""

    told: dict[str, Row]

    def settle(self) -> tuple[list[Row], list[str]]: ...


class _Table(Generic[V]):
    """The objects of one kind and the rows they make."""

    def __init__(self, row: Callable[[V], Row]) -> None:
        self.objects: dict[str, V] = {}
        self.told: dict[str, Row] = {}
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

    def settle(self) -> tuple[list[Row], list[str]]:
        """What became of the rows that were touched."""
        changed: list[Row] = []
        gone: list[str] = []
        for key in self.touched:
            found = self.objects.get(key)
            if found is not None:
                row = self._row(found)
                if self.told.get(key) != row:
                    self.told[key] = row
                    changed.append(row)
            elif self.told.pop(key, None) is not None:
                gone.append(key)
        self.touched.clear()
        return changed, gone


class Picture:
    """Everything the page shows."""

    def __init__(self, *, hold_namespace: str = HOLD_NAMESPACE, rack_label: str = keys.RACK) -> None:
        #: Whether news are news, and not the first list of what was there before.
        self.live = False
        self._hold_namespace: Final = hold_namespace
        self._places = Places(rack_label=rack_label)
        self._placed = self._places.version
        self._classes: dict[str, StorageClass] = {}
        self._claimants: dict[str, str] = {}
        self._timeline = Timeline()
        self._notices: dict[str, Notice] = {}
        self._nodes = _Table[Node](lambda node: node_row(node, self._places))
        self._pools = _Table[StorageCapacity](self._pool)
        self._volumes = _Table[Volume](self._volume)
        self._claims = _Table[Claim](claim_row)
        self._pods = _Table[Pod](pod_row)
        self._tables: Final[Mapping[str, _Settling]] = {
            "nodes": self._nodes,
            "pools": self._pools,
            "volumes": self._volumes,
            "claims": self._claims,
            "pods": self._pods,
        }
        self._told: dict[str, dict[str, Row]] = {"happenings": {}, "notices": {}}

    def observe_node(self, before: Node | None, after: Node | None) -> None:
        self._places.observe(before, after)
        self._nodes.put(before, after)

    def observe_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            self._classes[after.name] = after
        elif before is not None:
            self._classes.pop(before.name, None)
        self._pools.touch_all()
        self._volumes.touch_all()

    def observe_capacity(self, before: StorageCapacity | None, after: StorageCapacity | None) -> None:
        self._pools.put(before, after)

    def observe_claim(self, before: Claim | None, after: Claim | None) -> None:
        self._claims.put(before, after)
        if after is not None:
            self._claimants[after.uid] = after.key
        elif before is not None:
            self._claimants.pop(before.uid, None)

    def observe_volume(self, before: Volume | None, after: Volume | None, *, now: float) -> None:
        self._volumes.put(before, after)
        volume = after if after is not None else before
        if volume is not None:
            row = self._volume(volume)
            self._timeline.observe_volume(
                before, after, hold_namespace=self._hold_namespace, whose=row.claim, now=now, live=self.live
            )

    def observe_pod(self, before: Pod | None, after: Pod | None) -> None:
        self._pods.put(before, after)

    def observe_event(self, before: DatedEvent | None, after: DatedEvent | None) -> None:
        self._timeline.observe_event(before, after)

    def happenings(self) -> list[Happening]:
        """The timeline, oldest first."""
        return list(self._timeline.rows.values())

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

    def changes(self) -> Changes:
        """What is other than when this was last asked."""
        if self._placed != self._places.version:
            self._placed = self._places.version
            self._pools.touch_all()
            self._volumes.touch_all()
        found = {name: table.settle() for name, table in self._tables.items()}
        found["happenings"] = _difference(self._told["happenings"], self._timeline.rows)
        found["notices"] = _difference(self._told["notices"], self._notices)
        return Changes(
            {name: rows for name, (rows, _) in found.items() if rows},
            {name: gone for name, (_, gone) in found.items() if gone},
        )

    def told(self) -> Rows:
        """All rows, as of the last `changes`."""
        tables = {name: table.told for name, table in self._tables.items()} | self._told
        return {name: list(rows.values()) for name, rows in tables.items()}

    def _pool(self, capacity: StorageCapacity) -> Row:
        place = self._places.of_segment(capacity.node_topology)
        return pool_row(capacity, place, self._classes.get(capacity.storage_class_name))

    def _volume(self, volume: Volume) -> VolumeRow:
        uid = held_for(volume, hold_namespace=self._hold_namespace)
        holder = self._claims.objects.get(self._claimants.get(uid, ""))
        return volume_row(
            volume,
            self._places.of(affinity(volume)),
            self._classes.get(volume.storage_class),
            holder,
            hold_namespace=self._hold_namespace,
        )


def _difference(told: dict[str, Row], rows: Mapping[str, Row]) -> tuple[list[Row], list[str]]:
    """What changed, and `told` brought up to it."""
    changed = [row for key, row in rows.items() if told.get(key) is not row]
    gone = [key for key in told if key not in rows]
    told.clear()
    told.update(rows)
    return changed, gone
