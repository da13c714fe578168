"""Plans of groups for kube-scheduler: members pass only where the joint decision puts them."""

import random
from collections.abc import Sequence

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, POD, POD_GROUP, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import StorageCapacity
from mooring.scheduler.extender.evaluator import ExtenderEvaluator, FailedProvisioning, Filtered
from mooring.scheduler.extender.group_plans import GROUP_SHORT, NOT_PLANNED, PLAN_SECONDS, GroupPlans
from support.builders import (
    a_capacity,
    a_claim,
    a_class,
    a_driver,
    a_node,
    capacity_body,
    claim_body,
    class_body,
    driver_body,
    node_body,
)
from support.builders.drivers import DRIVER
from support.builders.groups import a_member, a_pod_group, member_body, pod_group_body
from support.scheduler.cluster import SmallWorld, in_world
from support.scheduler.extender_caller import Caller
from support.scheduler.snapshots import a_snapshot

NAMES = ("n1", "n2", "n3")
NOW = 100.0


def pool(node: str, size: str) -> StorageCapacity:
    where = {"matchLabels": {well_known.HOSTNAME: node}}
    return a_capacity(name=node, storage_class="node", topology=where, capacity=size, largest=size)


def member(number: int, *, claim: bool = True, node: str = "", cpu: str = "1") -> Pod:
    claims = [f"c-{number}"] if claim else []
    return a_member(name=f"g-{number}", uid=f"u-{number}", claims=claims, node=node, requests={"cpu": cpu})


def claim_of(number: int, selected: str = "") -> ApiObject:
    annotations = {well_known.SELECTED_NODE: selected} if selected else {}
    return a_claim(name=f"c-{number}", uid=f"c-{number}", storage_class="node", size="100Gi", annotations=annotations)


class Extended:
    """A gang of three with claims of 100Gi, on nodes with these pools."""

    def __init__(self, *pools: str, claims: bool = True, cpu: str = "1", min_count: int = 3, seed: int = 0) -> None:
        self.members = [member(number, claim=claims, cpu=cpu) for number in range(3)]
        self.snapshot = a_snapshot(
            *(a_node(name=name, allocatable={"cpu": "4", "memory": "32Gi", "pods": "110"}) for name in NAMES),
            a_class(name="node", provisioner=DRIVER),
            a_driver(tracks_capacity=True),
            *(pool(name, size) for name, size in zip(NAMES, pools, strict=True)),
            *(claim_of(number) for number in range(3)),
        )
        self.snapshot.schedules_groups = True
        self.failures = FailedProvisioning()
        rng = random.Random(seed)
        self.plans = GroupPlans(self.snapshot, self.failures, rng, scheduler_names=[well_known.DEFAULT_SCHEDULER])
        self.plans.observe_group(None, a_pod_group(min_count=min_count, uid="g"))
        for one in self.members:
            self.plans.observe_pod(None, one)
        self._evaluator = ExtenderEvaluator(self.snapshot)

    def verdict(self, number: int, names: Sequence[str] = NAMES, *, now: float = NOW) -> Filtered:
        pod = self.members[number]
        alone = self._evaluator.filter(pod, names, provisioning_failures=self.failures.of(pod))
        assert isinstance(alone, Filtered)
        return self.plans.restrict(pod, alone, now)

    def nodes(self, *numbers: int, now: float = NOW) -> list[str]:
        """The only node of each member."""
        found = [self.verdict(number, now=now).passing for number in numbers]
        assert {len(one) for one in found} == {1}
        return [one[0] for one in found]


def test_members_pass_where_there_is_capacity_for_all() -> None:
    """G67."""
    extended = Extended("150Gi", "110Gi", "110Gi")
    assert sorted(extended.nodes(0, 1, 2)) == list(NAMES)
    verdict = extended.verdict(0)
    assert verdict.unresolvable == dict.fromkeys(set(NAMES) - set(verdict.passing), NOT_PLANNED)


def test_plan_reserves_nothing() -> None:
    extended = Extended("150Gi", "110Gi", "110Gi")
    extended.nodes(0, 1)
    assert not list(extended.snapshot.pod_keys)
    single = Extended("150Gi", "110Gi", "110Gi")
    single.plans.observe_group(a_pod_group(), None)
    assert single.verdict(2).passing == NAMES


def test_plan_is_kept() -> None:
    """A second decision would draw again, as nodes score equally."""
    extended = Extended("110Gi", "110Gi", "110Gi")
    first = extended.nodes(0, 1, 2)
    for _ in range(10):
        assert extended.nodes(0, 1, 2, now=NOW + PLAN_SECONDS - 1) == first


def test_plan_expires() -> None:
    extended = Extended("110Gi", "110Gi", "110Gi")
    found = {tuple(extended.nodes(0, 1, 2, now=NOW + PLAN_SECONDS * attempt)) for attempt in range(1, 20)}
    assert len(found) > 1
    assert all(sorted(one) == list(NAMES) for one in found)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rejected", NAMES)
