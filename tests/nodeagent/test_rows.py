"""Rows of data as Nodes."""

import pytest

from builders import a_node
from mooring.api import keys
from mooring.api.views.node import Node
from mooring.nodeagent.rows import DEFAULT_CAPACITY, NodeRow, is_ready, played_here, ready_status, registration

NOW = "2026-01-01T00:00:00Z"


def test_registration_of_a_row() -> None:
    body = registration(NodeRow("node-1", zone="a", region="r", labels={"disk": "ssd"}))
    assert body["spec"] == {"providerID": "mooring://node-1"}
    labels = body["metadata"]["labels"]
    assert labels[keys.HOSTNAME] == "node-1"
    assert (labels[keys.ZONE], labels[keys.REGION], labels["disk"]) == ("a", "r", "ssd")


def test_row_without_a_zone_has_no_zone_label() -> None:
    assert keys.ZONE not in registration(NodeRow("node-1"))["metadata"]["labels"]


def test_rows_do_not_share_their_figures() -> None:
    NodeRow("node-1").capacity["cpu"] = "1"
    assert NodeRow("node-2").capacity == DEFAULT_CAPACITY


@pytest.mark.parametrize(
    ("node", "wanted"),
    [pytest.param(a_node(), True, id="ready"), pytest.param(a_node(ready=False), False, id="not ready")],
)
def test_readiness(node: Node, wanted: bool) -> None:
    assert is_ready(node) is wanted


def test_nodes_of_others_are_not_played_here() -> None:
    assert not played_here(a_node())


def test_what_a_node_reports_already_is_kept() -> None:
    status = ready_status(a_node(allocatable={"cpu": "3"}), DEFAULT_CAPACITY, now=NOW)
    assert status["allocatable"]["cpu"] == "3"
    bare = Node(metadata=a_node().metadata)
    assert ready_status(bare, DEFAULT_CAPACITY, now=NOW)["allocatable"] == DEFAULT_CAPACITY
