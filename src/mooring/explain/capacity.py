"""CSIStorageCapacity objects evaluated for one claim on one node: which object applies, what it reports, what is wrong.

kube-scheduler has one message for all of these problems. The decision itself is `volumes.capacity`'s.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from mooring.api import quantity
from mooring.api.node_selectors import NodeSelector, NodeSelectorTerm
from mooring.api.quantity import QuantityError
from mooring.api.selectors import LabelSelector, SelectorError, label_selector_from_view
from mooring.api.views.meta import LabelSelectorView
from mooring.api.views.storage import StorageCapacity
from mooring.explain.results import CapacityReport
from mooring.explain.volume_candidates import quantity_text
from mooring.volumes.capacity import SegmentsByLabel, limit_of
from mooring.volumes.decider import Provisioners
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.shortage import readable_size

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
#: No object at all comes where the nearest would have been.
_RANK: Final = {problem: rank for rank, problem in enumerate(_ORDER)} | {MISSING: len(_ORDER) - 1}

#: How many objects are named per claim and node.
MAX_LISTED: Final = 5


class CapacityReports:
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

    def looked_at(self, needs: ClaimRequirements) -> bool:
        return self._provisioners.tracks_capacity(needs)

    def for_claim(
        self, needs: ClaimRequirements, together: Sequence[ClaimRequirements], labels: Mapping[str, str]
    ) -> tuple[CapacityReport, ...]:
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
        return tuple(sorted(here, key=lambda room: (_RANK[room.problem], room.capacity))[:MAX_LISTED])

    def _judged(
        self, found: StorageCapacity, needs: ClaimRequirements, together: Sequence[ClaimRequirements]
    ) -> CapacityReport:
        problem, detail, missing = self._problem(found, needs, together)
        room = self._provisioners.capacity.segment(found.key)
        return CapacityReport(
            found.key,
            problem,
            f"{detail} (since {self._ages[found.key]})" if found.key in self._ages else detail,
            segment_text(found.node_topology),
            readable_size(missing) if missing else "",
            missing,
            0 if room is None else min(room.limit, room.available_to_one_volume),
        )

    def _problem(
        self, found: StorageCapacity, needs: ClaimRequirements, together: Sequence[ClaimRequirements]
    ) -> tuple[str, str, int]:
        """Which one, in words, and how many bytes more would have been enough."""
        try:
            limit, asked = limit_of(found), quantity.to_bytes(needs.claim.request)
        except QuantityError as problem:
            return UNREADABLE, f"has an invalid quantity: {problem}", 0
        if limit is None:
            return NO_FIGURE, "reports neither capacity nor maximumVolumeSize", 0
        figures = figures_text(found)
        wanted = f"{readable_size(asked)} requested"
        if not limit and asked:
            return ZERO, f"reports {figures}, {wanted}", asked
        if limit < asked and found.capacity is not None and quantity.to_bytes(found.capacity) >= asked:
            return MAXIMUM, f"reports {figures}, {wanted}: no volume may be larger than {readable_size(limit)}", 0
        if limit < asked:
            return TOO_SMALL, f"reports {figures}, {wanted}: {readable_size(asked - limit)} short", asked - limit
        room = self._provisioners.capacity.segment(found.key)
        enough = ("", f"reports {figures}, {wanted}", 0)
        if room is None or not room.additive:
            return enough
        in_all = sum(quantity.to_bytes(each.claim.request) for each in together)
        left = f"{readable_size(room.free)} less {readable_size(room.charged)} in flight"
        if room.charged and asked > room.available_to_one_volume:
            short = asked - room.unused
            return IN_FLIGHT, f"reports {left}, {wanted}: {readable_size(short)} short", short
        if len(together) > 1 and in_all > room.left:
            names = ", ".join(each.claim.name for each in together)
            short = in_all - room.left
            asked_by = f"{readable_size(in_all)} requested by {names} together"
            return TOGETHER, f"reports {left}, {asked_by}: {readable_size(short)} short", short
        return enough

    def _none(self, needs: ClaimRequirements, found: int) -> CapacityReport:
        name = needs.storage_class
        others = f"{found} for other segments" if found > 1 else "one for another segment"
        which = f"of class {name} for this node, only {others}" if found else f"for class {name}"
        driver = self._provisioners.provisioner(name)
        return CapacityReport("", MISSING, f"driver {driver} has published no CSIStorageCapacity {which}")


class _Reports:
    """The capacity objects of one class: a node's own are found by its labels, not by looking at all of them."""

    def __init__(self) -> None:
        self._all: dict[str, StorageCapacity] = {}
        self._segments = SegmentsByLabel()
        #: Those that speak of no node.
        self.placeless: list[StorageCapacity] = []
        self._misplaced: dict[str, CapacityReport] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, found: StorageCapacity) -> None:
        self._all[found.key] = found
        if found.node_topology is None:
            self.placeless.append(found)
        elif (selector := _selector(found)) is not None:
            asked = selector.requirements
            self._segments.add(NodeSelector((NodeSelectorTerm(asked),)) if asked else None, found.key)

    def at(self, labels: Mapping[str, str]) -> dict[str, StorageCapacity]:
        """By key, those for a node with these labels."""
        return {key: self._all[key] for key in sorted(self._segments.at(labels))}

    def elsewhere(self, at_hand: Mapping[str, StorageCapacity]) -> Iterator[CapacityReport]:
        """As many of the others as are ever named, the nearest to being of use among them."""
        others = (each for key, each in self._all.items() if key not in at_hand and each.node_topology is not None)
        for each in (*self.placeless[:MAX_LISTED], *islice(others, MAX_LISTED)):
            if each.key not in self._misplaced:
                self._misplaced[each.key] = _misplaced(each)
            yield self._misplaced[each.key]


def capacity_at_node(capacities: Iterable[StorageCapacity], labels: Mapping[str, str]) -> tuple[CapacityReport, ...]:
    """The capacity reported for a node with these labels."""
    return tuple(
        CapacityReport(
            each.key, "", f"class {each.storage_class_name}: {figures_text(each)}", segment_text(each.node_topology)
        )
        for each in sorted(capacities, key=lambda one: (one.storage_class_name, one.key))
        if (selector := _selector(each)) is not None and selector.matches(labels)
    )


def _misplaced(found: StorageCapacity) -> CapacityReport:
    if found.node_topology is None:
        return CapacityReport(
            found.key, NO_TOPOLOGY, f"has no nodeTopology, so no node can use its {figures_text(found)}"
        )
    segment = segment_text(found.node_topology)
    return CapacityReport(found.key, ELSEWHERE, f"is for {segment}, reports {figures_text(found)}", segment)


def figures_text(found: StorageCapacity) -> str:
    """As the object says them; `maximumVolumeSize` first, since it decides where it is given."""
    if found.maximum_volume_size is None:
        return "nothing" if found.capacity is None else quantity_text(found.capacity)
    largest = f"maximumVolumeSize {quantity_text(found.maximum_volume_size)}"
    return largest if found.capacity is None else f"{largest} of {quantity_text(found.capacity)}"


def segment_text(view: LabelSelectorView | None) -> str:
    if view is None:
        return "nowhere"
    try:
        return str(label_selector_from_view(view)) or "everywhere"
    except SelectorError as problem:
        return f"nowhere ({problem})"


def _selector(found: StorageCapacity) -> LabelSelector | None:
    """None for an invalid one: no node for the scheduler as well."""
    try:
        return label_selector_from_view(found.node_topology)
    except SelectorError:
        return None
