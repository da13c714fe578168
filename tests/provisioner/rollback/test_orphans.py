"""Which of a driver's volumes are suspects: without an object for long enough, and of a name that tells the claim."""

import pytest

from mooring.csi.contract import DriverVolume
from mooring.provisioner.provision.request import VOLUME_NAME
from mooring.provisioner.rollback.orphans import SUSPECT_AFTER_SECONDS, OrphanTracker

NAMED_BY_ID = DriverVolume("pvc-1234")
NAMED_BY_CONTEXT = DriverVolume("v-1", context={VOLUME_NAME: "pvc-1234"})


@pytest.mark.parametrize(
    ("volume", "uids"),
    [
        pytest.param(NAMED_BY_ID, ["1234"], id="the id is the name"),
        pytest.param(NAMED_BY_CONTEXT, ["1234"], id="the context has the name"),
        pytest.param(DriverVolume("v-1"), [], id="name unknown"),
        pytest.param(DriverVolume("v-1", context={VOLUME_NAME: "disk-1"}), [], id="foreign name"),
    ],
)
def test_names(volume: DriverVolume, uids: list[str]) -> None:
    orphans = OrphanTracker(prefix="pvc")
    assert orphans.observe([volume], (), 0.0) == []
    assert orphans.observe([volume], (), SUSPECT_AFTER_SECONDS) == uids


def test_time_runs_only_while_nothing_names_it() -> None:
    orphans = OrphanTracker(prefix="pvc")
    orphans.observe([NAMED_BY_CONTEXT], (), 0.0)
    orphans.observe([NAMED_BY_CONTEXT], {"v-1"}, 500.0)
    assert orphans.observe([NAMED_BY_CONTEXT], (), 700.0) == []
    assert orphans.observe([NAMED_BY_CONTEXT], (), 700.0 + SUSPECT_AFTER_SECONDS) == ["1234"]


def test_what_was_decided_is_looked_at_anew_after_the_same_time() -> None:
    orphans = OrphanTracker(prefix="pvc")
    for now in (0.0, SUSPECT_AFTER_SECONDS):
        orphans.observe([NAMED_BY_CONTEXT], (), now)
    assert orphans.suspect("1234") == NAMED_BY_CONTEXT
    orphans.forget("1234")
    assert orphans.suspect("1234") is None
    assert orphans.observe([NAMED_BY_CONTEXT], (), SUSPECT_AFTER_SECONDS + 1) == []


def test_what_is_gone_is_no_suspect() -> None:
    orphans = OrphanTracker(prefix="pvc")
    for now in (0.0, SUSPECT_AFTER_SECONDS):
        orphans.observe([NAMED_BY_CONTEXT], (), now)
    assert orphans.observe([], (), SUSPECT_AFTER_SECONDS + 1) == []
    assert orphans.suspect("1234") is None
