"""Decisions about small random groups beside an independent search that tries everything."""

import random
from collections import Counter

import pytest

from mooring.api import well_known
from mooring.volumes.group import GroupPlan
from support.scheduler.group_brute_force import exists_plan, plan_errors, random_group
from support.scheduler.groups import GroupCluster

pytestmark = pytest.mark.req("G1.decided")

BATCHES = 20
GROUPS_PER_BATCH = 20


#: Groups of any members that decisions were once wrong about: shared claims beside limits and pools of single nodes.
ONCE_WRONG = (385, 447, 1836, 2584)


@pytest.mark.parametrize("promised", [True, False], ids=["members of one kind", "any members"])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_decision_agrees_with_trying_everything(batch: int, promised: bool) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(GROUPS_PER_BATCH):
        outcomes[outcome_of(batch * GROUPS_PER_BATCH + number, promised=promised)] += 1
    assert not outcomes["missed"], outcomes
    assert outcomes["plan"], "no group of the batch has a plan"
    assert outcomes["refused"], "no group of the batch is refused"


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_decision_about_groups_that_were_once_wrong(seed: int) -> None:
    assert outcome_of(seed, promised=False) != "missed"


def outcome_of(seed: int, *, promised: bool) -> str:
    """What came out; fails where it contradicts the objects or the independent search."""
    group = random_group(random.Random(seed), promised=promised)
    cluster = GroupCluster(*group.objects())
    result = cluster.decide(group.pods(), group.quorum, topology_key=well_known.ZONE if group.by_zone else "")
    if isinstance(result, GroupPlan):
        assert not plan_errors(group, result), (seed, group)
        assert exists_plan(group), (seed, "the independent search is wrong")
        return "plan"
    assert not cluster.snapshot.pod_keys, seed
    assert not cluster.snapshot.volumes.assumed_nodes(), seed
    possible = exists_plan(group)
    assert not (result.exact and possible), (seed, "refused although there is a plan", group, result)
    assert not (group.promised and possible), (seed, "not found although promised", group, result)
    return "missed" if possible else "refused"
