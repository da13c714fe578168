"""Rows of data as Nodes."""

import pytest

from mooring.api import well_known
from mooring.api.views.core import Node, NodeStatus
from mooring.nodeagent.node_objects import (
    DEFAULT_CAPACITY,
    NodeTemplate,
    is_ready,
    is_simulated,
    ready_status,
    registration,
)
from support.builders import a_node

NOW = "2026-01-01T00:00:00Z"


def test_registration_of_a_row() -> None:
    body = registration(NodeTemplate("node-1", zone="a", region="r", labels={"disk": "ssd"}))
    assert body["spec"] == {"providerID": "mooring://node-1"}
    labels = body["metadata"]["labels"]
    assert labels[well_known.HOSTNAME] == "node-1"
    assert (labels[well_known.ZONE], labels[well_known.REGION], labels["disk"]) == ("a", "r", "ssd")


def test_row_without_a_zone_has_no_zone_label() -> None:
    assert well_known.ZONE not in registration(NodeTemplate("node-1"))["metadata"]["labels"]


def test_rows_do_not_share_their_figures() -> None:
    NodeTemplate("node-1").capacity["cpu"] = "1"
    assert NodeTemplate("node-2").capacity == DEFAULT_CAPACITY


@pytest.mark.parametrize(
    ("node", "want"),
    [pytest.param(a_node(), True, id="ready"), pytest.param(a_node(ready=False), False, id="not ready")],
)
def test_readiness(node: Node, want: bool) -> None:
    assert is_ready(node) is want


def test_foreign_nodes_are_not_simulated() -> None:
    assert not is_simulated(a_node())


def test_what_a_node_reports_already_is_kept() -> None:
    status = ready_status("node-1", a_node(allocatable={"cpu": "3"}).status, DEFAULT_CAPACITY, now=NOW)
    assert status["allocatable"]["cpu"] == "3"
    assert ready_status("node-1", NodeStatus(), DEFAULT_CAPACITY, now=NOW)["allocatable"] == DEFAULT_CAPACITY
