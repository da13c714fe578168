"""A tally: how many pods of some kind are on each node. What the snapshot's indexes are made of."""

from collections.abc import Iterable

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


def joined(tallies: Iterable[Tally]) -> Tally:
    """All of them together, as a tally of its own."""
    whole = Tally()
    for tally in tallies:
        whole.nodes |= tally.nodes
        if not whole.counts:
            whole.counts = dict(tally.counts)
            continue
        for slot, count in tally.counts.items():
            whole.counts[slot] = whole.counts.get(slot, 0) + count
    return whole
