"""StatefulSet of three with required anti-affinity on local volumes: the first entry of the topology design's list."""

from pathlib import Path
from typing import Any, Final

import yaml

from support.scenarios.placements import Placed

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "statefulset-local.yaml"


def manifests() -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(EXAMPLE.read_text()) if document]


def assert_all_placed(placed: list[Placed]) -> None:
    """Three pods on three nodes, each with a volume of its own node."""
    assert [p.pod for p in placed] == ["db-0", "db-1", "db-2"]
    assert all(p.together for p in placed)
    assert {p.node for p in placed} == {"node-1", "node-2", "node-3"}


def assert_third_waits(placed: list[Placed]) -> None:
    """Volumes on two nodes only: two pods run, the third stays pending and no volume is bound for it."""
    assert [p.pod for p in placed] == ["db-0", "db-1", "db-2"]
    assert all(p.together for p in placed[:2])
    assert {p.node for p in placed[:2]} == {"node-1", "node-2"}
    assert placed[2] == Placed("db-2", "Pending", node="", volume_nodes=("",))
