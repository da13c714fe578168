"""Claims with selectors are answered from columns of their own, which stay current."""

from unittest.mock import patch

import pytest

from builders import Body, a_claim, a_volume
from builders.volume_worlds import VolumeWorld
from mooring.volumes import free_volumes
from mooring.volumes.matching import Needs
from mooring.volumes.state import NOTHING_TO_BIND

pytestmark = [pytest.mark.req("T29"), pytest.mark.level("u")]


def selecting(medium: str) -> Body:
    return {"matchLabels": {"medium": medium}}


def labelled(name: str, medium: str, node: str, *, version: str = "1") -> dict[str, object]:
    return {"name": name, "node": node, "labels": {"medium": medium}, "version": version}


SSD = a_volume(**labelled("ssd", "ssd", "n1"))
HDD = a_volume(**labelled("hdd", "hdd", "n2"))
PICKY = a_claim(name="picky", selector=selecting("ssd"))


def test_volumes_that_come_go_and_change_their_labels() -> None:
    world = VolumeWorld(PICKY, SSD, HDD)
    assert world.rejected("picky") == {NOTHING_TO_BIND: {"n2"}}

    relabelled = a_volume(**labelled("hdd", "ssd", "n2", version="2"))
    world.state.observe_volume(HDD, relabelled)
    assert world.rejected("picky") == {}

    world.state.observe_volume(SSD, None)
    assert world.rejected("picky") == {NOTHING_TO_BIND: {"n1"}}

    world.state.observe_volume(relabelled, HDD)
    assert world.rejected("picky") == {NOTHING_TO_BIND: {"n1", "n2"}}


def test_no_volume_is_looked_into_to_reject_nodes() -> None:
    world = VolumeWorld(PICKY, SSD, HDD)
    world.rejected("picky")

    with patch.object(Needs, "why_not", side_effect=AssertionError("looked into a volume")):
        assert world.rejected("picky") == {NOTHING_TO_BIND: {"n2"}}


def test_an_empty_selector_is_none() -> None:
    world = VolumeWorld(a_claim(name="any", selector={}), SSD, HDD)

    assert world.rejected("any") == {}


def test_selectors_longest_unused_are_forgotten_and_made_anew() -> None:
    media = ["ssd", "hdd", "tape"]
    claims = [a_claim(name=medium, selector=selecting(medium)) for medium in media]
    with patch.object(free_volumes, "REMEMBERED_SELECTORS", 2):
        world = VolumeWorld(*claims, SSD, HDD)
        for _ in range(2):
            assert [world.rejected(medium).get(NOTHING_TO_BIND) for medium in media] == [{"n2"}, {"n1"}, {"n1", "n2"}]


@pytest.mark.req("T10")
def test_claims_with_and_without_selector_compete() -> None:
    """Where there are enough volumes whatever the others take, nothing is tried out; elsewhere everything is."""
    world = VolumeWorld(
        PICKY,
        a_claim(name="any"),
        *(a_volume(**labelled(f"s{number}", "ssd", "n1")) for number in range(2)),
        a_volume(**labelled("alone", "ssd", "n2")),
    )

    assert world.rejected("picky", "any") == {NOTHING_TO_BIND: {"n2"}}
