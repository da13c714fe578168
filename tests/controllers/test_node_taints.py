"""Which taints a node should have."""

import msgspec
import pytest

from mooring.api import kinds
from mooring.api.views.core import Node
from mooring.controllers.node_health import desired_taints
from support.builders import Body, node_body

NOW = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T00:00:00Z"
PREFIX = "node.kubernetes.io/"


def a_node(*conditions: str, taints: tuple[Body, ...] = (), cordoned: bool = False) -> Node:
    body = node_body(taints=taints, unschedulable=cordoned)
    body["status"]["conditions"] = [dict(zip(("type", "status"), said.split("="), strict=True)) for said in conditions]
    return kinds.NODE.decode(msgspec.json.encode(body))


def taint(key: str, effect: str, **more: str) -> Body:
    return {"key": key, "effect": effect, **more}


@pytest.mark.parametrize(
    ("node", "evict", "expected"),
    [
        pytest.param(a_node("Ready=True"), False, None, id="well"),
        pytest.param(a_node(), True, None, id="never reported"),
        pytest.param(
            a_node("Ready=False"), False, [taint(f"{PREFIX}not-ready", "NoSchedule")], id="not ready, its pods stay"
        ),
        pytest.param(
            a_node("Ready=Unknown"),
            True,
            [
                taint(f"{PREFIX}unreachable", "NoSchedule"),
                taint(f"{PREFIX}unreachable", "NoExecute", timeAdded=NOW),
            ],
            id="unreachable, its pods go",
        ),
        pytest.param(
            a_node("Ready=True", "DiskPressure=True"),
            True,
            [taint(f"{PREFIX}disk-pressure", "NoSchedule")],
            id="under pressure",
        ),
        pytest.param(
            a_node("Ready=True", cordoned=True), False, [taint(f"{PREFIX}unschedulable", "NoSchedule")], id="cordoned"
        ),
        pytest.param(
            a_node(
                "Ready=True",
                taints=(taint("dedicated", "NoExecute", value="db"), taint(f"{PREFIX}unreachable", "NoExecute")),
            ),
            True,
            [taint("dedicated", "NoExecute", value="db")],
            id="healthy again; foreign taint stays",
        ),
        pytest.param(
            a_node(
                "Ready=Unknown",
                taints=(
                    taint(f"{PREFIX}unreachable", "NoSchedule"),
                    taint(f"{PREFIX}unreachable", "NoExecute", timeAdded=EARLIER),
                ),
            ),
            True,
            None,
            id="as it should be",
        ),
        pytest.param(
            a_node("Ready=False", taints=(taint(f"{PREFIX}unreachable", "NoExecute", timeAdded=EARLIER),)),
            True,
            [taint(f"{PREFIX}not-ready", "NoSchedule"), taint(f"{PREFIX}not-ready", "NoExecute", timeAdded=NOW)],
            id="was unreachable, is not ready now",
        ),
    ],
)
def test_taints(node: Node, evict: bool, expected: list[Body] | None) -> None:
    assert desired_taints(node, evict=evict, now=NOW) == expected
