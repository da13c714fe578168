"""Claims with selectors are answered from columns of their own, which stay current."""

from unittest.mock import patch

import pytest

from mooring.volumes import free_volumes
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.state import ConflictReason
from support.builders import Body, a_claim, a_volume
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.req("T29.selectors"), pytest.mark.level("u")]


def selecting(medium: str) -> Body:
    return {"matchLabels": {"medium": medium}}


def labelled(name: str, medium: str, node: str, *, version: str = "1") -> dict[str, object]:
    return {"name": name, "node": node, "labels": {"medium": medium}, "version": version}


SSD = a_volume(**labelled("ssd", "ssd", "n1"))
HDD = a_volume(**labelled("hdd", "hdd", "n2"))
SELECTING = a_claim(name="picky", selector=selecting("ssd"))


def test_volumes_that_come_go_and_change_their_labels() -> None:
    library = VolumeLibrary(SELECTING, SSD, HDD)
    assert library.rejected("picky") == {ConflictReason.NO_VOLUME: {"n2"}}

    relabelled = a_volume(**labelled("hdd", "ssd", "n2", version="2"))
    library.state.observe_volume(HDD, relabelled)
    assert library.rejected("picky") == {}

    library.state.observe_volume(SSD, None)
    assert library.rejected("picky") == {ConflictReason.NO_VOLUME: {"n1"}}

    library.state.observe_volume(relabelled, HDD)
    assert library.rejected("picky") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}


def test_no_volume_is_looked_into_to_reject_nodes() -> None:
    library = VolumeLibrary(SELECTING, SSD, HDD)
    library.rejected("picky")

    with patch.object(ClaimRequirements, "first_mismatch", side_effect=AssertionError("looked into a volume")):
        assert library.rejected("picky") == {ConflictReason.NO_VOLUME: {"n2"}}


def test_an_empty_selector_is_none() -> None:
    library = VolumeLibrary(a_claim(name="any", selector={}), SSD, HDD)

    assert library.rejected("any") == {}


def test_least_recently_used_selectors_are_rebuilt() -> None:
    media = ["ssd", "hdd", "tape"]
    claims = [a_claim(name=medium, selector=selecting(medium)) for medium in media]
    with patch.object(free_volumes, "MAX_CACHED_SELECTORS", 2):
        library = VolumeLibrary(*claims, SSD, HDD)
        for _ in range(2):
            assert [library.rejected(medium).get(ConflictReason.NO_VOLUME) for medium in media] == [
                {"n2"},
                {"n1"},
                {"n1", "n2"},
            ]


@pytest.mark.req("T10.feasible")
def test_claims_with_and_without_selector_compete() -> None:
    """Where there are enough volumes whatever the others take, nothing is tried out; elsewhere everything is."""
    library = VolumeLibrary(
        SELECTING,
        a_claim(name="any"),
        *(a_volume(**labelled(f"s{number}", "ssd", "n1")) for number in range(2)),
        a_volume(**labelled("alone", "ssd", "n2")),
    )

    assert library.rejected("picky", "any") == {ConflictReason.NO_VOLUME: {"n2"}}
