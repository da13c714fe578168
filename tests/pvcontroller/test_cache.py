"""Which version of an object counts, and which objects there are.

What the PV controller finds through its index: volumes for claims, and claims for volumes.
"""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.storage import StorageClass, Volume, default_class
from mooring.pvcontroller.cache import BindingCache, NewestCache, WaitingClaims
from support.builders import a_claim, a_class, a_volume, claim_ref


def a_cache(*volumes: Volume) -> NewestCache[Volume]:
    cache: NewestCache[Volume] = NewestCache(lambda volume: (volume.storage_class,))
    for volume in volumes:
        cache.observe(None, volume)
    return cache


def version(cache: NewestCache[Volume]) -> str:
    found = cache.get("volume-1")
    return found.metadata.resource_version if found is not None else "none"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(["1"], "1", id="new"),
        pytest.param(["1", "1"], "1", id="the same again"),
        pytest.param(["1", "2"], "2", id="newer"),
        pytest.param(["2", "1"], "2", id="older"),
        pytest.param(["2", "10"], "10", id="versions are numbers, not texts"),
    ],
)
@pytest.mark.req("T42.PC2")
def test_newest_version_wins(shown: list[str], expected: str) -> None:
    assert version(a_cache(*(a_volume(version=one) for one in shown))) == expected


@pytest.mark.req("T42.PC2")
def test_version_that_is_no_number_is_an_error() -> None:
    cache = a_cache(a_volume(version="1"))
    with pytest.raises(ValueError, match="xxx"):
        cache.observe(None, a_volume(version="xxx"))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(a_volume(version="6"), "6", id="newer than what the watch showed"),
        pytest.param(a_volume(version="4"), "5", id="the watch was faster"),
        pytest.param(a_volume(version="6", uid="another"), "5", id="of an object that was replaced meanwhile"),
    ],
)
@pytest.mark.req("T42.PC2")
def test_answers_to_own_writes(answer: Volume, expected: str) -> None:
    cache = a_cache(a_volume(version="5"))
    cache.apply_write_result(answer)
    assert version(cache) == expected


@pytest.mark.req("T42.PC3")
def test_answer_does_not_raise_the_dead() -> None:
    cache = a_cache(a_volume(version="5"))
    cache.observe(a_volume(version="5"), None)
    cache.apply_write_result(a_volume(version="6"))
    assert cache.get("volume-1") is None
    assert not cache.by_index("local")


@pytest.mark.req("T42.PC3")
def test_deletion_counts_even_if_an_own_write_was_newer() -> None:
    cache = a_cache(a_volume(version="5"))
    cache.apply_write_result(a_volume(version="6"))
    cache.observe(a_volume(version="5"), None)
    assert cache.get("volume-1") is None


def test_shelves_follow_the_objects() -> None:
    cache = a_cache(a_volume(version="1"), a_volume(name="volume-2"))
    cache.observe(None, a_volume(version="2", storage_class="gold"))
    assert [volume.name for volume in cache.by_index("local")] == ["volume-2"]
    assert [volume.name for volume in cache.by_index("gold")] == ["volume-1"]


RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"

volume = partial(a_volume, storage_class="", size="10G")
claim = partial(a_claim, storage_class="", size="1G")


def knowing(*volumes: Volume, classes: tuple[StorageClass, ...] = (), called: list[str] | None = None) -> BindingCache:
    """Facts with these volumes and classes, that note in `called` which claims they call."""
    cache = BindingCache(
        lambda key: (), claim_to_notify=lambda claim: None if called is None else called.append(claim.name)
    )
    for one in volumes:
        cache.volumes.observe(None, one)
    for storage_class in classes:
        cache.observe_class(None, storage_class)
    return cache


DISKS = (
    volume(name="gce", access_modes=[RWO, ROX]),
    volume(name="ebs", access_modes=[RWO]),
    volume(name="nfs", access_modes=[RWO, ROX, RWX]),
)


