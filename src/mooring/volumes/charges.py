"""Charges of in-flight volumes against reported capacity.

A published CSIStorageCapacity is old at once: claims with a selected node use capacity that is still reported as
free. Each is charged to every segment of its pool that has the node. A claim and its volume are one charge, also
while the volume is held or rolled back. The charge ends when the capacity was polled (`CAPACITY_POLLED_AT`) after
the volume was created (`VOLUME_CREATED_AT`); publishers without that annotation end it with their next update:

    node selected, no volume ──► volume exists ──► polled after its creation: no charge
              │ deselected, deleted        │ deleted
              ▼                            ▼
           no charge                    no charge

All of it is read from objects, so claims of other schedulers count and a restart loses nothing. `refresh` recomputes
the charges at nodes whose segments may have changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mooring.api import quantity, well_known
from mooring.api.quantity import QuantityError
from mooring.api.times import time_or_none
from mooring.api.views.meta import Amount
from mooring.api.views.storage import Claim, Volume
from mooring.multimap import Multimap
from mooring.volumes.binding import HOLD_PREFIX, ROLLBACK_PREFIX
from mooring.volumes.capacity import CapacitySegment, CapacityView
from mooring.volumes.holds import objects
from mooring.volumes.topology import Affinity, NodeChange, NodeSet, TopologyIndex, affinity_of

#: creationTimestamp is cut to whole seconds: the volume may be this much younger.
_TIMESTAMP_GRANULARITY: Final = 1.0
_NOTHING: Final[frozenset[str]] = frozenset()


class _ProvisionRequest(NamedTuple):
    """What a claim is to get where."""

    storage_class: str
    node: str
    size: int


class _Owner(NamedTuple):
    """The claim that a volume was provisioned for, and whether the volume is that claim's for good."""

    uid: str
    committed: bool


_NO_OWNER: Final = _Owner("", committed=False)


@dataclass(slots=True, eq=False)
class _Charge:
    """A claim in flight, or a volume."""

    storage_class: str
    node: str
    size: int
    #: Its name, None of a claim in flight.
    volume: str | None = None
    #: Which nodes reach the volume.
    affinity: Affinity = None
    #: When the volume was provisioned.
    created: float = 0.0
    #: The node at whose objects the charge is looked for.
    place: str = ""
    #: The objects that are charged now, and those of silent publishers that are known to include the volume.
    charged: frozenset[str] = _NOTHING
    settled: frozenset[str] = _NOTHING
    #: The volume was there when it was first heard of: silent publishers may have included it long ago.
    found: bool = False


