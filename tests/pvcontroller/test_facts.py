"""What the PV controller finds through its index: volumes for claims, and claims for volumes."""

from functools import partial
from typing import Any

import pytest

from builders import a_claim, a_class, a_volume, claim_ref
from mooring.api import keys
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.pvcontroller.facts import Facts

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"

volume = partial(a_volume, storage_class="", size="10G")
claim = partial(a_claim, storage_class="", size="1G")


def knowing(*volumes: Volume, classes: tuple[StorageClass, ...] = (), called: list[str] | None = None) -> Facts:
    """Facts with these volumes and classes, that note in `called` which claims they call."""
    facts = Facts(lambda key: (), call=lambda claim: None if called is None else called.append(claim.name))
    for one in volumes:
        facts.volumes.observe(None, one)
    for storage_class in classes:
        facts.observe_class(None, storage_class)
    return facts


DISKS = (
    volume(name="gce", access_modes=[RWO, ROX]),
    volume(name="ebs", access_modes=[RWO]),
    volume(name="nfs", access_modes=[RWO, ROX, RWX]),
)


@pytest.mark.parametrize(
    ("modes", "taken", "wanted"),
    [
        pytest.param([RWO], [], "ebs", id="the one that can do least"),
        pytest.param([RWO, ROX], [], "gce", id="the least that can do both"),
        pytest.param([RWX, RWO, ROX], [], "nfs", id="all three, in any order"),
        pytest.param([RWX], [], "nfs", id="the only one that can"),
        pytest.param([RWO], ["ebs"], "gce", id="the next best when the best is taken"),
        pytest.param([RWO], ["ebs", "gce"], "nfs", id="the last one left"),
        pytest.param([ROX], ["ebs"], "gce", id="one that offers more than is asked for"),
        pytest.param([RWO, "ReadWriteOncePod"], [], None, id="a mode nobody offers"),
    ],
)
@pytest.mark.req("T42.PC31")
def test_access_modes_decide_first(modes: list[str], taken: list[str], wanted: str | None) -> None:
    facts = knowing(*DISKS)
    for one in DISKS:
        if one.name in taken:
            facts.volumes.observe(
                one, volume(name=one.name, version="2", access_modes=one.spec.access_modes, phase="Bound")
            )
    found = facts.best_volume(claim(access_modes=modes), delayed=False)
    assert (found.name if found else None) == wanted


MINE = claim_ref()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({"size": "8G"}, "large", id="reserved for this claim, although larger"),
        pytest.param({"size": "8G", "storage_class": "gold"}, "large", id="reserved, although of another class"),
        pytest.param({"size": "1M"}, "small", id="reserved, but too small: the smallest free one"),
        pytest.param({"size": "8G", "access_modes": [ROX]}, "small", id="reserved, but its modes do not cover"),
        pytest.param({"size": "8G", "access_modes": [RWO, ROX]}, "small", id="reserved, but a plainer one is free"),
    ],
)
@pytest.mark.req("T42.PC32")
def test_reserved_volumes(given: dict[str, Any], wanted: str) -> None:
    facts = knowing(volume(name="small", size="2G"), volume(name="large", claim_ref=MINE, **given))
    found = facts.best_volume(claim(), delayed=False)
    assert found is not None
    assert found.name == wanted


@pytest.mark.req("T42.PC8", "T6")
def test_delayed_claim_gets_only_what_is_reserved_for_it() -> None:
    free = volume(name="free", storage_class="wait")
    reserved = volume(name="reserved", storage_class="wait", claim_ref=MINE)
    wanted = claim(storage_class="wait")
    assert knowing(free).best_volume(wanted, delayed=True) is None
    assert knowing(free, reserved).best_volume(wanted, delayed=True) == reserved


@pytest.mark.parametrize(
    ("classes", "wanted"),
    [
        pytest.param([a_class(name="a")], None, id="none is marked"),
        pytest.param([a_class(name="a", annotations={keys.DEFAULT_CLASS: "yes"})], None, id="the mark must say true"),
        pytest.param([a_class(name="a", annotations={keys.DEFAULT_CLASS_BETA: "true"})], "a", id="the old mark counts"),
        pytest.param([a_class(name="b", default=True), a_class(name="a", default=True)], "a", id="ties by name"),
    ],
)
@pytest.mark.req("T42.PC9")
def test_default_class(classes: list[StorageClass], wanted: str | None) -> None:
    assert knowing(classes=tuple(classes)).default_class() == wanted


