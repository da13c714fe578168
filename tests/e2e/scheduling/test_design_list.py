"""The whole list of the topology design with `mooring up` and kubectl."""

import pytest

from support.e2e.workspace import Workspace
from support.scenarios import design_list
from support.scenarios.placements import AFFINITY, NO_VOLUMES


@pytest.mark.req("T43.anti-affinity", "T43.affinity", "T43.several-claims", "T43.fallback", "T20.provisioned")
def test_design_list_result(workspace: Workspace) -> None:
    workspace.apply(*design_list.bodies())
    workspace.wait_for(lambda: design_list.settled(workspace.items("pods")))
    workspace.wait_unscheduled("apart-on-two-2", f"0/3 nodes are available: 3 {NO_VOLUMES}")
    workspace.wait_unscheduled("together-one-each-1", f"1 {NO_VOLUMES}", f"2 {AFFINITY}")
    workspace.wait_unscheduled("several-one-each", f"0/3 nodes are available: 3 {NO_VOLUMES}")
    design_list.assert_as_designed(workspace.items("pods"), workspace.items("pvc"), workspace.items("pv"))
