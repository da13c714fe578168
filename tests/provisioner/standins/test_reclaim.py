"""When a stand-in guards a volume, and when it deletes it."""

import pytest

from builders import Body, a_volume
from mooring.api import keys
from mooring.api.views.volume import Volume
from mooring.provisioner.standins.reclaim import Upkeep, made_here, upkeep

ZONAL = "zonal.standins.mooring.dev"
DRIVEN: Body = {"csi": {"driver": ZONAL, "volumeHandle": "h"}}
DISK: Body = {"gcePersistentDisk": {"pdName": "d"}}


@pytest.mark.parametrize(
    ("volume", "ours"),
    [
        pytest.param(a_volume(annotations={keys.PROVISIONED_BY: ZONAL}), True, id="provisioned here"),
        pytest.param(a_volume(annotations={keys.PROVISIONED_BY: "x.io"}, source=DRIVEN), False, id="by another"),
        pytest.param(a_volume(source=DRIVEN), True, id="made by hand for our driver"),
        pytest.param(a_volume(), False, id="made by hand"),
        pytest.param(
            a_volume(annotations={keys.PROVISIONED_BY: "kubernetes.io/gce-pd"}, source=DISK), True, id="handed over"
        ),
        pytest.param(
            a_volume(annotations={keys.PROVISIONED_BY: "kubernetes.io/cinder"}), False, id="handed over to another"
        ),
    ],
)
def test_which_volumes_are_ours(volume: Volume, ours: bool) -> None:
    assert made_here(volume) == ours


def volume(phase: str, *, reclaim: str = "Delete", guarded: bool, deleting: bool = False) -> Volume:
    finalizers = [keys.EXTERNAL_PROVISIONER] if guarded else []
    return a_volume(phase=phase, reclaim=reclaim, finalizers=finalizers, deleting=deleting)


@pytest.mark.parametrize(
    ("given", "due"),
    [
        pytest.param(volume("Bound", guarded=True), None, id="bound and guarded"),
        pytest.param(volume("Bound", guarded=False), Upkeep.GUARD, id="bound, not guarded"),
        pytest.param(volume("Bound", guarded=False, deleting=True), None, id="too late to guard"),
        pytest.param(volume("Released", guarded=True), Upkeep.DELETE, id="released"),
        pytest.param(volume("Released", guarded=False), Upkeep.DELETE, id="released, never guarded"),
        pytest.param(volume("Released", guarded=True, deleting=True), Upkeep.DELETE, id="half deleted"),
        pytest.param(volume("Released", guarded=False, deleting=True), None, id="others finish the deletion"),
        pytest.param(volume("Failed", guarded=True), None, id="failed is for people"),
        pytest.param(volume("Released", reclaim="Retain", guarded=False), None, id="kept"),
        pytest.param(volume("Bound", reclaim="Retain", guarded=True), Upkeep.UNGUARD, id="to be kept from now on"),
    ],
)
def test_what_is_due(given: Volume, due: Upkeep | None) -> None:
    assert upkeep(given) is due
