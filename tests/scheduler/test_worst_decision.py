"""No cluster makes a decision much dearer than an ordinary one: calls are counted while nodes double.

The clusters are those of `bench/adversarial_clusters.py`; `bench/worst_decision.py` measures the time at 5,000 nodes.
What is counted grows with what a decision walks over one by one. Where it may walk at all is said in `WALKS`, with the
calls per node; everything else is answered for all nodes at once.
"""

import random
from collections.abc import Callable
from functools import lru_cache
from statistics import median

import pytest
from bench.adversarial_clusters import ADVERSARIAL, ORDINARY, Shape

from builders.counting import calls_of
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle
from mooring.scheduler.registry import DEFAULT

pytestmark = [pytest.mark.req("T29"), pytest.mark.level("b")]

NODES = 120
#: Calls of functions that one more node may cost: each node's pods carry something that no other's do.
WALKS = {
    "a required term of its own on every pod": 3.0,
    "a preferred term of its own on every pod": 3.0,
    "one disk on every node": 3.0,
}


def decision(shape: Shape) -> int:
    """The third of three: those before fill what is kept between them."""

    def decide() -> None:
        attempt = Cycle(next(shape.pods), shape.snapshot)
        found = cycle.run(attempt, DEFAULT, random.Random(0), nominations=shape.nominations)
        if found.node:
            cycle.unreserve(shape.snapshot, cycle.reserve(attempt, DEFAULT, found.node))

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
