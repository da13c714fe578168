"""Tables of ConfigMaps, Secrets, nodes, namespaces and leases."""

from typing import Any

import pytest

from mooring.api import kinds
from mooring.server.kinds.columns import Cell
from mooring.server.kinds.registry import rules_of
from support.server.table_rows import row


def test_config_maps_count_both_kinds_of_data() -> None:
    config = {"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}, "binaryData": {"z": "AA=="}}
    assert row(kinds.CONFIG_MAP, config) == {"Name": "a", "Data": 3, "Age": "5m"}


def test_secrets() -> None:
    secret = {"metadata": {"name": "s"}, "type": "Opaque", "data": {"x": "AA=="}}
    assert row(kinds.SECRET, secret) == {"Name": "s", "Type": "Opaque", "Data": 1, "Age": "5m"}


def test_service_accounts() -> None:
    assert row(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "default"}}) == {"Name": "default", "Age": "5m"}


Body = dict[str, Any]

INFO = {
    "kubeletVersion": "v1.37.1",
    "osImage": "Debian 12",
    "kernelVersion": "6.1",
    "containerRuntimeVersion": "none://1",
}
ADDRESSES = [
    {"type": "Hostname", "address": "node-1"},
    {"type": "InternalIP", "address": "10.0.0.1"},
    {"type": "InternalIP", "address": "fd00::1"},
    {"type": "ExternalIP", "address": "192.0.2.1"},
]


def a_node(*, ready: str | None = "True", unschedulable: bool = False, labels: Body | None = None) -> Body:
    conditions = [{"type": "MemoryPressure", "status": "False"}]
    if ready is not None:
        conditions.append({"type": "Ready", "status": ready})
    return {
        "metadata": {"name": "node-1", "labels": labels or {}},
        "spec": {"unschedulable": True} if unschedulable else {},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(a_node(), "Ready", id="ready"),
        pytest.param(a_node(ready="False"), "NotReady", id="not ready"),
        pytest.param(a_node(ready="Unknown"), "NotReady", id="not heard of"),
        pytest.param(a_node(ready=None), "Unknown", id="says nothing"),
        pytest.param(a_node(unschedulable=True), "Ready,SchedulingDisabled", id="cordoned"),
    ],
)
def test_node_status(node: Body, want: str) -> None:
    assert row(kinds.NODE, node)["Status"] == want


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"a": "b"}, "<none>", id="none"),
        pytest.param({"node-role.kubernetes.io/control-plane": ""}, "control-plane", id="one"),
        pytest.param(
            {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/db": "", "kubernetes.io/role": "old"},
            "db,old,worker",
            id="several, sorted",
        ),
        pytest.param({"node-role.kubernetes.io/": ""}, "<none>", id="without a name"),
    ],
)
def test_node_roles(labels: Body, want: str) -> None:
    assert row(kinds.NODE, a_node(labels=labels))["Roles"] == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(
            {"nodeInfo": INFO, "addresses": ADDRESSES},
            ["v1.37.1", "10.0.0.1", "192.0.2.1", "Debian 12", "6.1", "none://1"],
            id="all known",
        ),
        pytest.param({}, ["", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"], id="nothing known"),
    ],
)
def test_node_info_and_addresses(status: Body, want: list[Cell]) -> None:
    cells = row(kinds.NODE, {"metadata": {"name": "n"}, "status": status})
    assert [
        cells[column]
        for column in ("Version", "Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
    ] == want


def test_node_columns() -> None:
    columns = rules_of(kinds.NODE).printer.columns
    assert [column.name for column in columns if not column.wide] == ["Name", "Status", "Roles", "Age", "Version"]


def test_namespaces() -> None:
    namespace = {"metadata": {"name": "default"}, "status": {"phase": "Active"}}
    assert row(kinds.NAMESPACE, namespace) == {"Name": "default", "Status": "Active", "Age": "5m"}


def test_leases() -> None:
    lease = {"metadata": {"name": "node-1"}, "spec": {"holderIdentity": "node-1"}}
    assert row(kinds.LEASE, lease) == {"Name": "node-1", "Holder": "node-1", "Age": "5m"}
    assert row(kinds.LEASE, {"metadata": {"name": "free"}})["Holder"] == ""
