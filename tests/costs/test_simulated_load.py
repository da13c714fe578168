"""Cost of pods with provisioned volumes while the whole control plane runs, counted in function calls."""

from typing import Final

import pytest
from bench.simulated_load import run

NODES: Final = 10
#: Of one pod, its claim and its volume in all components together, with some slack.
MAX_CALLS: Final = 35_000


@pytest.mark.level("s")
def test_a_pod_costs_the_same_among_more_pods() -> None:
    """Twenty-one writes, two of them for the record of the request, each observed by up to seventeen informers; nothing
    may look at all pods for one of them."""
    few, many = (run(pods, NODES, count=True).calls / pods for pods in (100, 200))
    assert many < 1.1 * few
    assert many < MAX_CALLS