class Charges:
    """Claims in flight, volumes that figures may not include yet, and the objects they are charged to."""

    def __init__(self, topology: TopologyIndex, view: CapacityView, pool_of_class: Callable[[str], str]) -> None:
        self._topology = topology
        self._view = view
        self._pool_of_class = pool_of_class
        #: By uid, what claims that have no volume yet ask for.
        self._asks: dict[str, _ProvisionRequest] = {}
        #: By uid of its claim and by name of the volume.
        self._flights: dict[str, _Charge] = {}
        self._made: dict[str, _Charge] = {}
        self._owners: dict[str, _Owner] = {}
        #: By uid of a claim, the volumes that were provisioned for it.
        self._volumes_of: Multimap[str, str] = Multimap()
        self._against: Multimap[str, _Charge] = Multimap()
        self._at: Multimap[str, _Charge] = Multimap()
        #: Objects by node and pool; kept while neither the node, its objects nor pools change.
        self._keys_by_pool: dict[str, dict[str, list[str]]] = {}
        #: Nodes whose objects may have changed.
        self._stale: set[str] = set()
        topology.follow(self._node_changed)

    def claim(self, uid: str, claim: Claim | None) -> None:
        """A claim is as it is, promises included; None for gone."""
        if claim is None or claim.selected_node is None:
            self._asks.pop(uid, None)
        elif not claim.spec.volume_name:
            self._asks[uid] = _ProvisionRequest(claim.storage_class, claim.selected_node, _bytes(claim.request))
        elif uid not in self._flights:
            # Of one in flight that is bound meanwhile, the volume is about to be seen.
            self._asks.pop(uid, None)
        self._fly(uid)

    def volume(self, volume: Volume, claim: Claim | None) -> None:
        """A volume is there, made for a claim or not; `claim` is the one it belongs to or is held for, if it is there
        as well."""
        name, before, owner = volume.name, self._owners.get(volume.name, _NO_OWNER), _owner(volume)
        if owner != before:
            self._disown(name)
            if owner.uid:
                self._owners[name] = owner
                self._volumes_of.add(owner.uid, name)
        asks = self._asks.get(owner.uid)
        if name not in self._made and (asks is not None or well_known.VOLUME_CREATED_AT in volume.metadata.annotations):
            self._take(self._made, name, _charge(volume, claim, asks))
        if claim is not None and claim.spec.volume_name:
            self._asks.pop(owner.uid, None)
        for uid in {before.uid, owner.uid}:
            self._fly(uid)

    def remove_volume(self, name: str) -> None:
        uid = self._owners.get(name, _NO_OWNER).uid
        self._drop(self._made, name)
        self._disown(name)
        self._fly(uid)

    def set_aside(self, uid: str) -> Callable[[], None]:
        """Count the volume of a claim, in flight or held, as free until the returned function is called. A volume that
        is the claim's for good stays."""
        names = self._volumes_of.get(uid, ())
        if any(self._owners[name].committed for name in names):
            return lambda: None
        flight, view = self._flights.get(uid), self._view
        charges = [self._made[name] for name in names if name in self._made]
        refunds: list[tuple[Callable[[str, int], None], str, int]] = []
        for charge in (*charges, *(() if flight is None else (flight,))):
            for key in self._keys_at(charge.place, self._pool_of_class(charge.storage_class)):
                # What a report reflects is not charged: the report itself is too small then.
                reduce = view.charge if key in charge.charged else _add_to(view)
                refunds.append((reduce, key, charge.size))
        for reduce, key, size in refunds:
            reduce(key, -size)

        def put_back() -> None:
            for reduce, key, size in refunds:
                reduce(key, size)

        return put_back

    def published(self, key: str, before: CapacitySegment | None) -> None:
        """An object came, changed or went; `before` is how it was."""
        now = self._view.segment(key)
        if now is None:
            for charge in self._against.pop(key, ()):
                charge.charged -= {key}
        else:
            for charge in [*self._against.get(key, ())]:
                if charge.volume is not None:
                    charge.settled |= {key}
                    self._apply(charge)
        if now is None or before is None or (now.segment, now.storage_class) != (before.segment, before.storage_class):
            for segment in (before, now):
                if segment is not None:
                    self._touch(self._topology.matching(segment.segment))

    def refresh(self) -> None:
        """Follow nodes that came, went or were relabelled, and objects that came or went."""
        while self._stale:
            node = self._stale.pop()
            self._keys_by_pool.pop(node, None)
            for charge in [*self._at.get(node, ())]:
                self._apply(charge)

    def recompute(self) -> None:
        """Which classes take from one pool may have changed."""
        self._keys_by_pool.clear()
        self._stale.update(self._at)

    def _fly(self, uid: str) -> None:
        """A claim is in flight to its node unless a volume is its own, or was provisioned for it there."""
        asks = self._asks.get(uid)
        charge = self._flights.get(uid)
        if asks is None or any(self._serves(name, asks.node) for name in self._volumes_of.get(uid, ())):
            self._drop(self._flights, uid)
        elif charge is None or (charge.storage_class, charge.node, charge.size) != asks:
            self._drop(self._flights, uid)
            self._take(self._flights, uid, _Charge(*asks))

    def _serves(self, volume: str, node: str) -> bool:
        made = self._made.get(volume)
        return self._owners[volume].committed or (made is not None and made.node == node)

    def _disown(self, volume: str) -> None:
        owner = self._owners.pop(volume, None)
        if owner is not None:
            self._volumes_of.discard(owner.uid, volume)

    def _take(self, charges: dict[str, _Charge], name: str, charge: _Charge) -> None:
        charges[name] = charge
        self._at.add(charge.place, charge)
        self._apply(charge)

    def _drop(self, charges: dict[str, _Charge], name: str) -> None:
        charge = charges.pop(name, None)
        if charge is not None:
            self._leave(charge)
            self._charge_to(charge, _NOTHING)

    def _leave(self, charge: _Charge) -> None:
        self._at.discard(charge.place, charge)
        if charge.place not in self._at:
            self._keys_by_pool.pop(charge.place, None)

    def _apply(self, charge: _Charge) -> None:
        place = self._place_of(charge)
        if place != charge.place:
            self._leave(charge)
            charge.place = place
            self._at.add(place, charge)
        keys_at = self._keys_at(place, self._pool_of_class(charge.storage_class))
        segments = [segment for key in keys_at if (segment := self._view.segment(key)) is not None]
        self._charge_to(charge, frozenset(segment.key for segment in segments if not _is_reflected_in(segment, charge)))

    def _charge_to(self, charge: _Charge, keys: frozenset[str]) -> None:
        for key in charge.charged - keys:
            self._against.discard(key, charge)
            self._view.charge(key, -charge.size)
        for key in keys - charge.charged:
            self._against.add(key, charge)
            self._view.charge(key, charge.size)
        charge.charged = keys

    def _place_of(self, charge: _Charge) -> str:
        """The node that was selected. A volume outlives it: then, or where nothing tells it, any node that reaches the
        volume will do, since figures are for places that storage is reached from."""
        if charge.node in self._topology or charge.volume is None:
            return charge.node
        nodes = self._topology.matching(charge.affinity)
        return self._topology.name((nodes & -nodes).bit_length() - 1) if nodes else charge.node

    def _keys_at(self, node: str, pool: str) -> Iterable[str]:
        """The objects of a pool whose segment has the node; none of a class without provisioner."""
        if not pool:
            return ()
        found = self._keys_by_pool.get(node)
        if found is None:
            found = self._keys_by_pool[node] = {}
            for segment in self._view.segments_at(node):
                found.setdefault(self._pool_of_class(segment.storage_class), []).append(segment.key)
        return found.get(pool, ())

    def _touch(self, nodes: NodeSet) -> None:
        """What is charged at these nodes has to be looked at again."""
        if not self._at:
            return
        if nodes.bit_count() < len(self._at):
            self._stale.update(name for name in self._topology.names(nodes) if name in self._at)
        else:
            self._stale.update(name for name in self._at if nodes & self._topology.named(name))

    def _node_changed(self, change: NodeChange) -> None:
        # A volume that no node has reached so far may be reached from any that comes.
        self._stale.update(name for name in (change.name, "") if name in self._at)


