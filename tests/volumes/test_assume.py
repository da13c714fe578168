"""Promises over observed objects: they hold for one version, and what is observed wins."""

import sys

import pytest

from builders import a_volume
from mooring.api.views.meta import ObjectReference
from mooring.api.views.volume import Volume
from mooring.volumes.assume import AssumeCache, OutOfSync

CLAIM = ObjectReference(name="claim", namespace="default", uid="1")

pytestmark = [pytest.mark.req("T14"), pytest.mark.level("u")]


def promised(volume: Volume) -> Volume:
    return volume.assumed_for(CLAIM, by_controller=True)


def cache_with(*volumes: Volume) -> AssumeCache[Volume]:
    cache: AssumeCache[Volume] = AssumeCache()
    for volume in volumes:
        cache.observe(volume.key, volume)
    return cache


def assumed_cache(volume: Volume) -> tuple[AssumeCache[Volume], Volume]:
    cache, promise = cache_with(volume), promised(volume)
    cache.assume(promise, instead_of=volume)
    return cache, promise


def test_what_is_assumed_is_answered_beside_what_is_observed() -> None:
    volume = a_volume(name="v", version="5")
    cache, promise = assumed_cache(volume)

    assert cache.get("v") is promise
    assert cache.observed("v") is volume
    assert list(cache) == [promise]
    assert len(cache) == 1


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        pytest.param(a_volume(name="v", version="5"), True, id="the same version again"),
        pytest.param(a_volume(name="v", version="6"), False, id="a newer version"),
        pytest.param(a_volume(name="v", version="4"), False, id="an older version, after a restored backup"),
        pytest.param(None, False, id="the object is gone"),
    ],
)
def test_observed_updates_win_unless_they_repeat_the_version(now: Volume | None, kept: bool) -> None:
    cache, promise = assumed_cache(a_volume(name="v", version="5"))

    cache.observe("v", now)

    assert cache.get("v") == (promise if kept else now)


def test_an_object_that_comes_back_is_not_assumed() -> None:
    volume = a_volume(name="v", version="5")
    cache, _ = assumed_cache(volume)

    cache.observe("v", None)
    cache.observe("v", volume)

    assert cache.get("v") is volume


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        pytest.param([], '"v" is out of sync (not stored, assume: 5)', id="not stored"),
        pytest.param(["6"], '"v" is out of sync (stored: 6, assume: 5)', id="another version"),
    ],
)
def test_assuming_needs_the_observed_version(stored: list[str], text: str) -> None:
    volume = a_volume(name="v", version="5")
    cache = cache_with(*(a_volume(name="v", version=version) for version in stored))

    with pytest.raises(OutOfSync) as refused:
        cache.assume(promised(volume), instead_of=volume)

    assert str(refused.value) == text
    assert cache.get("v") == (a_volume(name="v", version="6") if stored else None)


def test_assuming_needs_the_object_the_decision_was_made_on() -> None:
    volume = a_volume(name="v", version="5")
    cache, promise = assumed_cache(volume)
    other = volume.assumed_for(ObjectReference(name="other", namespace="default"), by_controller=True)

    with pytest.raises(OutOfSync, match="already assumed otherwise"):
        cache.assume(other, instead_of=volume)

    assert cache.get("v") is promise


def test_a_promise_can_be_replaced_by_a_decision_made_on_it() -> None:
    cache, promise = assumed_cache(a_volume(name="v", version="5"))
    other = promise.assumed_for(ObjectReference(name="other", namespace="default"), by_controller=True)

    cache.assume(other, instead_of=promise)

    assert cache.get("v") is other


def test_restoring_is_idempotent() -> None:
    volume = a_volume(name="v", version="5")
    cache, promise = assumed_cache(volume)

    cache.restore(promise)
    cache.restore(promise)

    assert cache.get("v") is volume


def test_restoring_leaves_a_later_promise_alone() -> None:
    volume = a_volume(name="v", version="5")
    cache, first = assumed_cache(volume)
    cache.restore(first)
    second = promised(volume)
    cache.assume(second, instead_of=volume)

    cache.restore(first)

    assert cache.get("v") is second


def test_restoring_a_written_object_keeps_the_promise_until_it_is_observed() -> None:
    cache, promise = assumed_cache(a_volume(name="v", version="5"))

    cache.restore(a_volume(name="v", version="6"))

    assert cache.get("v") is promise


def test_an_object_nothing_is_assumed_of_costs_its_place_in_one_dict() -> None:
    volumes = [a_volume(name=f"v{number}") for number in range(100)]
    cache = cache_with(*volumes)

    assert all(cache.get(volume.key) is volume for volume in volumes)
    owned = [value for value in vars(cache).values() if isinstance(value, dict)]
    assert sum(map(len, owned)) == len(volumes)
    assert sum(map(sys.getsizeof, owned)) < 100 * len(volumes)
