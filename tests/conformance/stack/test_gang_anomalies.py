"""What kube-scheduler does with the volumes of gangs, and that Mooring's scheduler does not, on the real API server.

Tests of kube-scheduler reproduce one behaviour each with the gate GenericWorkload on; `docs/gangs.md` explains them.
One that fails on a later release means that kube-scheduler has changed, and the page with it. Mooring's scheduler runs
without holds here: the joint decision alone avoids these.
"""

from collections.abc import Callable
from functools import partial

import pytest

from mooring.api.kinds import VOLUME
from mooring.scheduler.component import Scheduler
from support.conformance.control_plane import ControlPlane
from support.conformance.gang_cluster import GATES, RACK, GangCluster, gang_cluster
from support.conformance.releases import Release
from support.conformance.running import running

#: The domain has one node.
NO_STORAGE = "0/1 nodes are available: 1 node(s) did not have enough free storage"
FAILED = 'running PreBind plugin "VolumeBinding": binding volumes: '


@pytest.fixture(autouse=True)
def _release_with_groups(release: Release) -> None:
    if release.minor < 37:
        pytest.skip("this release has no PodGroups")


async def scheduled(cluster: GangCluster) -> bool:
    condition = await cluster.condition()
    return condition is not None and condition.status == "True"


async def test_g22_one_pool_is_promised_to_all_members(start_kube: Callable[[], ControlPlane]) -> None:
    """A1 and A3: three nodes have room for one volume each; all members are sent to the emptiest."""
    async with gang_cluster(start_kube()) as cluster:
        await cluster.add_nodes({"n1": "r1", "n2": "r1", "n3": "r1"})
        await cluster.add_pools({"n1": "150Gi", "n2": "110Gi", "n3": "110Gi"})
        await cluster.add_gang(["100Gi"] * 3)
        with cluster.kube.scheduler(GATES):

            async def failed() -> bool:
                return all(name in cluster.selected for name in ("c-0", "c-1", "c-2")) and bool(
                    [m for n in range(3) for m in await cluster.rejections(f"g-{n}") if FAILED in m]
                )

            await cluster.until(failed)
            assert {nodes[0] for nodes in cluster.selected.values()} == {"n1"}
            assert await scheduled(cluster)
            # The publisher polls: then the others go where the space is.
            await cluster.publish()

            async def complete() -> bool:
                return set((await cluster.bound()).values()) == {"n1", "n2", "n3"}

            await cluster.until(complete)


async def test_g26_gang_is_stuck_in_a_domain_that_cannot_host_it(start_kube: Callable[[], ControlPlane]) -> None:
    """A2: r2 could host all; the members are sent to r1, one is bound there, and the domain never changes."""
    async with gang_cluster(start_kube()) as cluster:
        await cluster.add_nodes({"n1": "r1", "n2": "r2", "n3": "r2", "n4": "r2"})
        await cluster.add_pools({"n1": "150Gi", "n2": "110Gi", "n3": "110Gi", "n4": "110Gi"})
        await cluster.add_gang(["100Gi"] * 3, topology=RACK)
        with cluster.kube.scheduler(GATES):

            async def one_bound() -> bool:
                return len(await cluster.bound()) == 1 and await scheduled(cluster)

            await cluster.until(one_bound)
            [(first, node)] = (await cluster.bound()).items()
            assert node == "n1"
            await cluster.publish()
            waiting = [f"g-{n}" for n in range(3) if f"g-{n}" != first]

            async def rejected() -> bool:
                told = [message for pod in waiting for message in await cluster.rejections(pod)]
                # One is compared with the domain's nodes, the other with what is left of the quorum.
                return any("0/1 placements are available" in message for message in told) and any(
                    NO_STORAGE in message for message in told
                )

            await cluster.until(rejected)
            assert await cluster.bound() == {first: "n1"}
            assert all(cluster.pools[node] == 110 << 30 for node in ("n2", "n3", "n4"))


