"""The room that stand-ins play: charged per class and place, read back from volumes."""

import pytest

from builders import a_class, a_volume, reachable_from
from mooring.api import keys
from mooring.api.views.storage import StorageClass
from mooring.provisioner.standins.pools import Pools

GI = 2**30
A, B = frozenset({"a"}), frozenset({"b"})


def small(capacity: str = "10Gi", unavailable: str = "") -> StorageClass:
    return a_class(name="disks", parameters={"capacityPerDomain": capacity, "unavailableIn": unavailable})


def test_a_place_is_full_when_its_volumes_fill_it() -> None:
    pools = Pools()
    pools.charge("v1", "disks", [A], 7 * GI)
    assert pools.trouble_in(A, small(), 3 * GI) == ""
    assert "not enough storage in a" in pools.trouble_in(A, small(), 3 * GI + 1)
    assert pools.trouble_in(B, small(), 10 * GI) == ""
    pools.release("v1")
    pools.release("v1")
    assert pools.trouble_in(A, small(), 10 * GI) == ""


def test_a_volume_counts_once_however_often_it_is_seen() -> None:
    pools = Pools()
    volume = a_volume(name="v1", size="6Gi", storage_class="disks", affinity=reachable_from(keys.ZONE, "a", "b"))
    pools.charge("v1", "disks", [A, B], 6 * GI)
    pools.observe(volume)
    pools.observe(volume)
    for place in (A, B):
        assert pools.trouble_in(place, small(), 4 * GI) == ""
        assert pools.trouble_in(place, small(), 5 * GI) != ""


@pytest.mark.parametrize(
    ("named", "trouble"),
    [
        pytest.param("a", True, id="the place"),
        pytest.param("b, a", True, id="among others"),
        pytest.param("b", False, id="another place"),
        pytest.param("", False, id="none"),
    ],
)
def test_nothing_is_made_where_the_class_says_so(named: str, trouble: bool) -> None:
    assert bool(Pools().trouble_in(A, small(unavailable=named), 1)) == trouble


def test_without_parameters_there_is_always_room() -> None:
    assert Pools().trouble_in(A, a_class(), 2**60) == ""
