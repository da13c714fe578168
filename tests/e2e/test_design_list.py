"""The whole list of the topology design with `mooring up` and kubectl."""

import pytest

from e2e.workspace import Workspace
from scenarios import design_list
from scenarios.placements import AFFINITY, NO_VOLUMES


@pytest.mark.req("T43", "T20")
def test_every_case_ends_as_designed(workspace: Workspace) -> None:
    workspace.apply(*design_list.bodies())
    workspace.wait_for(lambda: design_list.settled(workspace.items("pods")))
    workspace.wait_unscheduled("apart-on-two-2", f"0/3 nodes are available: 3 {NO_VOLUMES}")
    workspace.wait_unscheduled("together-one-each-1", f"1 {NO_VOLUMES}", f"2 {AFFINITY}")
    workspace.wait_unscheduled("several-one-each", f"0/3 nodes are available: 3 {NO_VOLUMES}")
    design_list.assert_as_designed(workspace.items("pods"), workspace.items("pvc"), workspace.items("pv"))
