"""Available volumes in columns by class, shape and driver, and the nodes where claims of a class can each have one.

Volumes that a label selector matches get columns of their own, cached by selector. Feasibility is exact, by Hall's
theorem: each claim can have a volume of its own if and only if every subset of the claims finds at least as many
volumes as it has claims; of claims that differ only in size, the largest few are the decisive subsets. Reserved and
assumed volumes are not in here.
"""

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from mooring.api.selectors import LabelIndex, LabelSelector
from mooring.api.views.storage import Volume
from mooring.multimap import Tally
from mooring.volumes import topology
from mooring.volumes.columns import Columns, Counts, SizedVolume
from mooring.volumes.in_tree import identity_of
from mooring.volumes.matching import ClaimRequirements, VolumeShape, exact_size, shape_of
from mooring.volumes.topology import EMPTY, Affinity, AffinityFollower, NodeSet, TopologyIndex

MAX_CACHED_SELECTORS: Final = 64
"""Sets of selectors whose columns are kept, the longest unused going first; each costs an entry per matching volume."""


class VolumeKind(NamedTuple):
    """What decides about free volumes of a class besides size, place and labels."""

    shape: VolumeShape
    #: The driver that has to attach it; "" where none does.
    driver: str

    def satisfies(self, shape: VolumeShape, driver: str | None) -> bool:
        """Whether it does for a claim of this shape, with a volume of a certain driver or, for None, of any."""
        return driver in (None, self.driver) and self.shape.satisfies(shape)


#: Volumes by the selectors that match them: those that at least one does.
_Picked = defaultdict[tuple[VolumeKind, frozenset[LabelSelector]], Columns]


class AvailableColumns(NamedTuple):
    """The free volumes of a class, and once more those that some selectors match."""

    plain: Mapping[VolumeKind, Columns]
    picked: Mapping[tuple[VolumeKind, frozenset[LabelSelector]], Columns]


NO_COLUMNS: Final = AvailableColumns({}, {})


class _IndexedVolume(NamedTuple):
    """Where a free volume was entered."""

    volume: Volume
    kind: VolumeKind
    affinity: Affinity
    sized: SizedVolume


class _OfClass:
    """The free volumes of one class."""

    def __init__(self) -> None:
        self.places: dict[str, _IndexedVolume] = {}
        self.plain: defaultdict[VolumeKind, Columns] = defaultdict(Columns)
        #: How many volumes each driver has.
        self.drivers: Tally[str] = Tally()
        self._by_label: LabelIndex[str] = LabelIndex()

    def add(self, place: _IndexedVolume) -> None:
        self.places[place.volume.name] = place
        self.drivers.add(place.kind.driver, 1)
        self._by_label.put(place.volume.name, place.volume.metadata.labels.items())

    def remove(self, name: str) -> _IndexedVolume:
        place = self.places.pop(name)
        self.drivers.add(place.kind.driver, -1)
        self._by_label.remove(name, place.volume.metadata.labels.items())
        return place

    def matched(self, selector: LabelSelector) -> Iterator[_IndexedVolume]:
        """The volumes that a selector matches; of those, only such are looked at that have a label it names."""
        labels = self._by_label.rarest(selector.requirements)
        for name in self._by_label.having(labels) if labels else self.places:
            if selector.matches(self.places[name].volume.metadata.labels):
                yield self.places[name]


