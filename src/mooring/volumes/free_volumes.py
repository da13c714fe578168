"""The free volumes, in columns by class and kind, and once more by the labels that claims select.

Below `volume_index`, which asks for the columns that serve claims. Claims rarely select by labels, and those that do
use few selectors: the first pod with some selectors makes columns of the volumes they match, later ones find them
current. Making them looks only at volumes that have a label the selector names. It knows sizes and places; what is
reserved or promised is not here.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from mooring.api.label_selector import LabelSelector, Operator
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import Affinity, AffinityFollower, affinity
from mooring.volumes.assignment import Sized
from mooring.volumes.columns import Columns
from mooring.volumes.in_tree import identity_of
from mooring.volumes.matching import Needs
from mooring.volumes.shape import Shape, exact_size, shape_of
from mooring.volumes.topology import TopologyIndex

REMEMBERED_SELECTORS: Final = 64
"""Sets of selectors whose columns are kept, the longest unused going first; each costs an entry per matching volume."""


class VolumeKind(NamedTuple):
    """What decides about free volumes of a class besides size, place and labels."""

    shape: Shape
    #: The driver that has to attach it; "" where none does.
    driver: str

    def serves(self, claim: Needs, driver: str | None) -> bool:
        """Whether it does for a claim, with a volume of a certain driver or, for None, of any."""
        return self.shape.serves(claim.shape) and driver in (None, self.driver)


#: Volumes by the selectors that match them: those that at least one does.
_Picked = defaultdict[tuple[VolumeKind, frozenset[LabelSelector]], Columns]


class Offered(NamedTuple):
    """The free volumes of a class, and once more those that some selectors match."""

    plain: Mapping[VolumeKind, Columns]
    picked: Mapping[tuple[VolumeKind, frozenset[LabelSelector]], Columns]


NOTHING_OFFERED: Final = Offered({}, {})


class _Place(NamedTuple):
    """Where a free volume was entered."""

    volume: Volume
    kind: VolumeKind
    affinity: Affinity
    sized: Sized


class _OfClass:
    """The free volumes of one class."""

    def __init__(self) -> None:
        self.places: dict[str, _Place] = {}
        self.plain: defaultdict[VolumeKind, Columns] = defaultdict(Columns)
        #: How many volumes each driver has.
        self.drivers: Counter[str] = Counter()
        self._by_label: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    def add(self, place: _Place) -> None:
        self.places[place.volume.name] = place
        self.drivers[place.kind.driver] += 1
        for label in place.volume.metadata.labels.items():
            self._by_label[label][place.volume.name] = None

    def remove(self, name: str) -> _Place:
        place = self.places.pop(name)
        self.drivers[place.kind.driver] -= 1
        if not self.drivers[place.kind.driver]:
            del self.drivers[place.kind.driver]
        for label in place.volume.metadata.labels.items():
            del self._by_label[label][name]
            if not self._by_label[label]:
                del self._by_label[label]
        return place

    def matched(self, selector: LabelSelector) -> Iterator[_Place]:
        """The volumes that a selector matches; of those, only such are looked at that have a label it names."""
        for name in self._named_by(selector):
            if selector.matches(self.places[name].volume.metadata.labels):
                yield self.places[name]

    def _named_by(self, selector: LabelSelector) -> Iterable[str]:
        having = [
            [self._by_label.get((one.key, value), {}) for value in one.values]
            for one in selector.requirements
            if one.operator is Operator.IN
        ]
        if not having:
            return self.places
        fewest = min(having, key=lambda found: sum(map(len, found)))
        return [name for names in fewest for name in names]


class FreeVolumes:
    """Columns of free volumes. They follow nodes by themselves; volumes come and go by name."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._follower = AffinityFollower(topology)
        self._class_of: dict[str, str] = {}
        self._classes: defaultdict[str, _OfClass] = defaultdict(_OfClass)
        self._picked: OrderedDict[tuple[str, frozenset[LabelSelector]], _Picked] = OrderedDict()

    def add(self, volume: Volume) -> None:
        """A volume whose size can be read is free."""
        identity = identity_of(volume)
        kind = VolumeKind(shape_of(volume), "" if identity is None else identity.driver)
        place = _Place(volume, kind, affinity(volume), Sized(exact_size(volume.size), volume.name))
        self._follower.add(place.affinity)
        self._class_of[volume.name] = volume.storage_class
        of_class = self._classes[volume.storage_class]
        of_class.add(place)
        self._enter(of_class.plain[kind], place)
        for picked, matching in self._picked_with(volume):
            self._enter(picked[kind, matching], place)

    def remove(self, name: str) -> None:
        """A volume is free no more. Nothing happens when it was not."""
        storage_class = self._class_of.pop(name, None)
        if storage_class is None:
            return
        of_class = self._classes[storage_class]
        place = of_class.remove(name)
        self._follower.discard(place.affinity)
        of_class.plain[place.kind].remove(place.sized, place.affinity)
        if not of_class.plain[place.kind]:
            del of_class.plain[place.kind]
        for picked, matching in self._picked_with(place.volume):
            columns = picked[place.kind, matching]
            columns.remove(place.sized, place.affinity)
            if not columns:
                del picked[place.kind, matching]
        if not of_class.places:
            del self._classes[storage_class]

    def serving(self, claim: Needs, driver: str | None = None) -> list[Columns]:
        """The columns all of whose volumes do for the claim, as far as size and place do; only those of a driver, if
        one is named. They share no volume, but those for claims with other selectors may share some with them."""
        offered = self.offered(claim.storage_class, [claim])
        if claim.selects:
            return [columns for (kind, _), columns in offered.picked.items() if kind.serves(claim, driver)]
        return [columns for kind, columns in offered.plain.items() if kind.serves(claim, driver)]

    def offered(self, storage_class: str, claims: Iterable[Needs]) -> Offered:
        """The free volumes of a class, told apart by the selectors of these claims."""
        self._follow_nodes()
        of_class = self._classes.get(storage_class)
        if of_class is None:
            return NOTHING_OFFERED
        selectors = frozenset(one.selector for one in claims if one.selector is not None and one.selects)
        return Offered(of_class.plain, self._picked_by(storage_class, selectors) if selectors else {})

    def drivers(self, storage_class: str) -> Collection[str]:
        """The drivers that free volumes of a class have; "" for volumes that no driver knows."""
        of_class = self._classes.get(storage_class)
        return () if of_class is None else of_class.drivers.keys()

    def _picked_by(self, storage_class: str, selectors: frozenset[LabelSelector]) -> _Picked:
        key = (storage_class, selectors)
        picked = self._picked.get(key)
        if picked is None:
            if len(self._picked) >= REMEMBERED_SELECTORS:
                self._picked.popitem(last=False)
            picked = self._picked[key] = defaultdict(Columns)
            of_class = self._classes[storage_class]
            found = {place.volume.name: place for selector in selectors for place in of_class.matched(selector)}
            for place in found.values():
                self._enter(picked[place.kind, _matching(selectors, place.volume)], place)
        self._picked.move_to_end(key)
        return picked

    def _picked_with(self, volume: Volume) -> Iterator[tuple[_Picked, frozenset[LabelSelector]]]:
        """All that were made by labels which a volume of this class and these labels belongs to."""
        for (storage_class, selectors), picked in self._picked.items():
            if storage_class == volume.storage_class and (matching := _matching(selectors, volume)):
                yield picked, matching

    def _enter(self, columns: Columns, place: _Place) -> None:
        columns.add(place.sized, place.affinity, self._follower.nodes(place.affinity))

    def _follow_nodes(self) -> None:
        """Move the volumes whose nodes have changed since the last question."""
        for touched, nodes in self._follower.moved():
            for of_class in self._classes.values():
                for columns in of_class.plain.values():
                    columns.move(touched, nodes)
            for picked in self._picked.values():
                for columns in picked.values():
                    columns.move(touched, nodes)


def _matching(selectors: Iterable[LabelSelector], volume: Volume) -> frozenset[LabelSelector]:
    return frozenset(selector for selector in selectors if selector.matches(volume.metadata.labels))
