"""A tally: how many pods of some kind are on each node. What the snapshot's indexes are made of."""

from mooring.volumes.nodeset import EMPTY, NodeSet


class Tally:
    """Counts by slot; `nodes` are those with at least one."""

    __slots__ = ("counts", "nodes")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.nodes: NodeSet = EMPTY

    def add(self, slot: int, count: int) -> None:
        """So many more; fewer where the count is negative."""
        now = self.counts.get(slot, 0) + count
        if now:
            self.counts[slot] = now
            self.nodes |= 1 << slot
        else:
            del self.counts[slot]
            self.nodes &= ~(1 << slot)
