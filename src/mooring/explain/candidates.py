"""The volumes that exist, looked at for one claim that gets none of them: which come nearest, and what each fails.

Below `claims`. The word on every pair of claim and volume is `volumes.matching`'s; here it is asked once per volume
and completed by the place, so that thousands of nodes cost about what one does.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from mooring.api.quantity import QuantityError
from mooring.api.views.volume import Volume, VolumeStatus
from mooring.explain import mismatches
from mooring.explain.verdicts import Candidate
from mooring.volumes import nodeset
from mooring.volumes.matching import AVAILABLE, Criterion, Needs, points_to
from mooring.volumes.nodeset import NodeSet

#: How many volumes are named per claim and node; the others are counted.
NAMED: Final = 10

UNREADABLE: Final = "has a size that cannot be understood"
NEEDED_ELSEWHERE: Final = "is needed for another claim of the pod"
#: Of a volume whose claim is gone and that lacks nothing else.
ONCE_CLEARED: Final = "would do once spec.claimRef is removed"

#: How far a volume came, in the order criteria are checked.
_REACHED: Final = {criterion: place for place, criterion in enumerate(Criterion)}


class Answer(NamedTuple):
    """The volumes that come nearest on a node, its own first, and how many of all fail which criterion."""

    candidates: tuple[Candidate, ...]
    failed: dict[str, int]


class _Judged(NamedTuple):
    """A volume that does not do for a claim, whatever the node, or might where it can be reached."""

    needs: Needs
    volume: Volume
    criterion: Criterion | None
    #: Where that is not the criterion's own.
    reason: str = ""
    #: It is Released, and would do if it were not, as far as it can be reached.
    cleared: bool = False

    @property
    def failed(self) -> str:
        """The name of the criterion, "" where there is none."""
        return "" if self.criterion is None else mismatches.told(self.volume, self.criterion)[0]

    @property
    def candidate(self) -> Candidate:
        """With the figures: worked out only for the few volumes that are named."""
        if self.criterion is None:
            return Candidate(self.volume.name, "", NEEDED_ELSEWHERE)
        name, words = mismatches.told(self.volume, self.criterion)
        if self.reason:
            return Candidate(self.volume.name, name, self.reason, mismatches.amount(self.volume.size))
        detail = mismatches.detail(self.needs, self.volume, self.criterion)
        if self.cleared:
            return Candidate(self.volume.name, name, words, f"{detail}; {ONCE_CLEARED}", once_cleared=True)
        return Candidate(self.volume.name, name, words, detail)

    @property
    def depends_on_place(self) -> bool:
        """Access modes are checked after the place, everything else before it."""
        return self.criterion in (None, Criterion.ACCESS_MODES)

    @property
    def elsewhere(self) -> "_Judged":
        """The same on a node that cannot reach it."""
        return self._replace(criterion=Criterion.AFFINITY) if self.depends_on_place else self._replace(cleared=False)

    @property
    def nearness(self) -> tuple[int, str]:
        met = len(_REACHED) if self.criterion is None or self.cleared else _REACHED[self.criterion]
        return (-met, self.volume.name)


class Candidates:
    """All volumes, judged for one claim once for all nodes. Nodes that reach the same volumes get the same answer."""

    def __init__(self, needs: Needs, volumes: Sequence[Volume], reaching: Callable[[Volume], NodeSet]) -> None:
        self._fixed: list[_Judged] = []
        self._placed: list[_Judged] = []
        self._reached_from: defaultdict[NodeSet, list[_Judged]] = defaultdict(list)
        self._reaching: defaultdict[int, list[NodeSet]] = defaultdict(list)
        self._answers: dict[tuple[NodeSet, ...], Answer] = {}
        for volume in _of_the_class(needs, volumes):
            judged = _judged(needs, volume)
            (self._placed if judged.depends_on_place else self._fixed).append(judged)
            self._reached_from[reaching(volume)].append(judged)
        for nodes in self._reached_from:
            for slot in nodeset.slots(nodes):
                self._reaching[slot].append(nodes)
        self._fixed.sort(key=lambda judged: judged.nearness)
        self._counted = Counter(judged.failed for judged in self._fixed)

    def on(self, slot: int) -> Answer:
        """What there is to say about the node in that slot."""
        sets = tuple(self._reaching.get(slot, ()))
        if sets not in self._answers:
            self._answers[sets] = self._answer([judged for nodes in sets for judged in self._reached_from[nodes]])
        return self._answers[sets]

    def _answer(self, here: list[_Judged]) -> Answer:
        near = {judged.volume.name for judged in here}
        elsewhere = (judged.elsewhere for judged in chain(self._placed, self._fixed) if judged.volume.name not in near)
        named = [*sorted(here, key=lambda judged: judged.nearness)[:NAMED], *islice(elsewhere, NAMED)][:NAMED]
        placed = [judged.failed for judged in here if judged.depends_on_place]
        failed = self._counted + Counter(placed)
        failed[Criterion.AFFINITY.name] = len(self._placed) - len(placed)
        counts = {criterion: count for criterion, count in failed.items() if criterion and count}
        return Answer(tuple(judged.candidate for judged in named), counts)


def anywhere(needs: Needs, volumes: Iterable[Volume]) -> Answer:
    """The same for a claim that is bound without regard to nodes: which volumes come nearest, and what all fail."""
    judged = [_judged(needs, volume) for volume in _of_the_class(needs, volumes)]
    counts = Counter(one.failed for one in judged)
    nearest = heapq.nsmallest(NAMED, judged, key=lambda one: one.nearness)
    return Answer(tuple(one.candidate for one in nearest), {name: count for name, count in counts.items() if name})


def _of_the_class(needs: Needs, volumes: Iterable[Volume]) -> Sequence[Volume]:
    """The volumes of the claim's class, or for the claim itself; all others where there are none, which says it all."""
    given = list(volumes)
    return [each for each in given if _is_of_the_class(needs, each)] or given


def _is_of_the_class(needs: Needs, volume: Volume) -> bool:
    return volume.storage_class == needs.storage_class or points_to(volume, needs.claim)


def _judged(needs: Needs, volume: Volume) -> _Judged:
    if not _is_of_the_class(needs, volume):
        # Whatever else is wrong with it, this comes first.
        return _Judged(needs, volume, Criterion.CLASS)
    try:
        criterion = needs.why_not(volume)
        would_do = volume.status.phase == mismatches.RELEASED and needs.why_not(cleared(volume)) is None
        return _Judged(needs, volume, criterion, cleared=would_do)
    except QuantityError:
        return _Judged(needs, volume, Criterion.SIZE, UNREADABLE)


def cleared(volume: Volume) -> Volume:
    """A Released volume as it would be for the taking again."""
    spec = msgspec.structs.replace(volume.spec, claim_ref=None)
    return msgspec.structs.replace(volume, spec=spec, status=VolumeStatus(AVAILABLE))