@pytest.mark.parametrize(
    ("given", "count", "wanted"),
    [
        pytest.param({}, 1, ["first"], id="who asks for most"),
        pytest.param({}, 2, ["first", "second"], id="one for each volume"),
        pytest.param({}, 3, ["first", "second", "third"], id="of equal ones who came first"),
        pytest.param({"size": "2G"}, 1, ["second"], id="whom it is large enough for"),
        pytest.param({"size": "1M"}, 1, [], id="nobody"),
        pytest.param({"labels": {"a": "b"}, "size": "3G"}, 3, ["second", "third", "picky"], id="whom its labels suit"),
        pytest.param({"size": "3G"}, 3, ["second", "third"], id="nobody whom its labels do not suit"),
        pytest.param({"phase": "Pending"}, 1, [], id="nobody before it is Available"),
        pytest.param({"claim_ref": claim_ref(name="first")}, 1, [], id="nobody when it is reserved"),
        pytest.param({"storage_class": "wait"}, 1, [], id="nobody whom the scheduler has to serve first"),
        pytest.param({"size": "huge"}, 1, [], id="nobody when its size cannot be understood"),
    ],
)
@pytest.mark.req("T5")
def test_who_is_called_when_a_volume_becomes_free(given: dict[str, Any], count: int, wanted: list[str]) -> None:
    called: list[str] = []
    facts = knowing(classes=(a_class(name="wait"),), called=called)
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
        facts.claims.observe(None, waiting)
    for number in range(count):
        facts.volumes.observe(None, volume(name=f"volume-{number}", **given))
    assert called == wanted


def test_volume_calls_again_only_when_it_has_changed() -> None:
    called: list[str] = []
    facts = knowing(volume(), called=called)
    for name in ("one", "two", "three", "four"):
        facts.claims.observe(None, claim(name=name))
    facts.volumes.observe(volume(), volume(version="2"))
    assert called == []
    facts.volumes.observe(volume(), volume(version="3", labels={"a": "b"}))
    assert called == ["one"]
    facts.volumes.observe(volume(), volume(version="4", phase="Failed"))
    facts.volumes.learn(volume(version="5"))
    assert called == ["one", "two"], "what an own write made free counts too"


def test_who_has_had_its_turn_can_be_called_again() -> None:
    called: list[str] = []
    facts = knowing(called=called)
    facts.claims.observe(None, claim())
    facts.volumes.observe(None, volume(name="a"))
    facts.volumes.observe(None, volume(name="b"))
    assert called == ["claim-1"]
    with facts.turn_of("default/claim-1"):
        facts.volumes.observe(None, volume(name="c"))
        assert called == ["claim-1"], "it looks by itself"
    facts.volumes.observe(None, volume(name="d"))
    assert called == ["claim-1", "claim-1"]


def test_claim_that_changes_while_called_is_not_called_twice() -> None:
    called: list[str] = []
    facts = knowing(called=called)
    facts.claims.observe(None, claim())
    facts.volumes.observe(None, volume(name="a"))
    facts.claims.observe(claim(), claim(version="2"))
    facts.volumes.observe(None, volume(name="b"))
    facts.claims.observe(claim(version="2"), None)
    with facts.turn_of("default/claim-1"):
        pass
    facts.volumes.observe(None, volume(name="c"))
    assert called == ["claim-1"], "after its turn it is gone"


def test_promised_volume_is_offered_to_nobody_until_the_answer_is_known() -> None:
    called: list[str] = []
    facts = knowing(volume(name="small", size="2G"), volume(name="large", size="5G"), called=called)
    small = facts.best_volume(claim(), delayed=False)
    assert small is not None
    assert small.name == "small"
    with facts.promised(small):
        facts.volumes.observe(small, volume(name="small", size="2G", version="2"))
        other = facts.best_volume(claim(name="other"), delayed=False)
        assert other is not None
        assert other.name == "large"
        facts.claims.observe(None, claim(name="waiting"))
    assert called == ["waiting"], "the reservation came to nothing"
    again = facts.best_volume(claim(name="other"), delayed=False)
    assert again is not None
    assert again.name == "small"


def test_classes_come_change_and_go() -> None:
    facts = knowing(classes=(a_class(name="gold", default=True),))
    assert facts.default_class() == "gold"
    facts.observe_class(a_class(name="gold", default=True), a_class(name="gold"))
    assert facts.default_class() is None
    facts.observe_class(a_class(name="gold"), None)
    assert facts.classes == {}
