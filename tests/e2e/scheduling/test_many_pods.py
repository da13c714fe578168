"""Many pods at once with delayed-binding volumes, with kubectl: each gets one volume, and none waits without reason."""

import pytest

from support.e2e.workspace import Workspace
from support.scenarios import crowd
from support.scenarios.placements import NO_VOLUMES

pytestmark = pytest.mark.req("T15.many", "T13.later-decisions")


def assert_one_volume_each(workspace: Workspace, count: int) -> None:
    crowd.assert_one_volume_each(
        workspace.name, count, workspace.items("pods"), workspace.items("pvc"), workspace.items("pv")
    )


def test_each_pod_gets_one_volume(workspace: Workspace) -> None:
    workspace.apply(*crowd.manifest(workspace.name, pods=20, volume_count=20))
    workspace.wait_ready(*(f"member-{number}" for number in range(20)))
    assert_one_volume_each(workspace, 20)


def test_pods_wait_until_more_volumes_are_created(workspace: Workspace) -> None:
    workspace.apply(*crowd.manifest(workspace.name, pods=20, volume_count=15))
    # Three nodes have five volumes each; the last pods get an event that there are no more.
    waiting = workspace.wait_refused(5, f"0/3 nodes are available: 3 {NO_VOLUMES}")
    assert_one_volume_each(workspace, 15)

    workspace.apply(*crowd.volumes(workspace.name, range(15, 20)))
    workspace.wait_ready(*waiting)
    assert_one_volume_each(workspace, 20)
