"""StatefulSet of three with required anti-affinity on local volumes: the first entry of the topology design's list.

Facts come in as plain objects, however a world got hold of them.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "statefulset-local.yaml"
NO_VOLUMES: Final = "node(s) didn't find available persistent volumes to bind"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"


class Placed(NamedTuple):
    """Where a pod runs, and where its volume is; empty while it is not decided."""

    pod: str
    phase: str
    node: str
    volume_node: str


def manifests() -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(EXAMPLE.read_text()) if document]


def placements(pods: list[dict[str, Any]], claims: list[dict[str, Any]], volumes: list[dict[str, Any]]) -> list[Placed]:
    volume_of = {c["metadata"]["name"]: c["spec"].get("volumeName", "") for c in claims}
    node_of = {v["metadata"]["name"]: _only_node(v) for v in volumes} | {"": ""}
    placed = []
    for pod in sorted(pods, key=lambda one: one["metadata"]["name"]):
        claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        node = pod["spec"].get("nodeName", "")
        placed.append(Placed(pod["metadata"]["name"], pod["status"]["phase"], node, node_of[volume_of.get(claim, "")]))
    return placed


def _only_node(volume: dict[str, Any]) -> str:
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [expression] = term["matchExpressions"]
    [node] = expression["values"]
    return str(node)


def assert_all_placed(placed: list[Placed]) -> None:
    """Three pods on three nodes, each with a volume of its own node."""
    assert [p.pod for p in placed] == ["db-0", "db-1", "db-2"]
    assert {p.phase for p in placed} == {"Running"}
    assert {p.node for p in placed} == {"node-1", "node-2", "node-3"}
    assert all(p.node == p.volume_node for p in placed)


def assert_third_waits(placed: list[Placed]) -> None:
    """Volumes on two nodes only: two pods run, the third stays pending and no volume is bound for it."""
    assert [p.pod for p in placed] == ["db-0", "db-1", "db-2"]
    assert [p.phase for p in placed] == ["Running", "Running", "Pending"]
    assert {p.node for p in placed[:2]} == {"node-1", "node-2"}
    assert all(p.node == p.volume_node for p in placed[:2])
    assert placed[2].node == placed[2].volume_node == ""
