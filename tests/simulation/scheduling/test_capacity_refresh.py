"""Published capacity after a volume was resized or a snapshot taken, in virtual time: refreshed at once, not with the
next poll."""

import pytest

from mooring.api.kinds import CLAIM, STORAGE_CAPACITY, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Volume
from mooring.cluster.bootstrap import Layout
from mooring.csi.contract import AccessibilityRequirements, CreateVolume, Topology
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY
from mooring.provisioner.capacity.volume_changes import SNAPSHOT_CONTENT
from support.builders import claim_body, pod_body
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.storage import CONTROLLER, POLL_INTERVAL, HostpathStorage

GI = 2**30
LAYOUT = Layout(nodes=3, local_volumes=0)


async def published(cluster: SimulatedCluster, node: str) -> str:
    for found in (await cluster.client.list(STORAGE_CAPACITY)).items:
        assert found.node_topology is not None
        if found.node_topology.match_labels.get(NODE_KEY) == node:
            return str(found.capacity)
    return ""


async def used_volume(cluster: SimulatedCluster, storage: HostpathStorage) -> Volume:
    """A volume of 2Gi on the node of its pod, soon after a poll, so that the next one is far away."""
    await simulated.create(cluster, *storage.objects())
    await simulated.create(
        cluster, claim_body(name="data", storage_class="fast", size="2Gi"), pod_body(name="user", claims=["data"])
    )
    assert await cluster.until(lambda: simulated.all_run(cluster, 1), within=60)
    claim = await cluster.client.get(CLAIM, "data", namespace="default")
    await cluster.clock.sleep(POLL_INTERVAL + 1.0)
    return await cluster.client.get(VOLUME, claim.spec.volume_name)


async def take_storage(cluster: SimulatedCluster, node: str, name: str) -> str:
    """What the driver takes for a larger volume or a snapshot: it has no call of its own for that."""
    where = Topology({NODE_KEY: node})
    there = AccessibilityRequirements((where,), (where,))
    taken = CreateVolume(name, 3 * GI, parameters={"pool": "fast"}, accessibility=there)
    return (await cluster.driver(CONTROLLER).create_volume(taken, secrets={})).volume_id


def node_of(volume: Volume) -> str:
    assert volume.required_affinity is not None
    [term] = volume.required_affinity.node_selector_terms
    [[node]] = [one.values for one in term.match_expressions if one.key == NODE_KEY]
    return node


async def changes(cluster: SimulatedCluster, node: str, capacity: str) -> bool:
    async def refreshed() -> bool:
        return await published(cluster, node) == capacity

    return await cluster.until(refreshed, within=3.0)


@pytest.mark.req("C22.at-once")
@pytest.mark.parametrize("seed", range(5))
def test_capacity_is_refreshed_at_once_after_a_resize(seed: int) -> None:
    storage = HostpathStorage(LAYOUT, fast=10 * GI)

    async def scenario(cluster: SimulatedCluster) -> None:
        volume = await used_volume(cluster, storage)
        node = node_of(volume)
        assert await published(cluster, node) == "8Gi"
        await take_storage(cluster, node, "grown")
        await cluster.clock.sleep(5.0)
        assert await published(cluster, node) == "8Gi"
        await cluster.client.patch(VOLUME, volume.name, MergePatch({"spec": {"capacity": {"storage": "5Gi"}}}))
        assert await changes(cluster, node, "5Gi")

    simulate(scenario, layout=LAYOUT, seed=seed, extra_components=storage.extra_components)


@pytest.mark.req("C22.at-once")
@pytest.mark.parametrize("seed", range(3))
def test_capacity_is_refreshed_at_once_when_a_snapshot_is_taken_and_deleted(seed: int) -> None:
    snapshots = FakeApiServer()
    storage = HostpathStorage(LAYOUT, snapshots=FakeClient(snapshots), fast=10 * GI)

    async def scenario(cluster: SimulatedCluster) -> None:
        volume = await used_volume(cluster, storage)
        node = node_of(volume)
        assert volume.spec.csi is not None
        source = {"volumeHandle": volume.spec.csi.volume_handle}
        spec = {"driver": DRIVER_NAME, "source": source, "deletionPolicy": "Delete"}
        content = {"metadata": {"name": "content"}, "spec": spec}
        snapshots.create(SNAPSHOT_CONTENT, "", content)
        taken = await take_storage(cluster, node, "snapshot")
        await cluster.clock.sleep(5.0)
        assert await published(cluster, node) == "8Gi", "requested, not taken"
        snapshots.patch(SNAPSHOT_CONTENT, "", "content", MergePatch({"status": {"snapshotHandle": "snapshot"}}), "")
        assert await changes(cluster, node, "5Gi")

        await cluster.driver(CONTROLLER).delete_volume(taken, secrets={})
        snapshots.delete(SNAPSHOT_CONTENT, "", "content")
        assert await changes(cluster, node, "8Gi")

    simulate(scenario, layout=LAYOUT, seed=seed, extra_components=storage.extra_components)
