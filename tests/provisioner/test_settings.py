"""What a driver's error means: every code, with and without a selected node."""

import pytest

from mooring.csi.contract import Code, DriverError
from mooring.provisioner.settings import ProvisioningState, after_error

BACKGROUND = {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED}


@pytest.mark.parametrize("code", [pytest.param(code, id=code.name) for code in Code])
@pytest.mark.req("T17.final-errors")
def test_every_code(code: Code) -> None:
    found = after_error(DriverError(code, "why"), topology=True, selected_node="node-1")
    if code in BACKGROUND:
        want = ProvisioningState.IN_BACKGROUND
    elif code is Code.RESOURCE_EXHAUSTED:
        want = ProvisioningState.RESCHEDULE
    else:
        want = ProvisioningState.FINISHED
    assert found.state is want
    assert found.infeasible == (code is Code.INVALID_ARGUMENT)


@pytest.mark.parametrize(
    ("topology", "node", "want"),
    [
        pytest.param(True, "node-1", ProvisioningState.RESCHEDULE, id="another node may have room"),
        pytest.param(True, "", ProvisioningState.FINISHED, id="no selected node"),
        pytest.param(False, "node-1", ProvisioningState.FINISHED, id="the driver knows no places"),
    ],
)
@pytest.mark.req("T17.no-room")
def test_resource_exhausted(topology: bool, node: str, want: ProvisioningState) -> None:
    error = DriverError(Code.RESOURCE_EXHAUSTED, "full")
    assert after_error(error, topology=topology, selected_node=node).state is want


@pytest.mark.parametrize(
    ("code", "want"),
    [
        pytest.param(Code.RESOURCE_EXHAUSTED, "rpc error: code = ResourceExhausted desc = why", id="two words"),
        pytest.param(Code.CANCELLED, "rpc error: code = Canceled desc = why", id="Go spells it with one l"),
        pytest.param(Code.INTERNAL, "rpc error: code = Internal desc = why", id="one word"),
    ],
)
def test_words(code: Code, want: str) -> None:
    assert after_error(DriverError(code, "why"), topology=True, selected_node="").text == want
