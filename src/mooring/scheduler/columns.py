"""Resources of all nodes as NumPy columns: one row per resource, one column per node slot.

The numeric half of the snapshot. A question about all nodes is one vector operation, which pays from about 75 nodes
on and is ten times a Python loop at 5,000; (resource, slot) in float64 is the fastest of the layouts tried, and
exact below 2^53. It knows slots, not names or pods.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api import quantity
from mooring.api.pod_requests import CPU, MEMORY, PODS, Requests, whole
from mooring.api.views.meta import Amount

Vector = npt.NDArray[np.float64]

_FIRST_SLOTS: Final = 64
_FIRST_ROWS: Final = 8


class ResourceColumns:
    """What nodes offer and what the pods on them were promised.

    Slots of nodes that are gone read as zero, so that they can be handed out again.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {PODS: 0, CPU: 1, MEMORY: 2}
        self._allocatable: Vector = np.zeros((_FIRST_ROWS, _FIRST_SLOTS))
        self._requested: Vector = np.zeros((_FIRST_ROWS, _FIRST_SLOTS))
        #: CPU and memory as nodes are compared by: containers that ask for nothing still weigh something.
        self._scored: Vector = np.zeros((2, _FIRST_SLOTS))
        self._width = 0

    @property
    def width(self) -> int:
        """How many slots every vector has: up to the highest that a node ever had, as the topology counts them."""
        return self._width

    def allocatable(self, resource: str) -> Vector:
        return self._vector(self._allocatable, resource)

    def requested(self, resource: str) -> Vector:
        return self._vector(self._requested, resource)

    @property
    def scored_cpu(self) -> Vector:
        cpu: Vector = self._scored[0, : self._width]
        return cpu

    @property
    def scored_memory(self) -> Vector:
        memory: Vector = self._scored[1, : self._width]
        return memory

    def offer(self, slot: int, allocatable: Mapping[str, Amount]) -> None:
        """What the node in a slot offers from now on. Raises QuantityError, changing nothing, for a bad amount."""
        amounts = {name: whole(name, quantity.to_milli(amount)) for name, amount in allocatable.items()}
        self._reach(slot)
        self._allocatable[:, slot] = 0
        for name, amount in amounts.items():
            row = self._row(name)
            self._allocatable[row, slot] = amount

    def charge(self, slot: int, requests: Requests, sign: int) -> None:
        """Promise a pod's requests to it (`sign` 1), or take the promise back (-1)."""
        self._reach(slot)
        self._requested[self._rows[PODS], slot] += sign
        for name, amount in requests.amounts.items():
            row = self._row(name)
            self._requested[row, slot] += sign * amount
        self._scored[0, slot] += sign * requests.scored_cpu
        self._scored[1, slot] += sign * requests.scored_memory

    def shift(self, other: "ResourceColumns", sign: int) -> None:
        """Count all that others were promised here as well (`sign` 1), or no longer (-1)."""
        width = min(other.width, self._width)
        for name, row in other._rows.items():
            own = self._row(name)
            self._requested[own, :width] += sign * other._requested[row, :width]
        self._scored[:, :width] += sign * other._scored[:, :width]

    def clear(self, slot: int) -> None:
        """The node is gone, and all that was promised on it."""
        self._allocatable[:, slot] = 0
        self._requested[:, slot] = 0
        self._scored[:, slot] = 0

    def _vector(self, columns: Vector, resource: str) -> Vector:
        """A resource that no node offers and no pod was promised is zero everywhere."""
        row = self._rows.get(resource)
        vector: Vector = np.zeros(self._width) if row is None else columns[row, : self._width]
        return vector

    def _row(self, name: str) -> int:
        """The row of a resource; may replace the arrays, so take it before them."""
        row = self._rows.setdefault(name, len(self._rows))
        if row >= self._allocatable.shape[0]:
            self._grow(rows=2 * row, slots=self._allocatable.shape[1])
        return row

    def _reach(self, slot: int) -> None:
        self._width = max(self._width, slot + 1)
        if slot >= self._allocatable.shape[1]:
            self._grow(rows=self._allocatable.shape[0], slots=2 * slot)

    def _grow(self, *, rows: int, slots: int) -> None:
        self._allocatable = _enlarged(self._allocatable, rows, slots)
        self._requested = _enlarged(self._requested, rows, slots)
        self._scored = _enlarged(self._scored, 2, slots)


def _enlarged(columns: Vector, rows: int, slots: int) -> Vector:
    larger = np.zeros((rows, slots))
    larger[: columns.shape[0], : columns.shape[1]] = columns
    return larger
