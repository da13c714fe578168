"""How well volumes would fit a pod's unbound claims, on all nodes at once: for comparing nodes, not for binding.

Follows the choice `assignment` makes where claims do not compete in odd ways: going up in size, each claim takes the
smallest volume that is left. Where a claim has to step aside for another, the plan for the chosen node may differ from
what is estimated here. Of volumes that few nodes reach, the `columns.DEPTH` largest of a node are looked at.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mooring.volumes import nodeset
from mooring.volumes.assignment import Sized
from mooring.volumes.columns import Columns, Group, Sizes, cell
from mooring.volumes.matching import Needs
from mooring.volumes.nodeset import NodeSet

#: On nodes where no volume is left for a claim.
NO_VOLUME: Final = -1

_NEVER: Final = np.iinfo(np.int64).max


class Fit(NamedTuple):
    """What one claim would get, in bytes by slot."""

    claim: Needs
    requested: int
    #: The size of the volume it would take; NO_VOLUME where one would have to be made.
    sizes: Sizes
    #: What is free where one would be made; None where nobody keeps count.
    free: Sizes | None = None


class _Offer(Protocol):
    """Volumes in order of size, from which each node takes the smallest that does and is left."""

    def smallest(self, size: int, asked_before: int) -> Sizes:
        """By slot, the smallest volume of at least `size` that the node has not taken yet."""
        ...

    def take(self, where: npt.NDArray[np.bool_]) -> None:
        """These nodes take what `smallest` last offered."""
        ...


class _Own:
    """Volumes that few nodes reach: a column per node, descending."""

    def __init__(self, columns: Columns, width: int) -> None:
        self._cells = columns.cells(width)
        self._slots = np.arange(width)
        #: The row above which nothing is taken yet.
        self._below = np.full(width, len(self._cells), dtype=np.intp)
        self._row = self._below

    def smallest(self, size: int, asked_before: int) -> Sizes:
        sufficient = np.count_nonzero(self._cells >= cell(size, up=True), axis=0)
        self._row = np.minimum(sufficient, self._below) - 1
        found: Sizes = np.where(self._row >= 0, self._cells[self._row, self._slots], _NEVER)
        return found

    def take(self, where: npt.NDArray[np.bool_]) -> None:
        self._below = np.where(where, self._row, self._below)


class _Shared:
    """Volumes that many nodes reach: one list, ascending, and each node's place in it."""

    def __init__(self, group: Group, width: int) -> None:
        self._volumes = group.volumes
        self._reach = nodeset.to_mask(group.nodes, width)
        self._taken = np.full(width, -1, dtype=np.int64)
        self._place = self._taken

    def smallest(self, size: int, asked_before: int) -> Sizes:
        first = bisect_left(self._volumes, Sized(size, ""))
        # Nobody is further on than the claims asked before allow.
        near = [cell(volume.size) for volume in self._volumes[first : first + asked_before + 1]]
        self._place = np.maximum(self._taken + 1, first)
        offset = np.minimum(self._place - first, len(near))
        found: Sizes = np.where(self._reach, np.array([*near, _NEVER], dtype=np.int64)[offset], _NEVER)
        return found

    def take(self, where: npt.NDArray[np.bool_]) -> None:
        self._taken = np.where(where, self._place, self._taken)


class Offers:
    """What is on offer while the claims of one pod are looked at one after the other, the smallest first."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._offers: dict[Columns, list[_Offer]] = {}
        self._asked = 0

    def reserved(self, size: int, nodes: NodeSet) -> Sizes:
        """What a claim gets for which a volume is reserved."""
        return np.where(nodeset.to_mask(nodes, self._width), cell(size), NO_VOLUME)

    def best(self, size: int, serving: Sequence[Columns]) -> Sizes:
        """By slot, the smallest volume for a claim of this size, which is taken then; NO_VOLUME where there is none."""
        offers = [offer for columns in serving for offer in self._of(columns)]
        best: Sizes = np.full(self._width, _NEVER, dtype=np.int64)
        found = [offer.smallest(size, self._asked) for offer in offers]
        for sizes in found:
            best = np.minimum(best, sizes)
        left = best != _NEVER
        for offer, sizes in zip(offers, found, strict=True):
            chosen = left & (sizes == best)
            offer.take(chosen)
            left &= ~chosen
        self._asked += 1
        best[best == _NEVER] = NO_VOLUME
        return best

    def _of(self, columns: Columns) -> list[_Offer]:
        if columns not in self._offers:
            shared: list[_Offer] = [_Shared(group, self._width) for group in columns.wide_groups]
            self._offers[columns] = [_Own(columns, self._width), *shared]
        return self._offers[columns]
