"""Existing volumes that are held for a pod's claims: given or freed, and never deleted."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.volumes.binding import HOLD_NAMESPACE, HOLD_PREFIX, HoldState, hold_state
from mooring.volumes.holds import objects
from mooring.volumes.holds.transitions import Intent, IntentPhase
from support.builders import csi_node_body, reachable_from, volume_body
from support.builders.held_pods import MAX_BACKOFF_SECONDS, Group, run_scenario


@pytest.mark.req("R2.static")
@pytest.mark.parametrize(
    "notes",
    [
        pytest.param({}, id="made by hand"),
        pytest.param(
            {well_known.PROVISIONED_BY: "csi.example.com", objects.ATTEMPT: "1"},
            id="made by a provisioner, used, kept, and made available again",
        ),
    ],
)
def test_static_volumes_are_freed_and_never_deleted(notes: dict[str, str]) -> None:
    async def scenario(group: Group) -> None:
        claim = await group.plane.get(CLAIM, "a")
        body = volume_body(name="pv-a", node="n1", storage_class="fast")
        body["metadata"] |= objects.hold_metadata(claim, "n1", since="2026-01-02T03:04:05Z")
        body["metadata"]["annotations"] |= notes
        body["metadata"]["annotations"].pop(objects.SINCE)
        body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
        await group.client.create(VOLUME, body)
        await group.stays_held("a", MAX_BACKOFF_SECONDS + 1)
        await group.becomes("a", HoldState.FREE, within=10)
        freed = await group.plane.get(VOLUME, "pv-a")
        assert freed.metadata.labels == {}
        assert not freed.deleting

    run_scenario(scenario)


@pytest.mark.req("R1.chosen-twice")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("03:04:05", "03:04:06", id="the second is later"),
        pytest.param("03:04:05", "03:04:05", id="in the same second: by name"),
    ],
)
def test_of_two_existing_volumes_held_for_a_claim_one_stays(first: str, second: str) -> None:
    """A scheduler that lost its memory chooses anew before the last hold was lifted."""

    async def scenario(group: Group) -> None:
        claim = await group.plane.get(CLAIM, "a")
        for name, node, since in (("v1", "n1", first), ("v2", "n2", second)):
            body = volume_body(name=name, node=node, storage_class="fast")
            body["metadata"] |= objects.hold_metadata(claim, node, since=f"2026-01-02T{since}Z")
            body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
            await group.client.create(VOLUME, body)
        await group.select("b", "n2")
        await group.intend("b", Intent(1, "n2", IntentPhase.CREATING))
        await group.plane.pass_time(5)
        states = [
            hold_state(await group.plane.get(VOLUME, name), hold_namespace=HOLD_NAMESPACE) for name in ("v1", "v2")
        ]
        assert states == [HoldState.FREE, HoldState.HELD]

    run_scenario(scenario)


def test_where_a_driver_took_over_a_disk_its_own_label_says_which_nodes_reach_it() -> None:
    """The node has the driver's label for zones only, and its CSINode says that the driver looks after such disks."""

    async def scenario(group: Group) -> None:
        place = MergePatch({"metadata": {"labels": {"topology.gke.io/zone": "a"}}})
        await group.client.patch(NODE, "n1", place)
        await group.client.create(CSI_NODE, csi_node_body(name="n1", migrated="kubernetes.io/gce-pd"))
        for name in "ab":
            claim = await group.plane.get(CLAIM, name)
            disk = {"gcePersistentDisk": {"pdName": name}}
            where = reachable_from(well_known.ZONE, "a")
            body = volume_body(name=f"pv-{name}", affinity=where, storage_class="fast", source=disk)
            body["metadata"] |= objects.hold_metadata(claim, "n1", since="2026-01-02T03:04:05Z")
            body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
            await group.client.create(VOLUME, body)
        for name in "ab":
            await group.becomes(name, HoldState.COMMITTED, within=5)

    run_scenario(scenario)
