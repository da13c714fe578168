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


def knowing(*volumes: Volume, classes: tuple[StorageClass, ...] = ()) -> Facts:
    facts = Facts(lambda key: ())
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
    ("given", "passing_over", "wanted"),
    [
        pytest.param({}, [], "default/first", id="who has waited longest"),
        pytest.param({}, ["default/first"], "default/second", id="who was not called already"),
        pytest.param({"size": "2G"}, [], "default/second", id="whom it is large enough for"),
        pytest.param({"size": "1M"}, [], None, id="nobody"),
        pytest.param({"phase": "Pending"}, [], None, id="nobody before it is Available"),
        pytest.param({"claim_ref": claim_ref(name="first")}, [], None, id="nobody when it is reserved"),
        pytest.param({"storage_class": "wait"}, [], None, id="nobody whom the scheduler has to serve first"),
    ],
)
@pytest.mark.req("T5")
def test_who_is_called_when_a_volume_becomes_free(
    given: dict[str, Any], passing_over: list[str], wanted: str | None
) -> None:
    facts = knowing(classes=(a_class(name="wait"),))
    broken = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    for waiting in (
        claim(name="broken", selector=broken),
        claim(name="bound", volume="volume-9"),
        claim(name="lost", bound=True),
        claim(name="delayed", storage_class="wait"),
        claim(name="first", size="5G"),
        claim(name="second", size="1G"),
    ):
        facts.claims.observe(None, waiting)
    taker = facts.taker(volume(**given), passing_over=passing_over)
    assert (taker.key if taker else None) == wanted
