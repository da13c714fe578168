"""What volumes in flight will take of the storage that drivers report.

A figure is old the moment it is published: claims that were sent to a provisioner take storage that it still shows as
free. Each such claim is charged to every figure of its pool whose segment has the claim's node, whatever the class:
classes of one driver share what is there, unless they name pools of their own (`keys.CAPACITY_POOL`). A charge ends
when a figure is known to have seen the volume:

    selected a node, no volume ──► volume there ──► asked for after the volume was made: no charge any more
              │ deselected, deleted        │ deleted
              ▼                            ▼
           no charge                    no charge

Publishers say when they asked the driver (`keys.CAPACITY_POLLED_AT`) and provisioners when a volume was made
(`keys.VOLUME_CREATED_AT`). Of publishers that do not, the next change after the volume appeared has to do. All of it is
read off objects, so other schedulers' claims count, and a restart forgets nothing that matters. It keeps `capacity`'s
rooms up to date and decides nothing.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from mooring.api import keys, quantity
from mooring.api.quantity import QuantityError
from mooring.api.timestamps import from_time
from mooring.api.views.claim import Claim
from mooring.api.views.meta import Amount
from mooring.api.views.volume import Volume
from mooring.volumes.capacity import CapacityView, Room
from mooring.volumes.topology import TopologyIndex

REMEMBERED: Final = 1024
"""Volumes of a class whose time of creation is kept, the newest: a figure that has not seen the last thousand volumes
is beyond repair by charges."""

#: creationTimestamp is cut to whole seconds: the volume may be this much younger.
_CUT_OFF: Final = 1.0


@dataclass(slots=True, eq=False)
class _Charge:
    """One claim's volume, in flight or just made."""

    storage_class: str
    node: str
    size: int
    #: Its name once it is there.
    volume: str = ""
    #: When it was made.
    created: float = 0.0
    #: The objects that are charged now, and those of silent publishers that have changed since the volume is there.
    charged: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)


