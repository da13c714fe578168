"""What nodes carry, such as taints: every mark that some node has, with the nodes that have it.

Part of the snapshot. Few marks on many nodes, so plugins ask per mark for all nodes at once. It knows slots, and
nothing of what a mark means.
"""

from collections.abc import ItemsView
from typing import Generic, TypeVar

from mooring.volumes.nodeset import EMPTY, NodeSet

M = TypeVar("M")


class Marks(Generic[M]):
    def __init__(self) -> None:
        self._nodes: dict[M, NodeSet] = {}
        self._listed: dict[int, tuple[M, ...]] = {}

    def put(self, slot: int, marks: tuple[M, ...]) -> None:
        """The node in this slot carries these; none once it is gone. A mark listed twice is one."""
        bit = 1 << slot
        for mark in self._listed.pop(slot, ()):
            self._nodes[mark] &= ~bit
            if not self._nodes[mark]:
                del self._nodes[mark]
        unique = tuple(dict.fromkeys(marks))
        for mark in unique:
            self._nodes[mark] = self._nodes.get(mark, EMPTY) | bit
        if unique:
            self._listed[slot] = unique

    def items(self) -> ItemsView[M, NodeSet]:
        return self._nodes.items()

    def having(self, mark: M) -> NodeSet:
        return self._nodes.get(mark, EMPTY)