@pytest.mark.parametrize(
    ("modes", "taken", "expected"),
    [
        pytest.param([RWO], [], "ebs", id="the one that can do least"),
        pytest.param([RWO, ROX], [], "gce", id="the least that can do both"),
        pytest.param([RWX, RWO, ROX], [], "nfs", id="all three, in any order"),
        pytest.param([RWX], [], "nfs", id="the only one that can"),
        pytest.param([RWO], ["ebs"], "gce", id="the next best when the best is taken"),
        pytest.param([RWO], ["ebs", "gce"], "nfs", id="the last one left"),
        pytest.param([ROX], ["ebs"], "gce", id="one that offers more than is asked for"),
        pytest.param([RWO, "ReadWriteOncePod"], [], None, id="a mode no volume offers"),
    ],
)
@pytest.mark.req("T42.PC31")
def test_access_modes_decide_first(modes: list[str], taken: list[str], expected: str | None) -> None:
    cache = knowing(*DISKS)
    for one in DISKS:
        if one.name in taken:
            cache.volumes.observe(
                one, volume(name=one.name, version="2", access_modes=one.spec.access_modes, phase="Bound")
            )
    found = cache.best_volume(claim(access_modes=modes), delayed=False)
    assert (found.name if found else None) == expected


MINE = claim_ref()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"size": "8G"}, "large", id="reserved for this claim, although larger"),
        pytest.param({"size": "8G", "storage_class": "gold"}, "large", id="reserved, although of another class"),
        pytest.param({"size": "1M"}, "small", id="reserved, but too small: the smallest free one"),
        pytest.param({"size": "8G", "access_modes": [ROX]}, "small", id="reserved, but its modes do not cover"),
        pytest.param({"size": "8G", "access_modes": [RWO, ROX]}, "small", id="reserved, but a plainer one is free"),
    ],
)
@pytest.mark.req("T42.PC32")
def test_reserved_volumes(given: dict[str, Any], expected: str) -> None:
    cache = knowing(volume(name="small", size="2G"), volume(name="large", claim_ref=MINE, **given))
    found = cache.best_volume(claim(), delayed=False)
    assert found is not None
    assert found.name == expected


@pytest.mark.req("T42.PC8", "T6.not-bound")
def test_delayed_claim_gets_only_what_is_reserved_for_it() -> None:
    free = volume(name="free", storage_class="wait")
    reserved = volume(name="reserved", storage_class="wait", claim_ref=MINE)
    expected = claim(storage_class="wait")
    assert knowing(free).best_volume(expected, delayed=True) is None
    assert knowing(free, reserved).best_volume(expected, delayed=True) == reserved


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([a_class(name="a")], "", id="none is marked"),
        pytest.param(
            [a_class(name="a", annotations={well_known.DEFAULT_CLASS: "yes"})], "", id="the mark must say true"
        ),
        pytest.param(
            [a_class(name="a", annotations={well_known.DEFAULT_CLASS_BETA: "true"})], "a", id="the old mark counts"
        ),
        pytest.param([a_class(name="b", default=True), a_class(name="a", default=True)], "a", id="ties by name"),
    ],
)
@pytest.mark.req("T42.PC9")
def test_default_class(classes: list[StorageClass], expected: str) -> None:
    assert default_class(classes) == expected


@pytest.mark.parametrize(
    ("given", "count", "expected"),
    [
        pytest.param({}, 1, ["first"], id="who asks for most"),
        pytest.param({}, 2, ["first", "second"], id="one for each volume"),
        pytest.param({}, 3, ["first", "second", "third"], id="of equal ones who came first"),
        pytest.param({"size": "2G"}, 1, ["second"], id="whom it is large enough for"),
        pytest.param({"size": "1M"}, 1, [], id="none"),
        pytest.param({"labels": {"a": "b"}, "size": "3G"}, 3, ["second", "third", "picky"], id="whom its labels suit"),
        pytest.param({"size": "3G"}, 3, ["second", "third"], id="none whose selector rejects its labels"),
        pytest.param({"phase": "Pending"}, 1, [], id="none before it is Available"),
        pytest.param({"claim_ref": claim_ref(name="first")}, 1, [], id="none when it is reserved"),
        pytest.param({"storage_class": "wait"}, 1, [], id="none with delayed binding"),
        pytest.param({"size": "huge"}, 1, [], id="none when its size is invalid"),
    ],
)
@pytest.mark.req("T5.at-once")
def test_claim_notified_of_an_available_volume(given: dict[str, Any], count: int, expected: list[str]) -> None:
    called: list[str] = []
    cache = knowing(classes=(a_class(name="wait"),), called=called)
    broken = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    for waiting in (
        claim(name="broken", selector=broken),
        claim(name="bound", volume="volume-9"),
        claim(name="lost", bound=True),
        claim(name="delayed", storage_class="wait"),
        claim(name="first", size="5G"),
        claim(name="second", size="1G"),
        claim(name="third", size="1G"),
        claim(name="picky", selector={"matchLabels": {"a": "b"}}),
    ):
        cache.claims.observe(None, waiting)
    for number in range(count):
        cache.volumes.observe(None, volume(name=f"volume-{number}", **given))
    assert called == expected