def _charge(volume: Volume, claim: Claim | None, asks: _ProvisionRequest | None) -> _Charge:
    node = volume.metadata.annotations.get(objects.NODE, "")
    size, storage_class = _bytes(volume.size), volume.storage_class
    if asks is not None:
        node, size, storage_class = node or asks.node, max(size, asks.size), asks.storage_class
    elif claim is not None:
        node = node or claim.selected_node or ""
    created, found = _created(volume), asks is None
    return _Charge(storage_class, node, size, volume.name, affinity_of(volume), created, place=node, found=found)


def _add_to(view: CapacityView) -> Callable[[str, int], None]:
    return lambda key, amount: view.refund(key, -amount)


def _owner(volume: Volume) -> _Owner:
    """By its claimRef; of volumes that are held or rolled back it names no claim, but has the claim's uid in it."""
    reference = volume.spec.claim_ref
    if reference is None:
        return _NO_OWNER
    for prefix in () if reference.uid else (HOLD_PREFIX, ROLLBACK_PREFIX):
        if reference.name.startswith(prefix):
            return _Owner(reference.name.removeprefix(prefix), committed=False)
    return _Owner(reference.uid, committed=True)


def _is_reflected_in(segment: CapacitySegment, charge: _Charge) -> bool:
    if charge.volume is None:
        return False
    if segment.polled is None:
        return charge.found or segment.key in charge.settled
    return segment.polled > charge.created


def _created(volume: Volume) -> float:
    """The latest moment at which it can have been provisioned."""
    annotated = time_or_none(volume.metadata.annotations.get(well_known.VOLUME_CREATED_AT))
    if annotated is not None:
        return annotated
    stamped = time_or_none(volume.metadata.creation_timestamp)
    return 0.0 if stamped is None else stamped + _TIMESTAMP_GRANULARITY


def _bytes(amount: Amount) -> int:
    """0 for a malformed amount: no volume is provisioned for it."""
    try:
        return max(quantity.to_bytes(amount), 0)
    except QuantityError:
        return 0
