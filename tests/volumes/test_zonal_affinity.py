"""Zone labels of volumes, read as node affinity."""

from collections.abc import Mapping, Sequence

import pytest

from mooring.api import keys
from mooring.volumes.zonal_affinity import zonal_affinity

OLD = {keys.ZONE_BETA, keys.REGION_BETA}
NEW = {keys.ZONE, keys.REGION}


@pytest.mark.parametrize(
    ("labels", "node_keys", "wanted"),
    [
        pytest.param(
            {keys.ZONE_BETA: "us-central1-a", keys.REGION_BETA: "us-central1"},
            OLD,
            [(keys.ZONE_BETA, ["us-central1-a"]), (keys.REGION_BETA, ["us-central1"])],
            id="zonal volume of the topology design",
        ),
        pytest.param(
            {keys.ZONE_BETA: "us-central1-a__us-central1-b", keys.REGION_BETA: "us-central1"},
            OLD,
            [(keys.ZONE_BETA, ["us-central1-a", "us-central1-b"]), (keys.REGION_BETA, ["us-central1"])],
            id="multi-zonal volume of the topology design",
        ),
        pytest.param({keys.ZONE: "a"}, NEW, [(keys.ZONE, ["a"])], id="today's label"),
        pytest.param({keys.ZONE_BETA: "a"}, NEW, [(keys.ZONE, ["a"])], id="only today's label on nodes"),
        pytest.param({keys.ZONE_BETA: "a"}, OLD | NEW, [(keys.ZONE_BETA, ["a"])], id="both on nodes: as labelled"),
        pytest.param({keys.ZONE_BETA: "a"}, set(), [(keys.ZONE_BETA, ["a"])], id="no nodes: as labelled"),
        pytest.param({keys.ZONE: "a"}, OLD, [(keys.ZONE, ["a"])], id="never back to the old label"),
        pytest.param({keys.ZONE_BETA: "a", keys.ZONE: "a"}, OLD | NEW, [(keys.ZONE, ["a"])], id="both: today's alone"),
        pytest.param({keys.REGION: "r"}, NEW, [(keys.REGION, ["r"])], id="a region alone"),
        pytest.param({keys.ZONE: "b__a__b"}, NEW, [(keys.ZONE, ["a", "b"])], id="a zone twice"),
        pytest.param({keys.ZONE: ""}, NEW, None, id="an empty label"),
        pytest.param({keys.ZONE: "a__"}, NEW, None, id="a label with an empty part"),
        pytest.param({"disk": "ssd"}, NEW, None, id="other labels"),
    ],
)
@pytest.mark.req("T36")
def test_affinity(
    labels: Mapping[str, str], node_keys: set[str], wanted: Sequence[tuple[str, Sequence[str]]] | None
) -> None:
    affinity = zonal_affinity(labels, node_keys)
    if wanted is None:
        assert affinity is None
        return
    assert affinity is not None
    [term] = affinity["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": key, "operator": "In", "values": values} for key, values in wanted]
