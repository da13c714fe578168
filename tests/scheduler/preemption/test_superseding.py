"""Groups of lower priority that give up what they hold: only those without which a refused group has a plan."""

import random

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject, ObjectReference
from mooring.api.views.storage import Volume
from mooring.scheduler.framework.group_cycle import GroupInput
from mooring.scheduler.preemption.superseding import HeldGroupPlan, groups_to_supersede
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.binding import HOLD_NAMESPACE, HOLD_PREFIX
from mooring.volumes.group import GroupPlan
from support.scheduler.groups import (
    NODE_DRIVER,
    Gi,
    GroupCluster,
    a_gang,
    cluster_objects,
    local_volume,
    node_capacity,
)

HIGH = "high"


class Contended(GroupCluster):
    """A cluster in which groups of one to three members hold what they were given."""

    def hold(
        self, name: str, count: int, storage_class: str, size: str = "5Gi", *, cpu: str = "1", priority: int = 0
    ) -> HeldGroupPlan:
        pods, claims = a_gang(count, claims=[(storage_class, size)], prefix=name, cpu=cpu)
        for claim in claims:
            self.snapshot.volumes.observe_claim(None, claim)
        plan = self.decide(pods, count)
        assert isinstance(plan, GroupPlan)
        members = plan.members.values()
        plans = tuple(member.plan for member in members)
        return HeldGroupPlan(f"uid-{name}", name, priority, "", tuple(member.pod for member in members), plans)

    def superseded(self, given: GroupInput, *holding: HeldGroupPlan) -> list[str]:
        """Names; the snapshot must be as before."""
        self.snapshot.volumes.classes_with_more_capacity()
        before = self.state(*holding)
        found = groups_to_supersede(self.snapshot, DEFAULT, random.Random(0), given, holding)
        assert self.state(*holding) == before
        return [group.key for group in found]

    def state(self, *holding: HeldGroupPlan) -> tuple[object, ...]:
        volumes = self.snapshot.volumes
        segments = [(one.key, one.free, one.limit, one.charged) for one in volumes.provisioners.capacity.segments()]
        named = [(name, volumes.volume(name)) for name in ("pv-0", "pv-1", "pv-2")]
        nodes = [self.snapshot.node_of(pod) for group in holding for pod in group.pods]
        return segments, named, nodes, dict(volumes.assumed_nodes()), volumes.classes_with_more_capacity()

    def written(self, group: HeldGroupPlan, reference: ObjectReference) -> None:
        """The existing volume of the group's only member, as the API server has it now."""
        [binding] = group.plans[0].static
        known = self.snapshot.volumes.volume(binding.volume.name)
        assert known is not None
        after: Volume = msgspec.structs.replace(
            known,
            metadata=msgspec.structs.replace(known.metadata, resource_version="9"),
            spec=msgspec.structs.replace(known.spec, claim_ref=reference),
        )
        self.snapshot.volumes.observe_volume(known, after)


def contended(*more: ApiObject) -> Contended:
    return Contended(*cluster_objects(), *more)


def asking(cluster: Contended, count: int, storage_class: str, size: str = "5Gi", *, cpu: str = "1") -> GroupInput:
    pods, claims = a_gang(count, claims=[(storage_class, size)], prefix=HIGH, cpu=cpu)
    for claim in claims:
        cluster.snapshot.volumes.observe_claim(None, claim)
    return GroupInput(pods, count)


def three_volumes() -> list[ApiObject]:
    return [local_volume(f"pv-{number}", f"n{number + 1}") for number in range(3)]


def test_promised_volume_of_a_lower_group_is_taken_back() -> None:
    """G55"""
    cluster = contended(*three_volumes())
    low = cluster.hold("low", 2, "local")
    assert cluster.superseded(asking(cluster, 2, "local"), low) == ["low"]


@pytest.mark.parametrize("given", [False, True], ids=["held", "given"])
def test_held_volume_is_taken_back_and_a_given_one_is_not(given: bool) -> None:
    cluster = contended(local_volume("pv-0", "n1"))
    low = cluster.hold("low", 1, "local")
    claim = low.plans[0].static[0].claim
    held = ObjectReference(namespace=HOLD_NAMESPACE, name=f"{HOLD_PREFIX}{claim.uid}")
    cluster.written(low, claim.reference if given else held)
    assert cluster.superseded(asking(cluster, 1, "local"), low) == ([] if given else ["low"])


def test_capacity_in_flight_is_taken_back() -> None:
    cluster = contended(node_capacity("n1", "100Gi"))
    low = cluster.hold("low", 2, "node", "40Gi")
    assert cluster.superseded(asking(cluster, 2, "node", "50Gi"), low) == ["low"]


def test_capacity_that_a_report_reflects_is_taken_back() -> None:
    """The volume is there and held: the driver has reported less since."""
    cluster = contended(node_capacity("n1", "100Gi"))
    low = cluster.hold("low", 1, "node", "80Gi")
    claim = low.plans[0].provision[0].claim
    volumes = cluster.snapshot.volumes
    held = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
    made = {well_known.PROVISIONED_BY: NODE_DRIVER, well_known.VOLUME_CREATED_AT: "2026-01-01T00:00:00Z"}
    volume = local_volume("made", "n1", "80Gi", storage_class="node", claim_ref=held, annotations=made)
    volumes.observe_volume(None, volume)
    before = node_capacity("n1", "100Gi")
    after = node_capacity("n1", "20Gi")
    polled = {well_known.CAPACITY_POLLED_AT: "2026-01-01T00:00:10Z"}
    metadata = msgspec.structs.replace(after.metadata, annotations=polled)
    volumes.observe_capacity(before, msgspec.structs.replace(after, metadata=metadata))
    assert volumes.free_storage() == {before.key: 20 * Gi}
    assert cluster.superseded(asking(cluster, 1, "node", "90Gi"), low) == ["low"]
    assert cluster.superseded(asking(cluster, 1, "node", "110Gi"), low) == []


def test_cpu_of_members_is_taken_back() -> None:
    cluster = contended(*three_volumes(), node_capacity("n4", "100Gi"))
    low = cluster.hold("low", 1, "node", "40Gi", cpu="8")
    pinned = asking(cluster, 1, "node", "10Gi", cpu="8")
    assert cluster.superseded(pinned, low) == ["low"]


def test_nothing_is_given_up_where_it_would_not_help() -> None:
    cluster = contended(*three_volumes())
    low = cluster.hold("low", 2, "local")
    assert cluster.superseded(asking(cluster, 4, "local"), low) == []
    assert cluster.superseded(asking(cluster, 1, "local", "50Gi"), low) == []


def test_only_groups_that_are_in_the_way_are_given_up_and_the_least_important_first() -> None:
    cluster = contended(*three_volumes(), node_capacity("n4", "100Gi"))
    other = cluster.hold("other", 2, "node", "10Gi", priority=1)
    older = cluster.hold("older", 1, "local", priority=5)
    lowest = cluster.hold("lowest", 1, "local", priority=2)
    last = cluster.hold("last", 1, "local", priority=3)
    given = asking(cluster, 2, "local")
    assert cluster.superseded(given, older, other, last, lowest) == ["last", "lowest"]
