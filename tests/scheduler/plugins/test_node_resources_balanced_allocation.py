import pytest

from mooring.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation
from support.builders import a_node, a_pod
from support.scheduler.snapshots import a_snapshot, scored

PLUGIN = NodeResourcesBalancedAllocation()


@pytest.mark.parametrize(
    ("offers", "there", "asks", "score"),
    [
        pytest.param({"cpu": "4", "memory": "4Gi"}, {}, {"cpu": "1", "memory": "1Gi"}, 75, id="balance stays"),
        pytest.param(
            {"cpu": "4", "memory": "4Gi"}, {"cpu": "2"}, {"memory": "2Gi"}, 87, id="the pod takes what lies idle"
        ),
        pytest.param({"cpu": "4", "memory": "4Gi"}, {}, {"cpu": "2"}, 62, id="the pod takes one only"),
        pytest.param({"cpu": "4", "memory": "4Gi"}, {}, {"cpu": "4"}, 50, id="and all of it"),
        pytest.param({"cpu": "0", "memory": "4Gi"}, {}, {"memory": "4Gi"}, 75, id="one is not offered at all"),
        pytest.param(
            {"cpu": "1", "memory": "4Gi"}, {"cpu": "3"}, {"cpu": "1"}, 75, id="more in use than there is counts as all"
        ),
    ],
)
def test_scores(offers: dict[str, str], there: dict[str, str], asks: dict[str, str], score: int) -> None:
    resident = a_pod(name="there", node="n", requests=there)
    assert scored(PLUGIN, a_pod(requests=asks), a_snapshot(a_node(name="n", allocatable=offers), resident)) == {
        "n": score
    }


def test_a_pod_that_asks_for_nothing_has_no_opinion() -> None:
    assert scored(PLUGIN, a_pod(), a_snapshot(a_node(name="n"))) is None


def test_three_resources_deviate_as_usual() -> None:
    plugin = NodeResourcesBalancedAllocation(("cpu", "memory", "example.com/gpu"))
    node = a_node(name="n", allocatable={"cpu": "4", "memory": "4Gi", "example.com/gpu": "2"})
    # 1/4, 0 and 1/2: their mean is 1/4, their deviation sqrt(1/24); all zero before.
    after = int((1 - (1 / 24) ** 0.5) * 100)
    asks = {"cpu": "1", "example.com/gpu": "1"}
    assert scored(plugin, a_pod(requests=asks), a_snapshot(node)) == {"n": 50 + (50 + after - 100) // 2}
