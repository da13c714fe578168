"""No cluster makes a decision much dearer than an ordinary one: calls are counted while nodes double.

The clusters are those of `bench/adversarial_clusters.py`; `bench/worst_decision.py` measures the time at 5,000 nodes.
What is counted grows with what a decision walks over one by one. Where it may walk at all is said in `WALKS`, with the
calls per node; everything else is answered for all nodes at once.
"""

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from statistics import median

import pytest
from bench.adversarial_clusters import ADVERSARIAL, ORDINARY, Shape

from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.node_indexes import NodeCounts
from mooring.scheduler.snapshot.snapshot import RemovedPods
from support.builders.counting import calls_of

pytestmark = [pytest.mark.req("T29.cost"), pytest.mark.level("b")]

NODES = 120
#: Calls of functions that one more node may cost: each node's pods carry something that no other's do.
WALKS = {"one disk on every node": 3.0}


class WalkedCounts(dict[int, int]):
    """The counts of a tally; iterating over them is counted, since a loop in C calls nothing."""

    def __iter__(self) -> Iterator[int]:
        yield from super().__iter__()

    def keys(self) -> Iterator[int]:  # type: ignore[override]
        yield from super().keys()

    def values(self) -> Iterator[int]:  # type: ignore[override]
        yield from super().values()

    def items(self) -> Iterator[tuple[int, int]]:  # type: ignore[override]
        yield from super().items()


@pytest.fixture(autouse=True)
def _walks_over_tallies_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(tally: NodeCounts) -> None:
        build(tally)
        tally.counts = WalkedCounts()

    build = NodeCounts.__init__
    monkeypatch.setattr(NodeCounts, "__init__", empty)


def decision(shape: Shape) -> int:
    """The third of three: those before fill what is kept between them, and a pod that leaves its node and comes back
    changes it."""
    changing = shape.snapshot.pods_on(shape.snapshot.names[1])[-1:]

    def decide() -> None:
        with RemovedPods(shape.snapshot, changing):
            pass
        attempt = CycleState(next(shape.pods), shape.snapshot)
        found = cycle.run_cycle(attempt, DEFAULT, random.Random(0), nominator=shape.nominator)
        if found.node:
            shape.snapshot.volumes.restore(cycle.reserve(attempt, DEFAULT, found.node))

    decide()
    decide()
    return calls_of(decide)


@lru_cache
def ordinary() -> float:
    return median(decision(build(NODES)) for build in ORDINARY.values())


@pytest.mark.parametrize(("name", "build"), [pytest.param(name, build, id=name) for name, build in ADVERSARIAL.items()])
def test_twice_the_nodes_cost_hardly_more_calls(name: str, build: Callable[[int], Shape]) -> None:
    few, many = decision(build(NODES)), decision(build(2 * NODES))

    assert many <= 1.1 * few + WALKS.get(name, 0.1) * NODES
    assert few <= 10 * ordinary() + WALKS.get(name, 0.0) * NODES
