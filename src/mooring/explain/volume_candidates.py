"""Existing volumes evaluated for one claim: the nearest candidates, and the first criterion each fails.

`volumes.matching` decides per pair of claim and volume; it is asked once per volume, and node affinity is added per
node, so that thousands of nodes cost about as much as one.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from mooring.api import quantity
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.meta import Amount
from mooring.api.views.storage import Claim, Volume, VolumeStatus
from mooring.explain.results import Candidate
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import objects
from mooring.volumes.matching import AVAILABLE, ClaimRequirements, Criterion, is_reserved_for, requirements_of
from mooring.volumes.shortage import topology_text
from mooring.volumes.topology import NodeSet, TopologyIndex, affinity_of, slots_of

RELEASED: Final = "Released"

#: How volumes are counted by what they fail.
COUNTED: Final[Mapping[str, str]] = {
    "RESERVED": "bound to other claims",
    "HELD": "held for other claims",
    "ROLLING_BACK": "being rolled back",
    "RELEASED": "Released",
    "SIZE": "too small",
    "MODE": "of another volumeMode",
    "ATTRIBUTES_CLASS": "of another volumeAttributesClassName",
    "DELETING": "being deleted",
    "PHASE": "not Available",
    "SELECTOR": "not matched by the claim's selector",
    "CLASS": "of other classes",
    "AFFINITY": "not accessible from the node",
    "ACCESS_MODES": "without the access modes",
}


def mismatch_text(volume: Volume, criterion: Criterion) -> tuple[str, str]:
    """The name and the words of a criterion; a volume that is taken is told by how it is."""
    if criterion is Criterion.RESERVED:
        match observed_hold_state(volume):
            case HoldState.HELD:
                return "HELD", "is held"
            case HoldState.ROLLING_BACK:
                return "ROLLING_BACK", "is being rolled back"
            case _ if volume.status.phase == RELEASED:
                return "RELEASED", "is Released: its claim was deleted, and its claimRef remains"
    return criterion.name, criterion.value


def observed_hold_state(volume: Volume) -> HoldState:
    """Where holds are kept is a setting that no object shows; their marks tell them from other references."""
    reference = volume.spec.claim_ref
    if reference is None or objects.CLAIM not in volume.metadata.annotations:
        return HoldState.FREE if reference is None else HoldState.COMMITTED
    return hold_state(volume, hold_namespace=reference.namespace)


def is_held(volume: Volume) -> bool:
    """Whether a volume is held for a claim, or was and is being rolled back."""
    return observed_hold_state(volume) in (HoldState.HELD, HoldState.ROLLING_BACK)


def mismatch_detail(needs: ClaimRequirements, volume: Volume, criterion: Criterion) -> str:
    """What was requested and what the volume has."""
    asked, has, labels = needs.claim.spec, volume.spec, volume.metadata.labels
    match criterion:
        case Criterion.RESERVED:
            return _reserved(volume)
        case Criterion.SIZE:
            return f"{quantity_text(volume.size)}, {quantity_text(needs.claim.request)} requested"
        case Criterion.MODE:
            return f"{has.volume_mode}, {asked.volume_mode} requested"
        case Criterion.ATTRIBUTES_CLASS:
            wanted = asked.volume_attributes_class_name or "none"
            return f"{has.volume_attributes_class_name or 'none'}, {wanted} requested"
        case Criterion.DELETING:
            return f"since {volume.metadata.deletion_timestamp}"
        case Criterion.PHASE:
            message = volume.status.message
            return (volume.status.phase or "no phase yet") + (f": {message}" if message else "")
        case Criterion.SELECTOR:
            required = () if needs.selector is None else needs.selector.requirements
            failing = [one for one in required if not one.matches(labels)]
            keys = dict.fromkeys(one.key for one in failing)
            found = [f"{key} is {labels[key]}" if key in labels else f"has no {key}" for key in keys]
            return f"{', '.join(map(str, failing))} requested, {', '.join(found)}"
        case Criterion.CLASS:
            return f"{volume.storage_class or 'none'}, {needs.storage_class or 'none'} requested"
        case Criterion.AFFINITY:
            return f"only from {topology_text(affinity_of(volume))}"
        case Criterion.ACCESS_MODES:
            lacking = sorted(set(asked.access_modes).difference(has.access_modes))
            return f"{', '.join(has.access_modes) or 'none'}, not {', '.join(lacking)}"


def _reserved(volume: Volume) -> str:
    notes, reference = volume.metadata.annotations, volume.spec.claim_ref
    assert reference is not None
    match observed_hold_state(volume):
        case HoldState.HELD:
            return f"for {notes[objects.CLAIM]} on {notes.get(objects.NODE, '?')} since {notes.get(objects.SINCE, '?')}"
        case HoldState.ROLLING_BACK:
            return f"provisioned for {notes[objects.CLAIM]}: {notes.get(objects.REASON, 'no reason given')}"
        case _ if volume.status.phase == RELEASED:
            policy = volume.spec.persistent_volume_reclaim_policy
            return f"was bound to {reference.namespace}/{reference.name}, reclaim policy {policy}"
    failed = f", {volume.status.phase}: {volume.status.message}" if volume.status.message else ""
    return f"for {reference.namespace}/{reference.name}{failed}"


def needs_of(claim: Claim) -> ClaimRequirements | str:
    """What a claim requires of a volume, or why that is invalid."""
    try:
        return requirements_of(claim)
    except (SelectorError, QuantityError) as problem:
        return str(problem)


def quantity_text(given: Amount) -> str:
    """As Kubernetes writes it; what is no amount is shown as it is."""
    try:
        return quantity.canonical(given)
    except QuantityError:
        return str(given)


#: How many volumes are named per claim and node; the others are counted.
MAX_LISTED: Final = 10

UNREADABLE: Final = "has an invalid size"
NEEDED_ELSEWHERE: Final = "is needed for another claim of the pod"
#: Of a volume whose claim is gone and that lacks nothing else.
ONCE_CLEARED: Final = "would match once spec.claimRef is removed"

#: How far a volume came, in the order criteria are checked.
_REACHED: Final = {criterion: place for place, criterion in enumerate(Criterion)}


class CandidateSummary(NamedTuple):
    """The volumes that come nearest on a node, its own first, and how many of all fail which criterion."""

    candidates: tuple[Candidate, ...]
    failed: dict[str, int]


class _EvaluatedVolume(NamedTuple):
    """A volume that does not do for a claim, whatever the node, or might where it can be reached."""

    needs: ClaimRequirements
    volume: Volume
    criterion: Criterion | None
    #: Where that is not the criterion's own.
    reason: str = ""
    #: It is Released, and would do if it were not, as far as it can be reached.
    cleared: bool = False

    @property
    def failed(self) -> str:
        """The name of the criterion, "" where there is none."""
        return "" if self.criterion is None else mismatch_text(self.volume, self.criterion)[0]

    @property
    def candidate(self) -> Candidate:
        """With the figures: worked out only for the few volumes that are named."""
        if self.criterion is None:
            return Candidate(self.volume.name, "", NEEDED_ELSEWHERE)
        name, words = mismatch_text(self.volume, self.criterion)
        if self.reason:
            return Candidate(self.volume.name, name, self.reason, quantity_text(self.volume.size))
        detail = mismatch_detail(self.needs, self.volume, self.criterion)
        if self.cleared:
            return Candidate(self.volume.name, name, words, f"{detail}; {ONCE_CLEARED}", once_cleared=True)
        return Candidate(self.volume.name, name, words, detail)

    @property
    def depends_on_place(self) -> bool:
        """Access modes are checked after the place, everything else before it."""
        return self.criterion in (None, Criterion.ACCESS_MODES)

    @property
    def elsewhere(self) -> "_EvaluatedVolume":
        """The same on a node that cannot reach it."""
        return self._replace(criterion=Criterion.AFFINITY) if self.depends_on_place else self._replace(cleared=False)

    @property
    def sort_key(self) -> tuple[int, str]:
        met = len(_REACHED) if self.criterion is None or self.cleared else _REACHED[self.criterion]
        return (-met, self.volume.name)


class Candidates:
    """All volumes, judged for one claim once for all nodes. Nodes that reach the same volumes get the same answer."""

    def __init__(self, needs: ClaimRequirements, volumes: Sequence[Volume], topology: TopologyIndex) -> None:
        self._fixed: list[_EvaluatedVolume] = []
        self._placed: list[_EvaluatedVolume] = []
        self._reached_from: defaultdict[NodeSet, list[_EvaluatedVolume]] = defaultdict(list)
        self._reaching: defaultdict[int, list[NodeSet]] = defaultdict(list)
        self._answers: dict[tuple[NodeSet, ...], CandidateSummary] = {}
        for volume in _of_the_class(needs, volumes):
            judged = _judged(needs, volume)
            (self._placed if judged.depends_on_place else self._fixed).append(judged)
            self._reached_from[topology.matching(affinity_of(volume))].append(judged)
        for nodes in self._reached_from:
            for slot in slots_of(nodes):
                self._reaching[slot].append(nodes)
        self._fixed.sort(key=lambda judged: judged.sort_key)
        self._counted = Counter(judged.failed for judged in self._fixed)

    def on(self, slot: int) -> CandidateSummary:
        """What there is to say about the node in that slot."""
        sets = tuple(self._reaching.get(slot, ()))
        if sets not in self._answers:
            self._answers[sets] = self._answer([judged for nodes in sets for judged in self._reached_from[nodes]])
        return self._answers[sets]

    def _answer(self, here: list[_EvaluatedVolume]) -> CandidateSummary:
        near = {judged.volume.name for judged in here}
        elsewhere = (judged.elsewhere for judged in chain(self._placed, self._fixed) if judged.volume.name not in near)
        named = [*sorted(here, key=lambda judged: judged.sort_key)[:MAX_LISTED], *islice(elsewhere, MAX_LISTED)][
            :MAX_LISTED
        ]
        placed = [judged.failed for judged in here if judged.depends_on_place]
        failed = self._counted + Counter(placed)
        failed[Criterion.AFFINITY.name] = len(self._placed) - len(placed)
        counts = {criterion: count for criterion, count in failed.items() if criterion and count}
        return CandidateSummary(tuple(judged.candidate for judged in named), counts)


def candidate_for(needs: ClaimRequirements, volume: Volume) -> Candidate:
    """One volume for a claim that is bound without regard to nodes."""
    return _judged(needs, volume).candidate


def candidates_anywhere(needs: ClaimRequirements, volumes: Iterable[Volume]) -> CandidateSummary:
    """The same for many: which come nearest, and what all fail."""
    judged = [_judged(needs, volume) for volume in _of_the_class(needs, volumes)]
    counts = Counter(one.failed for one in judged)
    nearest = heapq.nsmallest(MAX_LISTED, judged, key=lambda one: one.sort_key)
    return CandidateSummary(
        tuple(one.candidate for one in nearest), {name: count for name, count in counts.items() if name}
    )


def _of_the_class(needs: ClaimRequirements, volumes: Iterable[Volume]) -> Sequence[Volume]:
    """The volumes of the claim's class, or for the claim itself; all others where there are none, which says it all."""
    given = list(volumes)
    return [each for each in given if _is_of_the_class(needs, each)] or given


def _is_of_the_class(needs: ClaimRequirements, volume: Volume) -> bool:
    return volume.storage_class == needs.storage_class or is_reserved_for(volume, needs.claim)


def _judged(needs: ClaimRequirements, volume: Volume) -> _EvaluatedVolume:
    if not _is_of_the_class(needs, volume):
        # Whatever else is wrong with it, this comes first.
        return _EvaluatedVolume(needs, volume, Criterion.CLASS)
    try:
        criterion = needs.first_mismatch(volume)
        would_do = volume.status.phase == RELEASED and needs.first_mismatch(without_claim_ref(volume)) is None
        return _EvaluatedVolume(needs, volume, criterion, cleared=would_do)
    except QuantityError:
        return _EvaluatedVolume(needs, volume, Criterion.SIZE, UNREADABLE)


def without_claim_ref(volume: Volume) -> Volume:
    """A Released volume as it would be for the taking again."""
    spec = msgspec.structs.replace(volume.spec, claim_ref=None)
    return msgspec.structs.replace(volume, spec=spec, status=VolumeStatus(AVAILABLE))
