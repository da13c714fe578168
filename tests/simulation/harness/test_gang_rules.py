"""The rules of gangs see what they are for, where no single change of the product would let it happen."""

from functools import partial

import pytest

from mooring.api.kinds import CLAIM, POD_GROUP, VOLUME
from mooring.cluster.storage import NAMESPACE
from mooring.volumes.binding import HOLD_PREFIX
from mooring.volumes.holds import group_objects, group_record, objects
from mooring.volumes.holds.group_record import GroupMark, GroupRecord, MemberClaim, RecordedMember
from support.builders import volume_body
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.gangs.rules import GroupRules
from support.simulation.groups import GATES, LAYOUT, NODES, GroupStorage, bound, create, gang, members


def test_deletion_of_a_given_volume_is_a_violation_and_reclaim_is_not() -> None:
    """I8"""
    storage = GroupStorage(dict.fromkeys(NODES, 110))
    broken: list[list[str]] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        rules = GroupRules(cluster)
        await create(cluster, *storage.objects(), volume_body(name="existing", node="node-1"))
        await cluster.clock.sleep(5)
        await create(cluster, gang(2), *members(2, size="10Gi"), gang(1, name="other"))
        await create(cluster, *members(1, group="other", size="5Gi", storage_class="local"))
        assert await cluster.until(partial(bound, cluster, 2), within=60)
        await cluster.client.delete(CLAIM, "g-c-0", namespace="default")
        await cluster.client.delete(VOLUME, "existing")
        await cluster.clock.sleep(1)
        broken.append([violation.rule for violation in rules.violations])

    simulate(scenario, layout=LAYOUT, gates=GATES, extra_components=storage.extra_components)
    assert broken == [["given volumes are reclaimed only"]]


@pytest.mark.parametrize(("size", "broken"), [("100Gi", []), ("120Gi", ["pools are not promised twice"])])
def test_claim_that_is_sent_to_a_full_pool_is_a_violation(size: str, broken: list[str]) -> None:
    """I4"""
    storage = GroupStorage(dict.fromkeys(NODES, 110), figures=dict.fromkeys(NODES, 500))
    found: list[str] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        rules = GroupRules(cluster, pools=dict.fromkeys(NODES, 110), storage_class="node")
        await create(cluster, *storage.objects())
        await cluster.clock.sleep(5)
        await create(cluster, gang(1), *members(1, size=size))
        await cluster.clock.sleep(5)
        found.extend(dict.fromkeys(violation.rule for violation in rules.violations))

    simulate(scenario, layout=LAYOUT, gates=GATES, extra_components=storage.extra_components)
    assert found == broken


def test_two_groups_that_wait_for_each_other_are_a_violation() -> None:
    """I15: both the coordinator and the scheduler end that, so none of them runs here."""
    storage = GroupStorage({}, coordinator=False)
    found: list[str] = []

    async def hold_one_of_two(cluster: SimulatedCluster, name: str) -> None:
        await create(cluster, gang(2, name=name))
        claims = [body for body in members(2, group=name, size="5Gi", storage_class="local") if body["kind"] != "Pod"]
        await create(cluster, *claims)
        group = await cluster.client.get(POD_GROUP, name, namespace="default")
        uids = [(await cluster.client.get(CLAIM, f"{name}-c-{n}", namespace="default")).uid for n in range(2)]
        entries = [RecordedMember(f"{name}-{n}", "node-1", 0, (MemberClaim(uids[n]),)) for n in range(2)]
        begun = group_record.begin(
            GroupRecord("default", name, group.uid), entries, min_count=2, domain="", now=cluster.clock.now()
        )
        assert begun is not None
        body = group_objects.record_body(begun)
        record = await cluster.client.create(objects.INTENT_RECORD, body, namespace=NAMESPACE)
        volume = volume_body(name=f"held-{name}", node="node-1")
        volume["metadata"] |= group_objects.with_group({}, group.uid, GroupMark(record.uid, begun.epoch))
        volume["spec"]["claimRef"] = {"namespace": NAMESPACE, "name": f"{HOLD_PREFIX}{uids[0]}"}
        await create(cluster, volume)

    async def scenario(cluster: SimulatedCluster) -> None:
        rules = GroupRules(cluster)
        await create(cluster, *storage.objects())
        for name in ("one", "other"):
            await hold_one_of_two(cluster, name)
        for _ in range(100):
            violation = await rules.audit(cluster)
            if violation is not None:
                found.append(f"{violation.rule} after {cluster.clock.monotonic():.0f} s")
                break
            await cluster.clock.sleep(0.5)

    simulate(scenario, layout=LAYOUT, gates=GATES, extra_components=storage.extra_components)
    assert found == ["no two groups wait for each other after 41 s"]
