"""What drivers report of their free storage, looked at for one claim on one node: which object, which figure, and
which of the many ways to be of no use it has.

Below `claims`. Whether there is room is the volume library's word; kube-scheduler says one sentence for everything that
is told apart here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from mooring.api import label_selector, quantity
from mooring.api.label_selector import LabelSelector, SelectorError
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import LabelSelectorView
from mooring.api.views.storage import StorageCapacity
from mooring.explain.mismatches import amount
from mooring.explain.verdicts import Room
from mooring.volumes.capacity import limit_of
from mooring.volumes.matching import Needs
from mooring.volumes.provisioning import Provisioners
from mooring.volumes.segments import Segments
from mooring.volumes.shortage import readable

MISSING: Final = "MISSING"
NO_TOPOLOGY: Final = "NO_TOPOLOGY"
NO_FIGURE: Final = "NO_FIGURE"
UNREADABLE: Final = "UNREADABLE"
ELSEWHERE: Final = "ELSEWHERE"
ZERO: Final = "ZERO"
TOO_SMALL: Final = "TOO_SMALL"
MAXIMUM: Final = "MAXIMUM"
IN_FLIGHT: Final = "IN_FLIGHT"
TOGETHER: Final = "TOGETHER"

#: The nearer to being of use, the earlier; what is enough comes first.
_ORDER: Final = ("", TOGETHER, IN_FLIGHT, MAXIMUM, TOO_SMALL, ZERO, NO_FIGURE, UNREADABLE, NO_TOPOLOGY, ELSEWHERE)

#: How many objects are named per claim and node.
NAMED: Final = 5


class Rooms:
    """All capacity objects, to be asked about claims and nodes."""

    def __init__(
        self, capacities: Iterable[StorageCapacity], provisioners: Provisioners, ages: Mapping[str, str]
    ) -> None:
        """`ages` says, by key, since when an object says what it says."""
        self._provisioners = provisioners
        self._ages = ages
        self._by_class: dict[str, _Reports] = {}
        for each in sorted(capacities, key=lambda one: one.key):
            self._by_class.setdefault(each.storage_class_name, _Reports()).add(each)

    def looked_at(self, needs: Needs) -> bool:
        return self._provisioners.tracks_capacity(needs)

    def for_claim(self, needs: Needs, together: Sequence[Needs], labels: Mapping[str, str]) -> tuple[Room, ...]:
        """What is said to a claim on a node with these labels, the nearest to being of use first.

        `together` are all claims of the pod that take from the same storage, itself among them.
        """
        if not self.looked_at(needs):
            return ()
        self._provisioners.charges.refresh()
        found = self._by_class.get(needs.storage_class) or _Reports()
        at_hand = found.at(labels)
        here = [self._judged(each, needs, together) for each in at_hand.values()]
        if not here and not found.placeless:
            here.append(self._none(needs, len(found)))
        here += found.elsewhere(at_hand)
        return tuple(sorted(here, key=lambda room: (_place(room.problem), room.capacity))[:NAMED])

    def _judged(self, found: StorageCapacity, needs: Needs, together: Sequence[Needs]) -> Room:
        problem, detail, missing = self._problem(found, needs, together)
        told = f"{detail} (since {self._ages[found.key]})" if found.key in self._ages else detail
        return Room(
            found.key,
            problem,
            told,
            _segment(found.node_topology),
            readable(missing) if missing else "",
            missing,
            self._largest(found),
        )

    def _largest(self, found: StorageCapacity) -> int:
        """The largest volume that could be made there now."""
        room = self._provisioners.capacity.room(found.key)
        return 0 if room is None else min(room.limit, room.left_for_one)

    def _problem(self, found: StorageCapacity, needs: Needs, together: Sequence[Needs]) -> tuple[str, str, int]:
        """Which one, in words, and how many bytes more would have been enough."""
        try:
            limit, asked = limit_of(found), quantity.to_bytes(needs.claim.request)
        except QuantityError as problem:
            return UNREADABLE, f"cannot be understood: {problem}", 0
        if limit is None:
            return NO_FIGURE, "reports neither capacity nor maximumVolumeSize", 0
        figures = _figures(found)
        wanted = f"{readable(asked)} asked for"
        if not limit and asked:
            return ZERO, f"reports {figures}, {wanted}", asked
        if limit < asked and found.capacity is not None and quantity.to_bytes(found.capacity) >= asked:
            return MAXIMUM, f"reports {figures}, {wanted}: no volume may be larger than {readable(limit)}", 0
        if limit < asked:
            return TOO_SMALL, f"reports {figures}, {wanted}: {readable(asked - limit)} too little", asked - limit
        room = self._provisioners.capacity.room(found.key)
        enough = ("", f"reports {figures}, {wanted}", 0)
        if room is None or not room.additive:
            return enough
        in_all = sum(quantity.to_bytes(each.claim.request) for each in together)
        left = f"{readable(room.free)} less {readable(room.charged)} in flight"
        if room.charged and asked > room.left_for_one:
            short = asked - room.unused
            return IN_FLIGHT, f"reports {left}, {wanted}: {readable(short)} too little", short
        if len(together) > 1 and in_all > room.left:
            names = ", ".join(each.claim.name for each in together)
            short = in_all - room.left
            asked_by = f"{readable(in_all)} asked for by {names} together"
            return TOGETHER, f"reports {left}, {asked_by}: {readable(short)} too little", short
        return enough

    def _none(self, needs: Needs, found: int) -> Room:
        name = needs.storage_class
        driver = self._provisioners.provisioner(name)
        if not found:
            return Room("", MISSING, f"driver {driver} has published no CSIStorageCapacity for class {name}")
        others = f"{found} for other places" if found > 1 else "one for another place"
        return Room("", MISSING, f"driver {driver} has published none for class {name} here, only {others}")


class _Reports:
    """The capacity objects of one class: a node's own are found by its labels, not by looking at all of them."""

    def __init__(self) -> None:
        self._all: dict[str, StorageCapacity] = {}
        self._segments = Segments()
        #: Those that speak of no node.
        self.placeless: list[StorageCapacity] = []
        self._misplaced: dict[str, Room] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, found: StorageCapacity) -> None:
        self._all[found.key] = found
        if found.node_topology is None:
            self.placeless.append(found)
        elif (selector := _selector(found.node_topology)) is not None:
            asked = selector.requirements
            self._segments.add(NodeSelector((NodeSelectorTerm(asked),)) if asked else None, found.key)

    def at(self, labels: Mapping[str, str]) -> dict[str, StorageCapacity]:
        """By key, those for a node with these labels."""
        return {key: self._all[key] for key in sorted(self._segments.at(labels))}

    def elsewhere(self, at_hand: Mapping[str, StorageCapacity]) -> Iterator[Room]:
        """As many of the others as are ever named, the nearest to being of use among them."""
        others = (each for key, each in self._all.items() if key not in at_hand and each.node_topology is not None)
        for each in (*self.placeless[:NAMED], *islice(others, NAMED)):
            if each.key not in self._misplaced:
                self._misplaced[each.key] = _misplaced(each)
            yield self._misplaced[each.key]


