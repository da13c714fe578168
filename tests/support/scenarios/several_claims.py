"""One pod with two claims on local volumes: the third entry of the topology design's list."""

from pathlib import Path
from typing import Final

from support.scenarios.placements import Placed

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "pod-two-claims.yaml"


def assert_placed(placed: list[Placed]) -> None:
    """The pod runs on the node of both volumes."""
    assert [p.pod for p in placed] == ["search"]
    assert placed[0].together
    assert len(placed[0].volume_nodes) == 2


def assert_waits(placed: list[Placed]) -> None:
    """One volume per node is not enough for two claims, and neither of them is bound."""
    assert placed == [Placed("search", "Pending", node="", volume_nodes=("", ""))]