def test_member_that_its_planned_node_rejects_is_planned_elsewhere(rejected: str, seed: int) -> None:
    """Siblings stay where kube-scheduler was told to put them, so the nodes of all have capacity together."""
    extended = Extended("110Gi", "110Gi", "110Gi", seed=seed)
    (first,) = extended.nodes(0)
    if rejected == first:
        rejected = NAMES[NAMES.index(first) - 1]
    (second,) = extended.verdict(1, [name for name in NAMES if name != rejected]).passing
    (third,) = extended.nodes(2)
    assert second != rejected
    assert sorted([first, second, third]) == list(NAMES)


def test_member_that_no_plan_has_is_left_to_kube_scheduler() -> None:
    extended = Extended("110Gi", "110Gi", "110Gi")
    first, second = extended.nodes(0, 1)
    assert extended.verdict(2, [first, second]).passing == (first, second)


def test_group_is_planned_again_after_failed_provisioning() -> None:
    extended = Extended("110Gi", "250Gi", "110Gi")
    before = extended.nodes(0, 1, 2)
    there = before[0]
    extended.failures.observe(claim_of(0, there), claim_of(0))  # type: ignore[arg-type]
    after = extended.nodes(0, 1, 2)
    assert after[0] != there


@pytest.mark.parametrize("seed", range(5))
def test_plan_goes_on_while_members_are_bound(seed: int) -> None:
    extended = Extended("110Gi", "110Gi", "110Gi", seed=seed)
    planned = extended.nodes(0, 1, 2)
    bound = member(0, node=planned[0])
    extended.snapshot.observe_pod(extended.members[0], bound)
    extended.plans.observe_pod(extended.members[0], bound)
    assert extended.nodes(1, 2) == planned[1:]


def test_group_with_a_new_member_is_planned_again() -> None:
    extended = Extended("110Gi", "110Gi", "110Gi")
    extended.nodes(0, 1, 2)
    new = a_member(name="g-2", uid="another", claims=["c-2"])
    extended.plans.observe_pod(extended.members[2], new)
    extended.members[2] = new
    assert sorted(extended.nodes(0, 1, 2)) == list(NAMES)


def test_group_without_enough_storage_passes_on_no_node() -> None:
    """G24, beside kube-scheduler."""
    extended = Extended("150Gi", "110Gi", "50Gi")
    verdict = extended.verdict(0)
    assert verdict.passing == ()
    # n3 is rejected for the member by itself.
    assert verdict.unresolvable["n1"] == verdict.unresolvable["n2"]
    assert verdict.unresolvable["n1"].startswith(GROUP_SHORT)
    assert "class node: 3 volumes of 100Gi" in verdict.unresolvable["n1"]


def test_storage_that_comes_is_noticed_by_the_next_attempt() -> None:
    extended = Extended("150Gi", "110Gi", "50Gi")
    assert extended.verdict(0).passing == ()
    extended.snapshot.volumes.observe_capacity(pool("n3", "50Gi"), pool("n3", "110Gi"))
    assert sorted(extended.nodes(0, 1, 2)) == list(NAMES)


@pytest.mark.parametrize(
    "extended",
    [
        pytest.param(Extended("150Gi", "110Gi", "110Gi", claims=False), id="no claims"),
        pytest.param(Extended("350Gi", "350Gi", "350Gi", cpu="5"), id="resources, which evictions free"),
        pytest.param(Extended("350Gi", "350Gi", "350Gi", min_count=4), id="too few members"),
    ],
)
def test_kube_scheduler_decides_alone(extended: Extended) -> None:
    assert extended.verdict(0).passing == NAMES


def test_component_follows_groups() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(STORAGE_CLASS, class_body(name="node", provisioner=DRIVER))
        world.put(CSI_DRIVER, driver_body(tracks_capacity=True))
        for name, size in zip(NAMES, ("150Gi", "110Gi", "110Gi"), strict=True):
            where = {"matchLabels": {well_known.HOSTNAME: name}}
            world.put(NODE, node_body(name=name))
            figure = capacity_body(name=name, storage_class="node", topology=where, capacity=size, largest=size)
            world.put(STORAGE_CAPACITY, figure)
        world.put(POD_GROUP, pod_group_body())
        for number in range(3):
            world.put(CLAIM, claim_body(name=f"c-{number}", storage_class="node", size="100Gi"))
            world.put(POD, member_body(name=f"g-{number}", claims=[f"c-{number}"]))
        async with Caller(world).running() as caller:
            await world.settle()
            passing = [await caller.passing(f"g-{number}", *NAMES) for number in range(3)]
            assert sorted(passing) == [[name] for name in NAMES]

    in_world(scenario)