class AvailableVolumes:
    """Columns of free volumes. They follow nodes by themselves; volumes come and go by name."""

    def __init__(self, topology: TopologyIndex, affinity: Callable[[Volume], Affinity]) -> None:
        self._follower = AffinityFollower(topology)
        self._affinity = affinity
        self._class_of: dict[str, str] = {}
        self._classes: defaultdict[str, _OfClass] = defaultdict(_OfClass)
        self._picked: OrderedDict[tuple[str, frozenset[LabelSelector]], _Picked] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._class_of

    def add(self, volume: Volume) -> None:
        """A volume whose size can be read is free."""
        identity = identity_of(volume)
        kind = VolumeKind(shape_of(volume), "" if identity is None else identity.driver)
        place = _IndexedVolume(volume, kind, self._affinity(volume), SizedVolume(exact_size(volume.size), volume.name))
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

    def serving(self, claim: ClaimRequirements, driver: str | None = None) -> list[Columns]:
        """The columns all of whose volumes do for the claim, as far as size and place do; only those of a driver, if
        one is named. They share no volume, but those for claims with other selectors may share some with them."""
        offered = self.offered(claim.storage_class, [claim])
        if claim.has_selector:
            return [columns for (kind, _), columns in offered.picked.items() if kind.satisfies(claim.shape, driver)]
        return [columns for kind, columns in offered.plain.items() if kind.satisfies(claim.shape, driver)]

    def offered(self, storage_class: str, claims: Iterable[ClaimRequirements]) -> AvailableColumns:
        """The free volumes of a class, told apart by the selectors of these claims."""
        self._follow_nodes()
        of_class = self._classes.get(storage_class)
        if of_class is None:
            return NO_COLUMNS
        selectors = frozenset(one.selector for one in claims if one.selector is not None and one.has_selector)
        return AvailableColumns(of_class.plain, self._picked_by(storage_class, selectors) if selectors else {})

    def drivers(self, storage_class: str) -> Collection[str]:
        """The drivers that free volumes of a class have; "" for volumes that no driver knows."""
        of_class = self._classes.get(storage_class)
        return () if of_class is None else of_class.drivers.keys()

    def _picked_by(self, storage_class: str, selectors: frozenset[LabelSelector]) -> _Picked:
        key = (storage_class, selectors)
        picked = self._picked.get(key)
        if picked is None:
            if len(self._picked) >= MAX_CACHED_SELECTORS:
                self._picked.popitem(last=False)
            picked = self._picked[key] = defaultdict(Columns)
            of_class = self._classes[storage_class]
            found = {place.volume.name: place for selector in selectors for place in of_class.matched(selector)}
            for place in found.values():
                self._enter(picked[place.kind, _matching(selectors, place.volume)], place)
        self._picked.move_to_end(key)
        return picked

    def _picked_with(self, volume: Volume) -> Iterator[tuple[_Picked, frozenset[LabelSelector]]]:
        """All columns by labels which a volume of this class and these labels belongs to."""
        for (storage_class, selectors), picked in self._picked.items():
            if storage_class == volume.storage_class and (matching := _matching(selectors, volume)):
                yield picked, matching

    def _enter(self, columns: Columns, place: _IndexedVolume) -> None:
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


MAX_CLAIM_SETS: Final = 256
"""Sets of claims that are tried. It takes more than eight claims of one class that all ask differently to exceed it."""


class VolumeQuery(NamedTuple):
    """A claim, and the driver its volume must be of; None for any, "" for a volume without one."""

    claim: ClaimRequirements
    driver: str | None = None


class _ClaimKind(NamedTuple):
    """Claims that differ only in size."""

    shape: VolumeShape
    selector: LabelSelector | None
    driver: str | None
    #: Descending.
    sizes: list[int]

    @property
    def telling(self) -> list[int]:
        """How many of the largest to try together: of equal sizes, all ask for the most."""
        sizes = self.sizes
        return [0, *(n for n in range(1, len(sizes) + 1) if n == len(sizes) or sizes[n] != sizes[n - 1])]


class _ClaimSet(NamedTuple):
    """Some claims: of each sort among them, the size that the smallest asks for."""

    sizes: list[tuple[_ClaimKind, int]]
    claims: int


class TooManySets(Exception):
    """There are more sets of claims than are worth trying. On all nodes but `nodes` too few volumes are left for some
    of those that were."""

    def __init__(self, nodes: NodeSet) -> None:
        super().__init__()
        self.nodes = nodes


