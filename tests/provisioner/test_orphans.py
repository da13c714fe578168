"""Which of a driver's volumes are suspects: without an object for long enough, and of a name that tells the claim."""

import pytest

from mooring.csi.contract import DriverVolume
from mooring.provisioner.class_parameters import VOLUME_NAME
from mooring.provisioner.orphans import SUSPECT_AFTER, Orphans

NAMED_BY_ID = DriverVolume("pvc-1234")
NAMED_BY_CONTEXT = DriverVolume("v-1", context={VOLUME_NAME: "pvc-1234"})


@pytest.mark.parametrize(
    ("volume", "uids"),
    [
        pytest.param(NAMED_BY_ID, ["1234"], id="the id is the name"),
        pytest.param(NAMED_BY_CONTEXT, ["1234"], id="the context has the name"),
        pytest.param(DriverVolume("v-1"), [], id="nobody says the name"),
        pytest.param(DriverVolume("v-1", context={VOLUME_NAME: "disk-1"}), [], id="of somebody else's making"),
    ],
)
def test_names(volume: DriverVolume, uids: list[str]) -> None:
    orphans = Orphans(prefix="pvc")
    assert orphans.look([volume], (), 0.0) == []
    assert orphans.look([volume], (), SUSPECT_AFTER) == uids


def test_time_runs_only_while_nothing_names_it() -> None:
    orphans = Orphans(prefix="pvc")
    orphans.look([NAMED_BY_CONTEXT], (), 0.0)
    orphans.look([NAMED_BY_CONTEXT], {"v-1"}, 500.0)
    assert orphans.look([NAMED_BY_CONTEXT], (), 700.0) == []
    assert orphans.look([NAMED_BY_CONTEXT], (), 700.0 + SUSPECT_AFTER) == ["1234"]


def test_what_was_decided_is_looked_at_anew_after_the_same_time() -> None:
    orphans = Orphans(prefix="pvc")
    for now in (0.0, SUSPECT_AFTER):
        orphans.look([NAMED_BY_CONTEXT], (), now)
    assert orphans.suspect("1234") == NAMED_BY_CONTEXT
    orphans.forget("1234")
    assert orphans.suspect("1234") is None
    assert orphans.look([NAMED_BY_CONTEXT], (), SUSPECT_AFTER + 1) == []


def test_what_is_gone_is_no_suspect() -> None:
    orphans = Orphans(prefix="pvc")
    for now in (0.0, SUSPECT_AFTER):
        orphans.look([NAMED_BY_CONTEXT], (), now)
    assert orphans.look([], (), SUSPECT_AFTER + 1) == []
    assert orphans.suspect("1234") is None
