"""Which version of an object counts, and which objects there are."""

import pytest

from builders import a_volume
from mooring.api.views.volume import Volume
from mooring.pvcontroller.cache import NewestCache


def a_cache(*volumes: Volume) -> NewestCache[Volume]:
    cache: NewestCache[Volume] = NewestCache(lambda volume: (volume.storage_class,))
    for volume in volumes:
        cache.observe(None, volume)
    return cache


def version(cache: NewestCache[Volume]) -> str:
    found = cache.get("volume-1")
    return found.metadata.resource_version if found is not None else "none"


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        pytest.param(["1"], "1", id="new"),
        pytest.param(["1", "1"], "1", id="the same again"),
        pytest.param(["1", "2"], "2", id="newer"),
        pytest.param(["2", "1"], "2", id="older"),
        pytest.param(["2", "10"], "10", id="versions are numbers, not texts"),
    ],
)
@pytest.mark.req("T42.PC2")
def test_newest_version_wins(shown: list[str], wanted: str) -> None:
    assert version(a_cache(*(a_volume(version=one) for one in shown))) == wanted


@pytest.mark.req("T42.PC2")
def test_version_that_is_no_number_is_an_error() -> None:
    cache = a_cache(a_volume(version="1"))
    with pytest.raises(ValueError, match="xxx"):
        cache.observe(None, a_volume(version="xxx"))


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        pytest.param(a_volume(version="6"), "6", id="newer than what the watch showed"),
        pytest.param(a_volume(version="4"), "5", id="the watch was faster"),
        pytest.param(a_volume(version="6", uid="another"), "5", id="of an object that was replaced meanwhile"),
    ],
)
@pytest.mark.req("T42.PC2")
def test_answers_to_own_writes(answer: Volume, wanted: str) -> None:
    cache = a_cache(a_volume(version="5"))
    cache.learn(answer)
    assert version(cache) == wanted


@pytest.mark.req("T42.PC3")
def test_answer_does_not_raise_the_dead() -> None:
    cache = a_cache(a_volume(version="5"))
    cache.observe(a_volume(version="5"), None)
    cache.learn(a_volume(version="6"))
    assert cache.get("volume-1") is None
    assert not cache.filed_under("local")


@pytest.mark.req("T42.PC3")
def test_deletion_counts_even_if_an_own_write_was_newer() -> None:
    cache = a_cache(a_volume(version="5"))
    cache.learn(a_volume(version="6"))
    cache.observe(a_volume(version="5"), None)
    assert cache.get("volume-1") is None


def test_shelves_follow_the_objects() -> None:
    cache = a_cache(a_volume(version="1"), a_volume(name="volume-2"))
    cache.observe(None, a_volume(version="2", storage_class="gold"))
    assert [volume.name for volume in cache.filed_under("local")] == ["volume-2"]
    assert [volume.name for volume in cache.filed_under("gold")] == ["volume-1"]
