"""Gangs with all their volumes or nothing: Mooring's components with the gate GangVolumes on the real API server.

Driver, provisioner, coordinator and scheduler are processes with the flags that a user gives them. Order is read from
the revisions of etcd: the record of the group is committed after all volumes are held, and before anything is bound.
Cases are those of `test_gang_anomalies.py`, and G64 and G65 beside kube-scheduler.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.api.kinds import CLAIM, POD, POD_GROUP, STORAGE_CLASS, VOLUME, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import V
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.control.component import Context
from mooring.control.feature_gates import GANG_VOLUMES, with_defaults
from mooring.scheduler.component import Scheduler
from mooring.volumes.holds import group_objects
from mooring.volumes.holds.group_record import GroupPhase
from support.builders import claim_body, class_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.conformance.control_plane import ControlPlane
from support.conformance.gang_cluster import GATES, NAMESPACE, RACK
from support.conformance.gang_stack import GangStack, gang_stack
from support.conformance.releases import Release
from support.conformance.running import running

ONE_RACK = {"n1": "r1", "n2": "r1", "n3": "r1"}
SUCCESS = [GroupPhase.HOLDING, GroupPhase.COMMITTING, GroupPhase.COMMITTED]
#: Seconds before a write of the slow scheduler.
WRITE_SECONDS = 0.5


@pytest.fixture(autouse=True)
def _release_with_groups(release: Release) -> None:
    if release.minor < 37:
        pytest.skip("this release has no PodGroups")


async def is_committed(stack: GangStack, members: int) -> bool:
    phases = stack.history.phases()
    complete = bool(phases) and phases[-1][1] is GroupPhase.COMMITTED
    history = stack.history
    return complete and len(history.bound_pods()) >= members and bool(history.scheduled_groups())


def assert_committed_as_one(stack: GangStack, *, volumes: int) -> None:
    """Nothing was bound, or reported as scheduled, before all volumes were held and the record was committed."""
    history = stack.history
    committing = history.began(GroupPhase.COMMITTING)
    assert len(history.held_at(committing)) == volumes
    assert len(history.bound_claims()) == volumes
    for bound in (history.bound_claims(), history.bound_pods(), history.scheduled_groups()):
        assert bound
        assert min(bound.values()) > committing


def assert_nothing_was_bound(stack: GangStack) -> None:
    history = stack.history
    assert history.bound_claims() == {}
    assert history.bound_pods() == {}
    assert history.scheduled_groups() == {}
    assert GroupPhase.COMMITTING not in {phase for _, phase in history.phases()}


async def is_refused(stack: GangStack) -> bool:
    condition = await stack.condition()
    return condition is not None and condition.status == "False"


async def is_given_up(stack: GangStack) -> bool:
    """Also by the driver: nothing is left of what was held."""
    return group_objects.GIVEN_UP in await stack.events_on_group() and not await stack.provisioned()


@pytest.mark.req("G2.committed", "G4.absent")
@pytest.mark.version_matrix("kube-apiserver", "scheduler, provisioner, coordinator", "gang with all its volumes")
async def test_g22_provisioned_volumes_are_committed_as_one(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """A1 and A3."""
    async with gang_stack(start_kube(), tmp_path, ONE_RACK) as stack:
        await stack.add_pools({"n1": "15Gi", "n2": "11Gi", "n3": "11Gi"})
        with stack.scheduler():
            await stack.add_gang(["10Gi"] * 3)
            await stack.until(partial(is_committed, stack, 3))
            assert [phase for _, phase in stack.history.phases()] == SUCCESS
            assert_committed_as_one(stack, volumes=3)
            assert sorted((await stack.bound()).values()) == ["n1", "n2", "n3"]
            assert len(await stack.provisioned()) == 3


@pytest.mark.req("G2.committed")
async def test_g13_existing_volumes_are_committed_as_one(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    async with gang_stack(start_kube(), tmp_path, ONE_RACK) as stack:
        await add_local_members(stack, volumes=["n1", "n2"])
        with stack.scheduler():
            # G14: two volumes for three members.
            await stack.until(partial(is_refused, stack))
            assert_nothing_was_bound(stack)
            assert stack.history.phases() == []
            await stack.client.create(VOLUME, volume_body(name="on-n3", node="n3"))
            await stack.until(partial(is_committed, stack, 3))
            assert [phase for _, phase in stack.history.phases()] == SUCCESS
            assert_committed_as_one(stack, volumes=3)
            assert sorted((await stack.bound()).values()) == ["n1", "n2", "n3"]


async def add_local_members(stack: GangStack, *, volumes: list[str]) -> None:
    client = stack.client
    await client.create(STORAGE_CLASS, class_body(name="local"))
    for node in volumes:
        await client.create(VOLUME, volume_body(name=f"on-{node}", node=node))
    await client.create(POD_GROUP, pod_group_body(min_count=3), namespace=NAMESPACE)
    for number in range(3):
        await client.create(CLAIM, claim_body(name=f"c-{number}", size="5Gi"), namespace=NAMESPACE)
        await client.create(POD, member_body(name=f"g-{number}", claims=[f"c-{number}"]), namespace=NAMESPACE)


@pytest.mark.req("G2.committed", "G4.absent")
async def test_g24_gang_that_does_not_fit_gets_nothing(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    async with gang_stack(start_kube(), tmp_path, ONE_RACK) as stack:
        await stack.add_pools({"n1": "15Gi", "n2": "11Gi", "n3": "5Gi"})
        with stack.scheduler():
            await stack.add_gang(["10Gi"] * 3)
            await stack.until(partial(is_refused, stack))
            assert_nothing_was_bound(stack)
            assert stack.history.selected_claims() == {}
            assert await stack.provisioned() == []


@pytest.mark.req("G4.absent")
async def test_g26_domain_that_hosts_all_is_chosen(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    """A2."""
    async with gang_stack(start_kube(), tmp_path, {"n1": "r1", "n2": "r2", "n3": "r2", "n4": "r2"}) as stack:
        await stack.add_pools({"n1": "15Gi", "n2": "11Gi", "n3": "11Gi", "n4": "11Gi"})
        with stack.scheduler():
            await stack.add_gang(["10Gi"] * 3, topology=RACK)
            await stack.until(partial(is_committed, stack, 3))
            assert_committed_as_one(stack, volumes=3)
            assert sorted((await stack.bound()).values()) == ["n2", "n3", "n4"]


class SlowWrites(HttpClient):
    """Between decision and write there is time for other decisions."""

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        await SystemClock().sleep(WRITE_SECONDS)
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)


@pytest.mark.req("G2.committed", "G4.absent")
async def test_g18_volume_of_a_gang_is_given_to_no_other_pod(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """A6: a pod that comes while the gang holds gets none of its volumes, not even those that are not held yet."""
    async with gang_stack(start_kube(), tmp_path, ONE_RACK) as stack:
        await stack.add_local_gang()
        slow = SlowWrites(stack.kube.access, component="slow", clock=SystemClock())

        def build(context: Context) -> Scheduler:
            return Scheduler(context, hold_namespace=NAMESPACE)

        async with running(slow, [build], gates=with_defaults({GANG_VOLUMES: True})):

            async def is_holding() -> bool:
                return bool(stack.history.phases())

            await stack.until(is_holding)
            await stack.add_single_pod()
            await stack.until(partial(is_committed, stack, 2))
            created = stack.history.first(ApiObject, lambda each: each.name == "p")
            assert created["p"] < stack.history.began(GroupPhase.COMMITTING)
            assert_committed_as_one(stack, volumes=4)
            assert (await stack.bound()).keys() == {"g-0", "g-1"}
            volume: Any = await stack.client.get(VOLUME, "d")
            assert volume.spec.claim_ref.name == "c-d"

            async def single_pod_is_rejected() -> bool:
                return bool(await stack.rejections("p"))

            await stack.until(single_pod_is_rejected)
        await slow.close()


@pytest.mark.req("G2.committed", "G4.absent")
async def test_g66_member_that_fails_leaves_nothing_behind(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """A7 and A8: the volume of one member cannot be provisioned. No sibling is bound, the others' volumes are deleted
    and the group says why; when there is space, all of it runs."""
    async with gang_stack(start_kube(), tmp_path, ONE_RACK) as stack:
        await stack.add_pools({"n1": "15Gi", "n2": "15Gi", "n3": "5Gi"}, tracks_capacity=False)
        with stack.scheduler():
            await stack.add_gang(["10Gi"] * 3, nodes=["n1", "n2", "n3"])
            await stack.until(partial(is_given_up, stack))
            assert_nothing_was_bound(stack)
            await stack.empty("n3")
            await stack.until(partial(is_committed, stack, 3))
            assert_committed_as_one(stack, volumes=3)
            assert await stack.bound() == {"g-0": "n1", "g-1": "n2", "g-2": "n3"}
            assert len(await stack.provisioned()) == 3


@pytest.mark.req("G2.committed")
@pytest.mark.version_matrix("kube-apiserver", "provisioner, coordinator", "gang with all its volumes, kube-scheduler")
async def test_g64_gang_is_committed_as_one_beside_kube_scheduler(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """All members are sent to n1, where two fail; they come back and end on the others."""
    async with gang_stack(start_kube(), tmp_path, ONE_RACK) as stack:
        await stack.add_pools({"n1": "15Gi", "n2": "11Gi", "n3": "11Gi"})
        with stack.kube.scheduler(GATES):
            await stack.add_gang(["10Gi"] * 3)

            async def is_complete() -> bool:
                return len(await stack.bound()) == 3

            await stack.until(is_complete)
            history = stack.history
            committing = history.began(GroupPhase.COMMITTING)
            assert len(history.held_at(committing)) == 3
            for bound in (history.bound_claims(), history.bound_pods()):
                assert len(bound) == 3
                assert min(bound.values()) > committing
            assert sorted((await stack.bound()).values()) == ["n1", "n2", "n3"]


@pytest.mark.req("G2.committed")
async def test_g65_gang_is_given_up_as_one_beside_kube_scheduler(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    async with gang_stack(start_kube(), tmp_path, ONE_RACK) as stack:
        await stack.add_pools({"n1": "15Gi", "n2": "5Gi", "n3": "5Gi"})
        with stack.kube.scheduler(GATES):
            await stack.add_gang(["10Gi"] * 3)
            await stack.until(partial(is_given_up, stack))
            history = stack.history
            assert history.bound_claims() == {}
            assert history.bound_pods() == {}
            assert GroupPhase.COMMITTING not in {phase for _, phase in history.phases()}
