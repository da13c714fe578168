"""The ladder must count what a walk over all volumes counts, whatever was added, removed and moved."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import node_selector
from mooring.api.views.meta import NodeSelectorTermView
from mooring.volumes import columns as module
from mooring.volumes import nodeset
from mooring.volumes.affinity import Affinity
from mooring.volumes.assignment import Sized
from mooring.volumes.columns import Columns
from mooring.volumes.nodeset import NodeSet
from mooring.volumes.shape import exact_size

SLOTS = 8
ALL = (1 << SLOTS) - 1
AFFINITIES: tuple[Affinity, ...] = (
    None,
    node_selector.from_view([]),
    node_selector.from_view([NodeSelectorTermView()]),
)
SIZES = [exact_size(size) for size in ("0", "1", "1500m", "2", "1Gi", "9E", "800E")]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(AFFINITIES), st.sampled_from(SIZES)),
        st.tuples(st.just("remove"), st.integers(0, 20), st.none()),
        st.tuples(st.just("move"), st.sampled_from(AFFINITIES), st.integers(0, ALL)),
        st.tuples(st.just("ask"), st.none(), st.none()),
    ),
    max_size=20,
)


class Walked:
    """The same, without columns."""

    def __init__(self) -> None:
        self.nodes: dict[Affinity, NodeSet] = dict.fromkeys(AFFINITIES, ALL)
        self.volumes: list[tuple[Sized, Affinity]] = []

    def reached_from(self, slot: int) -> list[Sized]:
        return sorted(volume for volume, affinity in self.volumes if self.nodes[affinity] >> slot & 1)

    def at_least(self, size: int, count: int) -> NodeSet:
        enough = (sum(v.size >= size for v in self.reached_from(slot)) >= count for slot in range(SLOTS))
        return nodeset.of(slot for slot, yes in enumerate(enough) if yes)


@pytest.mark.req("T29", "T30")
@pytest.mark.level("u")
@pytest.mark.parametrize(("few", "depth"), [(4, 16), (2, 2), (0, 16), (8, 1)])
@given(steps=steps)
def test_ladders_count_as_a_walk_does(few: int, depth: int, steps: list[tuple[str, object, object]]) -> None:
    columns, walked = Columns(), Walked()
    with patch.object(module, "FEW", few), patch.object(module, "DEPTH", depth):
        for number, step in enumerate([*steps, ("ask", None, None)]):
            match step:
                case ("add", (None | node_selector.NodeSelector()) as affinity, int(size)):
                    volume = Sized(size, f"v{number}")
                    columns.add(volume, affinity, walked.nodes[affinity])
                    walked.volumes.append((volume, affinity))
                case ("remove", int(position), _) if position < len(walked.volumes):
                    columns.remove(*walked.volumes.pop(position))
                case ("move", (None | node_selector.NodeSelector()) as affinity, int(nodes)):
                    columns.move(affinity, nodes)
                    walked.nodes[affinity] = nodes
                case ("ask", _, _):
                    assert_same(columns, walked)


def assert_same(columns: Columns, walked: Walked) -> None:
    for size in SIZES:
        want = [walked.at_least(size, count) for count in range(5)]
        assert [columns.at_least(size, count, SLOTS) for count in range(1, 5)] == want[1:]
    for slot in range(SLOTS):
        assert sorted(v for volumes in columns.reached_from(slot) for v in volumes) == walked.reached_from(slot)
    assert bool(columns) is bool(walked.volumes)


@pytest.mark.req("T30")
@pytest.mark.level("u")
def test_volumes_that_many_nodes_reach_are_kept_once() -> None:
    columns = Columns()
    everywhere = (1 << 5000) - 1
    for number in range(50):
        columns.add(Sized(number, f"v{number}"), None, everywhere)

    assert len(list(columns.wide_groups)) == 1
    assert columns.at_least(0, 50, 5000) == everywhere
    assert columns.at_least(1, 50, 5000) == 0