async def test_g18_volume_of_a_gang_is_given_to_a_pod_behind_it(start_kube: Callable[[], ControlPlane]) -> None:
    """A6: between decision and write the gang's existing volumes look free. With slow writes, a pod that is created
    after the gang was decided takes the last volume of a member; the rest of the gang runs, with the condition True.

    The pod comes after the first write for the gang and needs two writes before it has the volume. The member needs
    fifteen before it asks for the same one; they take turns, one a second.
    """
    async with gang_cluster(start_kube()) as cluster:
        await cluster.add_nodes({"n1": "r1", "n2": "r1"})
        await cluster.add_local_gang(small_claims=16)
        with cluster.kube.scheduler(GATES, "--kube-api-qps=1", "--kube-api-burst=1"):

            async def first_written() -> bool:
                return bool(await cluster.reserved())

            await cluster.until(first_written)
            await cluster.add_single_pod()
            assert "d" not in await cluster.reserved()

            async def gang_is_partial() -> bool:
                return (await cluster.bound()).keys() == {"g-0", "p"} and await scheduled(cluster)

            await cluster.until(gang_is_partial)
            stolen = await cluster.client.get(VOLUME, "d")
            assert stolen.spec.claim_ref is not None
            assert stolen.spec.claim_ref.name == "c-p"


async def test_g66_failed_member_leaves_its_siblings_running(start_kube: Callable[[], ControlPlane]) -> None:
    """A7 and A8: a member's volume fails after its siblings were bound. They keep running, the condition stays True,
    the group gets no event, and the member is tried about once a second."""
    async with gang_cluster(start_kube()) as cluster:
        await cluster.add_nodes({"n1": "r1", "n2": "r1", "n3": "r1"})
        await cluster.add_pools({"n1": "110Gi", "n2": "110Gi", "n3": "110Gi"})
        cluster.pools["n3"] = 0  # what is published says otherwise
        await cluster.add_gang(["100Gi"] * 3, nodes=["n1", "n2", "n3"])
        with cluster.kube.scheduler(GATES):

            async def tried_often() -> bool:
                return len(cluster.selected.get("c-2", ())) >= 4 and len(await cluster.bound()) == 2

            await cluster.until(tried_often)
            assert await cluster.bound() == {"g-0": "n1", "g-1": "n2"}
            assert await scheduled(cluster)
            assert set(cluster.selected["c-2"]) == {"n3"}
            assert f'{FAILED}provisioning failed for PVC "c-2"' in (await cluster.rejections("g-2"))[-1]
            assert await cluster.events_on_group() == []


async def test_g22_mooring_counts_a_pool_once(start_kube: Callable[[], ControlPlane]) -> None:
    async with gang_cluster(start_kube()) as cluster:
        await cluster.add_nodes({"n1": "r1", "n2": "r1", "n3": "r1"})
        await cluster.add_pools({"n1": "150Gi", "n2": "110Gi", "n3": "110Gi"})
        await cluster.add_gang(["100Gi"] * 3)
        async with running(cluster.client, [Scheduler]):
            await cluster.until(partial(all_bound, cluster, 3))
            assert sorted((await cluster.bound()).values()) == ["n1", "n2", "n3"]
            assert {len(nodes) for nodes in cluster.selected.values()} == {1}
            await cluster.until(partial(scheduled, cluster))


async def test_g26_mooring_chooses_the_domain_that_hosts_all(start_kube: Callable[[], ControlPlane]) -> None:
    async with gang_cluster(start_kube()) as cluster:
        await cluster.add_nodes({"n1": "r1", "n2": "r2", "n3": "r2", "n4": "r2"})
        await cluster.add_pools({"n1": "150Gi", "n2": "110Gi", "n3": "110Gi", "n4": "110Gi"})
        await cluster.add_gang(["100Gi"] * 3, topology=RACK)
        async with running(cluster.client, [Scheduler]):
            await cluster.until(partial(all_bound, cluster, 3))
            assert sorted((await cluster.bound()).values()) == ["n2", "n3", "n4"]


async def all_bound(cluster: GangCluster, members: int) -> bool:
    return len(await cluster.bound()) == members
