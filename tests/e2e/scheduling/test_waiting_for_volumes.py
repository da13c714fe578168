"""A pod whose volume is being provisioned, with kubectl: it is bound last and does not block other pods."""

import pytest

from support.e2e.workspace import Workspace
from support.scenarios import slow_provisioner
from support.scenarios.slow_provisioner import NODE


def is_waiting(workspace: Workspace) -> bool:
    return slow_provisioner.is_waiting(workspace.items("pods"), workspace.items("pvc"), workspace.items("pv"))


@pytest.mark.req("T15.many")
def test_many_pods_wait_for_provisioning_concurrently(workspace: Workspace) -> None:
    workspace.apply(*slow_provisioner.many(f"-{workspace.name}", 20))
    workspace.wait_for(lambda: slow_provisioner.all_asked_for(workspace.items("pvc")))


@pytest.mark.req("T15.asynchronous")
def test_waiting_pod_does_not_block_others(workspace: Workspace) -> None:
    suffix = f"-{workspace.name}"
    workspace.apply(*slow_provisioner.slow(suffix))
    workspace.wait_event("pvc/slow-new", "ExternalProvisioning", slow_provisioner.PROVISIONER)
    workspace.wait_for(lambda: is_waiting(workspace))

    workspace.apply(*slow_provisioner.quick(suffix))
    workspace.wait_ready("quick")
    assert is_waiting(workspace)

    workspace.apply(slow_provisioner.made(suffix, namespace=workspace.name))
    workspace.wait_ready("slow")
    assert workspace.node_of("slow") == NODE
    assert {claim["status"]["phase"] for claim in workspace.items("pvc")} == {"Bound"}
