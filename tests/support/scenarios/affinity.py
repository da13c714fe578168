"""StatefulSet of two that must share a node, on local volumes: the second entry of the topology design's list."""

from pathlib import Path
from typing import Final

from support.scenarios.placements import Placed

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "statefulset-together.yaml"


def assert_all_placed(placed: list[Placed]) -> None:
    """Two pods on one node, each with a volume of that node."""
    assert [p.pod for p in placed] == ["cache-0", "cache-1"]
    assert all(p.together for p in placed)
    assert len({p.node for p in placed}) == 1


def assert_second_waits(placed: list[Placed]) -> None:
    """One volume per node: the first pod uses the only one of its node, so the second is unschedulable."""
    assert [p.pod for p in placed] == ["cache-0", "cache-1"]
    assert placed[0].together
    assert placed[1] == Placed("cache-1", "Pending", node="", volume_nodes=("",))
