"""On which nodes claims of one class can each have a free volume of their own: for all nodes at once, and exactly.

Asked by `volume_index`. Hall's theorem: there is a volume for each claim if and only if every set of the claims finds
at least as many volumes, between them, as it has claims. Claims that ask alike and differ only in size need not be
tried in every combination: of these the largest few have the least to choose from. So a pod with two sizes of one sort
of claim takes two comparisons, and one with two sorts takes three. Pure; `columns` does the counting.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from mooring.api.label_selector import LabelSelector
from mooring.volumes import nodeset
from mooring.volumes.columns import Columns, Counts
from mooring.volumes.free_volumes import Offered, VolumeKind
from mooring.volumes.matching import Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.shape import Shape

MOST_SETS: Final = 256
"""Sets of claims that are tried. It takes more than eight claims of one class that all ask differently to exceed it."""


class Asked(NamedTuple):
    """A claim, and the driver its volume must be of; None for any, "" for a volume without one."""

    claim: Needs
    driver: str | None = None


class _Sort(NamedTuple):
    """Claims that differ only in size."""

    shape: Shape
    selector: LabelSelector | None
    driver: str | None
    #: Descending.
    sizes: list[int]

    def takes(self, kind: VolumeKind) -> bool:
        return self.driver in (None, kind.driver) and kind.shape.serves(self.shape)

    @property
    def telling(self) -> list[int]:
        """How many of the largest to try together: of equal sizes, all ask for the most."""
        sizes = self.sizes
        return [0, *(n for n in range(1, len(sizes) + 1) if n == len(sizes) or sizes[n] != sizes[n - 1])]


class _Set(NamedTuple):
    """Some claims: of each sort among them, the size that the smallest asks for."""

    sizes: list[tuple[_Sort, int]]
    claims: int


class TooManySets(Exception):
    """There are more sets of claims than are worth trying. On all nodes but `nodes` too few volumes are left for some
    of those that were."""

    def __init__(self, nodes: NodeSet) -> None:
        super().__init__()
        self.nodes = nodes


def feasible(asked: Iterable[Asked], offered: Offered, nodes: NodeSet, width: int) -> NodeSet:
    """Those of `nodes` on which each claim can have a volume of its own. Raises TooManySets."""
    exact = True
    for rivals in _rivals(_sorts(asked), offered):
        all_sets = math.prod(len(sort.telling) for sort in rivals) <= MOST_SETS
        exact &= all_sets
        for one in _sets(rivals) if all_sets else _telling_sets(rivals):
            if not nodes:
                return nodes
            nodes &= _enough(one, offered, width)
    if not exact:
        raise TooManySets(nodes)
    return nodes


def _sorts(asked: Iterable[Asked]) -> list[_Sort]:
    found: dict[tuple[Shape, LabelSelector | None, str | None], _Sort] = {}
    for claim, driver in sorted(asked, key=lambda one: one.claim.size, reverse=True):
        key = (claim.shape, claim.selector if claim.selects else None, driver)
        found.setdefault(key, _Sort(*key, [])).sizes.append(claim.size)
    return list(found.values())


def _rivals(sorts: Sequence[_Sort], offered: Offered) -> list[list[_Sort]]:
    """Sorts that could take each other's volumes, together. Others cannot get in each other's way."""
    parts: list[tuple[set[VolumeKind], list[_Sort]]] = []
    for sort in sorts:
        kinds, members = {kind for kind in offered.plain if sort.takes(kind)}, [sort]
        for part in [part for part in parts if part[0] & kinds]:
            parts.remove(part)
            kinds, members = kinds | part[0], [*part[1], *members]
        parts.append((kinds, members))
    return [members for _, members in parts]


def _sets(sorts: Sequence[_Sort]) -> Iterator[_Set]:
    for numbers in product(*(sort.telling for sort in sorts)):
        chosen = [(sort, sort.sizes[number - 1]) for sort, number in zip(sorts, numbers, strict=True) if number]
        if chosen:
            yield _Set(chosen, sum(numbers))


def _telling_sets(sorts: Sequence[_Sort]) -> Iterator[_Set]:
    """Those of `_sets` that usually decide: each sort for itself, and all claims together."""
    for sort in sorts:
        yield from _sets((sort,))
    yield _Set([(sort, sort.sizes[-1]) for sort in sorts], sum(len(sort.sizes) for sort in sorts))


def _enough(of: _Set, offered: Offered, width: int) -> NodeSet:
    """The nodes that reach at least as many volumes for a set of claims, between them, as it has claims."""
    terms = list(_terms(of, offered))
    if not terms:
        return EMPTY
    if len(terms) == 1:
        return terms[0].columns.at_least(terms[0].size, of.claims, width)
    counted: Counts = np.zeros(width, dtype=np.int64)
    for term in terms:
        counted += term.sign * term.columns.counts(term.size, of.claims, width)
    return nodeset.from_mask(counted >= of.claims)


class _Term(NamedTuple):
    sign: int
    columns: Columns
    size: int


def _terms(of: _Set, offered: Offered) -> Iterator[_Term]:
    """The volumes that some claim of a set may take, each counted once. Of those that a selector picks, the ones too
    small for the claims without selector come on top. Counts are cut off at the number of claims, which does no harm:
    wherever one is, there is enough."""
    least: dict[VolumeKind, int] = {}
    for kind, columns in offered.plain.items():
        sizes = [size for sort, size in of.sizes if sort.selector is None and sort.takes(kind)]
        if sizes:
            least[kind] = min(sizes)
            yield _Term(1, columns, least[kind])
    for (kind, matching), columns in offered.picked.items():
        sizes = [size for sort, size in of.sizes if sort.selector in matching and sort.takes(kind)]
        if sizes and (kind not in least or min(sizes) < least[kind]):
            yield _Term(1, columns, min(sizes))
            if kind in least:
                yield _Term(-1, columns, least[kind])
