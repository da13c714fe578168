"""Kubernetes' tables about assuming: versions that fit and do not, late events, and what a plan leaves assumed."""

import pytest

from mooring.api.views.meta import ObjectReference
from mooring.api.views.storage import Volume
from mooring.volumes.binding import AssumeCache, BindingPlan, OutOfSync
from support.builders import a_claim, a_volume, claim_ref
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.req("T13.validated", "T14.versions"), pytest.mark.level("u")]

CLAIM = ObjectReference(name="claim", namespace="default", uid="1")


def at(version: str) -> Volume:
    return a_volume(name="v", version=version)


def promise(volume: Volume) -> Volume:
    return volume.assumed_for(CLAIM, by_controller=True)


def cache_at(version: str | None) -> AssumeCache[Volume]:
    cache: AssumeCache[Volume] = AssumeCache()
    if version is not None:
        cache.observe("v", at(version))
    return cache


@pytest.mark.parametrize(
    ("stored", "assumed", "accepted"),
    [
        pytest.param("5", "5", True, id="same version"),
        pytest.param("5", "6", False, id="a higher version"),
        pytest.param("5", "4", False, id="a lower version"),
        pytest.param(None, "5", False, id="nothing stored"),
        pytest.param("5", "a", False, id="no number assumed"),
        pytest.param("a", "5", False, id="no number stored"),
    ],
)
def test_versions(stored: str | None, assumed: str, accepted: bool) -> None:
    cache = cache_at(stored)
    promised = promise(at(assumed))
    if accepted:
        cache.assume(promised, instead_of=at(assumed))
        assert cache.get("v") is promised
    else:
        with pytest.raises(OutOfSync):
            cache.assume(promised, instead_of=at(assumed))
        assert cache.get("v") == (None if stored is None else at(stored))


def test_an_unknown_object_is_not_there() -> None:
    assert cache_at(None).get("v") is None


def test_objects_are_as_last_observed() -> None:
    cache: AssumeCache[Volume] = AssumeCache()
    volumes = {f"v{number}": a_volume(name=f"v{number}") for number in range(10)}
    for name, volume in volumes.items():
        cache.observe(name, volume)

    volumes["v3"] = a_volume(name="v3", size="1Ti")
    cache.observe("v3", volumes["v3"])
    del volumes["v7"]
    cache.observe("v7", None)

    assert {name: cache.get(name) for name in (*volumes, "v7")} == volumes | {"v7": None}


def test_restoring_what_was_never_assumed_changes_nothing() -> None:
    cache = cache_at("5")

    cache.restore(promise(a_volume(name="unknown")))
    cache.restore(promise(at("5")))

    assert cache.get("v") == at("5")


def test_a_promise_for_a_newer_version_survives_the_restore_of_an_older_one() -> None:
    cache = cache_at("5")
    older = promise(at("5"))
    cache.assume(older, instead_of=at("5"))
    cache.observe("v", at("7"))
    newer = promise(at("7"))
    cache.assume(newer, instead_of=at("7"))

    cache.restore(older)

    assert cache.get("v") is newer


def test_all_bound_is_nothing_to_assume() -> None:
    bound = a_claim(name="bound", volume="v", bound=True)
    library = VolumeLibrary(bound, a_volume(name="v", node="n1", phase="Bound"))

    assert library.state.assume(library.plan("bound", node="n1")) == BindingPlan("n1")


def test_two_bindings_are_both_assumed() -> None:
    claims = [a_claim(name=name, size="1G") for name in ("x", "y")]
    library = VolumeLibrary(*claims, a_volume(name="a", node="n1"), a_volume(name="b", node="n1"))

    plan = library.state.assume(library.plan("x", "y", node="n1"))

    assert [library.state.volume(binding.volume.name) for binding in plan.static] == [b.volume for b in plan.static]
    assert {binding.volume.spec.claim_ref for binding in plan.static} == {claim.reference for claim in claims}


def test_a_volume_that_is_the_claims_already_is_left_as_it_is() -> None:
    mine = a_volume(name="v", node="n1", claim_ref=claim_ref(name="c", uid="c-uid"))
    library = VolumeLibrary(a_claim(name="c", size="1G"), mine)

    [binding] = library.state.assume(library.plan("c", node="n1")).static

    assert binding.volume == mine
    assert library.state.volume("v") is mine


def test_a_volume_that_vanished_leaves_nothing_assumed() -> None:
    claims = [a_claim(name=name, size="1G") for name in ("x", "y")]
    first, second = a_volume(name="a", node="n1"), a_volume(name="b", node="n1")
    library = VolumeLibrary(*claims, first, second)
    plan = library.plan("x", "y", node="n1")
    library.state.observe_volume(second, None)

    with pytest.raises(OutOfSync, match="not stored"):
        library.state.assume(plan)

    assert library.state.volume("a") is first


def test_asked_again_and_again_the_claim_gets_the_volume_it_was_promised() -> None:
    library = VolumeLibrary(
        a_claim(name="c", size="1G"),
        *(a_volume(name=name, size="5G", node="n1") for name in ("a", "b")),
        a_volume(name="c", size="1G", node="n2"),
    )
    [promised] = library.state.assume(library.plan("c", node="n1")).static

    for _ in range(50):
        [binding] = library.plan("c", node="n1").static
        assert binding.volume is promised.volume
