"""Pods that share a delayed claim: the first goes to where the others can run too."""

from typing import Final

import pytest

from mooring.api import well_known
from support.builders import Body, claim_body, pod_body
from support.e2e.workspace import Workspace

GATE: Final = "example.com/wait"


def user(name: str, *, hostname: str = "", gated: bool = False) -> Body:
    selector = {well_known.HOSTNAME: hostname} if hostname else None
    gates = [GATE] if gated else []
    return pod_body(name=name, namespace="", claims=["shared"], gates=gates, node_selector=selector)


@pytest.mark.req("T49.together")
@pytest.mark.parametrize("storage_class", ["fast", "local"])
@pytest.mark.parametrize("hostname", ["node-1", "node-2", "node-3"])
def test_pod_is_scheduled_to_the_node_of_another_with_its_claim(
    workspace: Workspace, storage_class: str, hostname: str
) -> None:
    workspace.apply(claim_body(name="shared", namespace="", storage_class=storage_class, size="1Gi"))
    workspace.apply(user("fixed", hostname=hostname, gated=True))
    workspace.apply(user("free"))
    workspace.wait_ready("free")
    assert workspace.node_of("free") == hostname
    workspace("patch", "pod", "fixed", "--type=merge", "-p", '{"spec":{"schedulingGates":null}}')
    workspace.wait_ready("free", "fixed")
    assert workspace.node_of("fixed") == hostname