def at_node(capacities: Iterable[StorageCapacity], labels: Mapping[str, str]) -> tuple[Room, ...]:
    """What is reported for a node with these labels, whoever asks."""
    return tuple(
        Room(each.key, "", f"class {each.storage_class_name}: {_figures(each)}", _segment(each.node_topology))
        for each in sorted(capacities, key=lambda one: (one.storage_class_name, one.key))
        if _reaches(each, labels)
    )


def _place(problem: str) -> int:
    # No object at all comes where the nearest would have been.
    return _ORDER.index(ELSEWHERE if problem == MISSING else problem)


def _misplaced(found: StorageCapacity) -> Room:
    if found.node_topology is None:
        return Room(found.key, NO_TOPOLOGY, f"has no nodeTopology, so no node can use its {_figures(found)}")
    segment = _segment(found.node_topology)
    return Room(found.key, ELSEWHERE, f"is for {segment}, reports {_figures(found)}", segment)


def _figures(found: StorageCapacity) -> str:
    """As the object says them; `maximumVolumeSize` first, since it decides where it is given."""
    if found.maximum_volume_size is None:
        return "nothing" if found.capacity is None else amount(found.capacity)
    largest = f"maximumVolumeSize {amount(found.maximum_volume_size)}"
    return largest if found.capacity is None else f"{largest} of {amount(found.capacity)}"


def _segment(view: LabelSelectorView | None) -> str:
    if view is None:
        return "nowhere"
    try:
        return str(label_selector.from_view(view.match_labels, view.match_expressions)) or "everywhere"
    except SelectorError as problem:
        return f"nowhere ({problem})"


def _reaches(found: StorageCapacity, labels: Mapping[str, str]) -> bool:
    selector = None if found.node_topology is None else _selector(found.node_topology)
    return selector is not None and selector.matches(labels)


def _selector(view: LabelSelectorView) -> LabelSelector | None:
    """None for one that cannot be understood: told in the segment, and nowhere for the scheduler as well."""
    try:
        return label_selector.from_view(view.match_labels, view.match_expressions)
    except SelectorError:
        return None
