"""Many pods at once on late-bound volumes, with kubectl: nobody gets another's volume, and nobody waits for nothing."""

import pytest

from e2e.workspace import Workspace
from scenarios import crowd
from scenarios.placements import NO_VOLUMES

pytestmark = pytest.mark.req("T15.many", "T13.later-decisions")


def assert_one_volume_each(workspace: Workspace, count: int) -> None:
    crowd.assert_one_volume_each(
        workspace.name, count, workspace.items("pods"), workspace.items("pvc"), workspace.items("pv")
    )


def test_as_many_volumes_as_pods_are_one_for_each(workspace: Workspace) -> None:
    workspace.apply(*crowd.manifest(workspace.name, pods=20, volume_count=20))
    workspace.wait_ready(*(f"member-{number}" for number in range(20)))
    assert_one_volume_each(workspace, 20)


def test_fewer_volumes_than_pods_leave_some_waiting_until_more_volumes_come(workspace: Workspace) -> None:
    workspace.apply(*crowd.manifest(workspace.name, pods=20, volume_count=15))
    # Three nodes have five volumes each; whoever came last is told that there are no more.
    waiting = workspace.wait_refused(5, f"0/3 nodes are available: 3 {NO_VOLUMES}")
    assert_one_volume_each(workspace, 15)

    workspace.apply(*crowd.volumes(workspace.name, range(15, 20)))
    workspace.wait_ready(*waiting)
    assert_one_volume_each(workspace, 20)
