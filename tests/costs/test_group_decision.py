"""Cost of deciding a group with all its volumes, counted in function calls: by doubling, and of the longest slice.

`bench/group_decision.py` measures 1,000 members with two claims each on 5,000 nodes, in seconds.
"""

import random
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from bench.group_decision import (
    Group,
    one_kind,
    one_volume_short,
    own_kinds,
    own_kinds_one_volume_short,
    ten_kinds,
)

from bench import group_decision
from mooring.scheduler.framework.group_cycle import GroupCycle, GroupInput
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.group import GroupPlan
from support.builders.counting import calls_of

#: Nodes and members, and the same doubled.
SIZES: Final = ((150, 30), (300, 60))
#: Of a slice, with some slack; the smaller decisions take several.
MAX_SLICE_CALLS: Final = 40_000


class Calls(NamedTuple):
    total: int
    longest_slice: int


def calls_to_decide(group: Group, *, expected: bool) -> Calls:
    given = GroupInput(group.members, len(group.members))
    cycle: GroupCycle | None = None

    def begin() -> None:
        nonlocal cycle
        cycle = GroupCycle(group.snapshot, DEFAULT, random.Random(0), given)

    slices = [calls_of(begin)]
    assert cycle is not None
    decided = False

    def step() -> None:
        nonlocal decided
        assert cycle is not None
        decided = cycle.step()

    while not decided:
        slices.append(calls_of(step))
    assert isinstance(cycle.result, GroupPlan) is expected
    return Calls(sum(slices), max(slices))


@pytest.mark.req("G1.sliced")
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        pytest.param(one_kind, True, id="one kind"),
        pytest.param(ten_kinds, True, id="ten kinds"),
        pytest.param(own_kinds, True, id="each member of its own kind"),
        pytest.param(one_volume_short, False, id="refused"),
        pytest.param(own_kinds_one_volume_short, False, id="refused, each member of its own kind"),
    ],
)
def test_decision_grows_with_its_members(
    build: Callable[[int, int], Group], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G76: twice the members on twice the nodes cost twice as much, in more slices of bounded length."""
    monkeypatch.setattr(group_decision, "ZONE_SIZE", 30)
    small, large = (calls_to_decide(build(nodes, members), expected=expected) for nodes, members in SIZES)
    assert large.total < 2.2 * small.total
    assert large.longest_slice < MAX_SLICE_CALLS