def feasible(asked: Iterable[VolumeQuery], offered: AvailableColumns, nodes: NodeSet, width: int) -> NodeSet:
    """Those of `nodes` on which each claim can have a volume of its own. Raises TooManySets."""
    exact = True
    for rivals in _competing(_claim_kinds(asked), offered):
        all_sets = math.prod(len(sort.telling) for sort in rivals) <= MAX_CLAIM_SETS
        exact &= all_sets
        for one in _claim_sets(rivals) if all_sets else _decisive_sets(rivals):
            if not nodes:
                return nodes
            nodes &= _enough(one, offered, width)
    if not exact:
        raise TooManySets(nodes)
    return nodes


def _claim_kinds(asked: Iterable[VolumeQuery]) -> list[_ClaimKind]:
    found: dict[tuple[VolumeShape, LabelSelector | None, str | None], _ClaimKind] = {}
    for claim, driver in sorted(asked, key=lambda one: one.claim.size, reverse=True):
        key = (claim.shape, claim.selector if claim.has_selector else None, driver)
        found.setdefault(key, _ClaimKind(*key, [])).sizes.append(claim.size)
    return list(found.values())


def _competing(sorts: Sequence[_ClaimKind], offered: AvailableColumns) -> list[list[_ClaimKind]]:
    """Sorts that could take each other's volumes, together. Others cannot get in each other's way."""
    parts: list[tuple[set[VolumeKind], list[_ClaimKind]]] = []
    for sort in sorts:
        kinds, members = {kind for kind in offered.plain if kind.satisfies(sort.shape, sort.driver)}, [sort]
        for part in [part for part in parts if part[0] & kinds]:
            parts.remove(part)
            kinds, members = kinds | part[0], [*part[1], *members]
        parts.append((kinds, members))
    return [members for _, members in parts]


def _claim_sets(sorts: Sequence[_ClaimKind]) -> Iterator[_ClaimSet]:
    for numbers in product(*(sort.telling for sort in sorts)):
        chosen = [(sort, sort.sizes[number - 1]) for sort, number in zip(sorts, numbers, strict=True) if number]
        if chosen:
            yield _ClaimSet(chosen, sum(numbers))


def _decisive_sets(sorts: Sequence[_ClaimKind]) -> Iterator[_ClaimSet]:
    """Those of `_sets` that usually decide: each sort for itself, and all claims together."""
    for sort in sorts:
        yield from _claim_sets((sort,))
    yield _ClaimSet([(sort, sort.sizes[-1]) for sort in sorts], sum(len(sort.sizes) for sort in sorts))


def _enough(of: _ClaimSet, offered: AvailableColumns, width: int) -> NodeSet:
    """The nodes that reach at least as many volumes for a set of claims, between them, as it has claims."""
    terms = list(_terms(of, offered))
    if not terms:
        return EMPTY
    if len(terms) == 1:
        return terms[0].columns.nodes_with_at_least(terms[0].size, of.claims, width)
    counted: Counts = np.zeros(width, dtype=np.int64)
    for term in terms:
        counted += term.sign * term.columns.counts(term.size, of.claims, width)
    return topology.node_set_from_mask(counted >= of.claims)


class _Term(NamedTuple):
    sign: int
    columns: Columns
    size: int


def _terms(of: _ClaimSet, offered: AvailableColumns) -> Iterator[_Term]:
    """The volumes that some claim of a set may take, each counted once. Of those that a selector picks, the ones too
    small for the claims without selector come on top. Counts are cut off at the number of claims, which does no harm:
    wherever one is, there is enough."""
    least: dict[VolumeKind, int] = {}
    for kind, columns in offered.plain.items():
        sizes = [size for sort, size in of.sizes if sort.selector is None and kind.satisfies(sort.shape, sort.driver)]
        if sizes:
            least[kind] = min(sizes)
            yield _Term(1, columns, least[kind])
    for (kind, matching), columns in offered.picked.items():
        sizes = [
            size for sort, size in of.sizes if sort.selector in matching and kind.satisfies(sort.shape, sort.driver)
        ]
        if sizes and (kind not in least or min(sizes) < least[kind]):
            yield _Term(1, columns, min(sizes))
            if kind in least:
                yield _Term(-1, columns, least[kind])