class Charges:
    """Claims in flight, by their uid, and what they are charged to."""

    def __init__(self, topology: TopologyIndex, view: CapacityView, pool_of_class: Callable[[str], str]) -> None:
        self._topology = topology
        self._view = view
        self._pool_of_class = pool_of_class
        self._charges: dict[str, _Charge] = {}
        #: By class, when volumes were made and for whom, the oldest first. As many as are remembered.
        self._made: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        self._by_volume: dict[str, str] = {}
        self._against: defaultdict[str, set[str]] = defaultdict(set)
        #: Objects by pool and node; kept while neither nodes, objects nor pools change.
        self._rooms_at: dict[tuple[str, str], tuple[str, ...]] = {}
        self._version = topology.version

    def claim(self, uid: str, claim: Claim | None) -> None:
        """A claim is as it is, promises included; None for gone."""
        charge = self._charges.get(uid)
        if charge is not None and charge.volume:
            return
        if claim is None or claim.selected_node is None:
            self._drop(uid)
            return
        if claim.spec.volume_name:
            # Bound meanwhile: the volume is about to be seen, or was there before we looked.
            return
        asks = (claim.storage_class, claim.selected_node, _bytes(claim.request))
        if charge is None or (charge.storage_class, charge.node, charge.size) != asks:
            self._drop(uid)
            self._take(uid, _Charge(*asks))

    def volume(self, volume: Volume, claim: Claim | None) -> None:
        """A volume is there, made for a claim or not; `claim` is whom its claimRef names, if there is such a claim."""
        uid = "" if volume.spec.claim_ref is None else volume.spec.claim_ref.uid
        charge = self._charges.get(uid) or self._remembered(volume, claim)
        if not uid or charge is None or charge.volume:
            return
        self._drop(uid)
        size = max(charge.size, _bytes(volume.size))
        self._by_volume[volume.name] = uid
        self._take(uid, _Charge(charge.storage_class, charge.node, size, volume.name, _created(volume)))
        self._forget_oldest(charge.storage_class)

    def volume_gone(self, name: str) -> None:
        uid = self._by_volume.get(name)
        if uid is not None:
            self._drop(uid)

    def published(self, key: str, before: Room | None) -> None:
        """An object came, changed or went; `before` is how it was."""
        now = self._view.room(key)
        if now is None:
            for uid in self._against.pop(key, ()):
                self._charges[uid].charged.discard(key)
        else:
            for uid in [*self._against.get(key, ())]:
                charge = self._charges[uid]
                if charge.volume:
                    charge.settled.add(key)
                    self._apply(uid, charge)
        if now is None or before is None or (now.segment, now.storage_class) != (before.segment, before.storage_class):
            self.regroup()

    def refresh(self) -> None:
        """Follow nodes that came, went or were relabelled."""
        if self._version != self._topology.version:
            self._version = self._topology.version
            self.regroup()

    def regroup(self) -> None:
        """Which objects are of one pool, or of one node, may have changed."""
        self._rooms_at.clear()
        for uid, charge in self._charges.items():
            self._apply(uid, charge)

    def _take(self, uid: str, charge: _Charge) -> None:
        self._charges[uid] = charge
        if charge.volume:
            insort(self._made[charge.storage_class], (charge.created, uid))
        self._apply(uid, charge)

    def _drop(self, uid: str) -> None:
        charge = self._charges.pop(uid, None)
        if charge is None:
            return
        if charge.volume:
            made = self._made[charge.storage_class]
            del made[bisect_left(made, (charge.created, uid))]
            del self._by_volume[charge.volume]
        for key in charge.charged:
            self._against[key].discard(uid)
            self._view.charge(key, -charge.size)

    def _apply(self, uid: str, charge: _Charge) -> None:
        keys_at = self._keys_at(self._pool_of_class(charge.storage_class), charge.node)
        rooms = (self._view.room(key) for key in keys_at)
        wanted = {room.key for room in rooms if room is not None and not _has_seen(room, charge)}
        for key in charge.charged - wanted:
            self._against[key].discard(uid)
            self._view.charge(key, -charge.size)
        for key in wanted - charge.charged:
            self._against[key].add(uid)
            self._view.charge(key, charge.size)
        charge.charged = wanted

    def _keys_at(self, pool: str, node: str) -> tuple[str, ...]:
        """The objects of a pool whose segment has the node; none of a class that nobody makes volumes of."""
        if not pool:
            return ()
        found = self._rooms_at.get((pool, node))
        if found is None:
            rooms = self._view.rooms_at(node)
            found = tuple(room.key for room in rooms if self._pool_of_class(room.storage_class) == pool)
            self._rooms_at[pool, node] = found
        return found

    def _remembered(self, volume: Volume, claim: Claim | None) -> _Charge | None:
        """A volume that was there before we looked: only if it says when it was made can it be told from old ones."""
        if claim is None or claim.selected_node is None or keys.VOLUME_CREATED_AT not in volume.metadata.annotations:
            return None
        return _Charge(claim.storage_class, claim.selected_node, _bytes(volume.size))

    def _forget_oldest(self, storage_class: str) -> None:
        made = self._made[storage_class]
        if len(made) > REMEMBERED:
            self._drop(made[0][1])


def _has_seen(room: Room, charge: _Charge) -> bool:
    if not charge.volume:
        return False
    return room.key in charge.settled if room.polled is None else room.polled > charge.created


def _created(volume: Volume) -> float:
    """The latest moment at which it can have been made."""
    annotation = volume.metadata.annotations.get(keys.VOLUME_CREATED_AT, "")
    stamps: Iterable[tuple[str, float]] = ((annotation, 0.0), (volume.metadata.creation_timestamp or "", _CUT_OFF))
    for text, unsure in stamps:
        try:
            return from_time(text) + unsure
        except ValueError:
            continue
    return 0.0


def _bytes(amount: Amount) -> int:
    """What cannot be understood is made by nobody."""
    try:
        return max(quantity.to_bytes(amount), 0)
    except QuantityError:
        return 0
