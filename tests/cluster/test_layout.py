"""How nodes are laid out over zones and racks."""

from mooring.api import well_known
from mooring.cluster.bootstrap import Layout


def test_nodes_are_spread_over_zones_and_racks() -> None:
    rows = Layout(6, 3, racks=2).rows()
    assert [(row.name, row.zone, row.labels[well_known.RACK]) for row in rows] == [
        ("node-1", "zone-a", "zone-a-rack-1"),
        ("node-2", "zone-b", "zone-b-rack-1"),
        ("node-3", "zone-c", "zone-c-rack-1"),
        ("node-4", "zone-a", "zone-a-rack-2"),
        ("node-5", "zone-b", "zone-b-rack-2"),
        ("node-6", "zone-c", "zone-c-rack-2"),
    ]


def test_without_racks_there_is_no_label() -> None:
    assert all(well_known.RACK not in row.labels for row in Layout(6, 3).rows())


def test_generated_names_have_the_given_prefix() -> None:
    assert [row.name for row in Layout(2, prefix="edge").rows()] == ["edge-1", "edge-2"]