def test_volume_calls_again_only_when_it_has_changed() -> None:
    called: list[str] = []
    cache = knowing(volume(), called=called)
    for name in ("one", "two", "three", "four"):
        cache.claims.observe(None, claim(name=name))
    cache.volumes.observe(volume(), volume(version="2"))
    assert called == []
    cache.volumes.observe(volume(), volume(version="3", labels={"a": "b"}))
    assert called == ["one"]
    cache.volumes.observe(volume(), volume(version="4", phase="Failed"))
    cache.volumes.apply_write_result(volume(version="5"))
    assert called == ["one", "two"], "what an own write made free counts too"


def test_claim_is_notified_again_after_its_attempt() -> None:
    called: list[str] = []
    cache = knowing(called=called)
    cache.claims.observe(None, claim())
    cache.volumes.observe(None, volume(name="a"))
    cache.volumes.observe(None, volume(name="b"))
    assert called == ["claim-1"]
    with cache.binding_attempt("default/claim-1"):
        cache.volumes.observe(None, volume(name="c"))
        assert called == ["claim-1"], "it looks by itself"
    cache.volumes.observe(None, volume(name="d"))
    assert called == ["claim-1", "claim-1"]


def test_claim_that_changes_while_called_is_not_called_twice() -> None:
    called: list[str] = []
    cache = knowing(called=called)
    cache.claims.observe(None, claim())
    cache.volumes.observe(None, volume(name="a"))
    cache.claims.observe(claim(), claim(version="2"))
    cache.volumes.observe(None, volume(name="b"))
    cache.claims.observe(claim(version="2"), None)
    with cache.binding_attempt("default/claim-1"):
        pass
    cache.volumes.observe(None, volume(name="c"))
    assert called == ["claim-1"], "after its turn it is gone"


def test_assumed_volume_is_not_offered_until_the_response_is_known() -> None:
    called: list[str] = []
    cache = knowing(volume(name="small", size="2G"), volume(name="large", size="5G"), called=called)
    small = cache.best_volume(claim(), delayed=False)
    assert small is not None
    assert small.name == "small"
    with cache.assumed(small):
        cache.volumes.observe(small, volume(name="small", size="2G", version="2"))
        other = cache.best_volume(claim(name="other"), delayed=False)
        assert other is not None
        assert other.name == "large"
        cache.claims.observe(None, claim(name="waiting"))
    assert called == ["waiting"], "the reservation came to nothing"
    again = cache.best_volume(claim(name="other"), delayed=False)
    assert again is not None
    assert again.name == "small"


def test_classes_come_change_and_go() -> None:
    cache = knowing(classes=(a_class(name="gold", default=True),))
    assert default_class(cache.classes.values()) == "gold"
    cache.observe_class(a_class(name="gold", default=True), a_class(name="gold"))
    assert default_class(cache.classes.values()) == ""
    cache.observe_class(a_class(name="gold"), None)
    assert cache.classes == {}


WAITING = st.lists(
    st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 9), st.sampled_from(["Filesystem", "Block"])),
    max_size=60,
)


@given(changes=WAITING, size=st.integers(0, 5))
def test_claim_to_notify_is_that_of_a_walk(changes: list[tuple[bool, int, int, str]], size: int) -> None:
    waiting = WaitingClaims()
    present: dict[str, tuple[int, int, str]] = {}
    for arrival, (comes, requested, number, mode) in enumerate(changes):
        name = f"claim-{number}"
        claim = a_claim(name=name, size=f"{requested}Gi", mode=mode)
        waiting.update(claim if name in present else None, claim if comes else None)
        present.pop(name, None)
        if comes:
            present[name] = requested, -arrival, mode
    fitting = {name: known for name, known in present.items() if known[0] <= size and known[2] == "Filesystem"}

    found = waiting.claim_to_notify(a_volume(size=f"{size}Gi"))

    assert (None if found is None else found.name) == max(fitting, key=lambda name: fitting[name], default=None)


def test_removed_claims_leave_nothing_behind() -> None:
    waiting = WaitingClaims()
    claims = [
        a_claim(name="plain"),
        a_claim(name="block", mode="Block", storage_class="gold"),
        a_claim(name="selecting", selector={"matchLabels": {"a": "b"}}),
    ]
    for claim in claims:
        waiting.update(None, claim)
        waiting.update(claim, claim)
    for claim in claims:
        waiting.update(claim, None)
        waiting.update(claim, None)

    assert not any((waiting._waiting, waiting._by_size, waiting._with_selector, waiting._attempting))
