"""Marks of the drivers that took over from in-tree plugins, and the finalizers of the volume's deleter."""

from collections.abc import Mapping

import pytest

from mooring.api import well_known
from mooring.pvcontroller import claim_sync, migration, volume_sync
from mooring.pvcontroller.actions import RecordMigration, to_request
from mooring.pvcontroller.cache import BindingCache
from support.builders import a_claim, a_volume

GCE, GCE_DRIVER = "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"
RBD = "kubernetes.io/rbd"
NEW, BETA, MOVED, MADE = (
    well_known.STORAGE_PROVISIONER,
    well_known.STORAGE_PROVISIONER_BETA,
    well_known.MIGRATED_TO,
    well_known.PROVISIONED_BY,
)

CUSTOM = "example.com/mine"
IN_TREE, EXTERNAL = well_known.IN_TREE_DELETER, well_known.EXTERNAL_PROVISIONER


@pytest.mark.parametrize(
    ("notes", "driver"),
    [
        pytest.param({NEW: GCE}, GCE_DRIVER, id="a driver took over"),
        pytest.param({BETA: GCE}, GCE_DRIVER, id="a driver took over, old key"),
        pytest.param({NEW: GCE, MOVED: GCE_DRIVER}, None, id="noted already"),
        pytest.param({NEW: GCE, MOVED: "another"}, GCE_DRIVER, id="noted wrongly"),
        pytest.param({NEW: RBD}, None, id="not migrated"),
        pytest.param({NEW: RBD, MOVED: "rbd.csi"}, "", id="noted although not migrated"),
        pytest.param({BETA: RBD, MOVED: "rbd.csi"}, "", id="noted although not migrated, old key"),
        pytest.param({NEW: "x.io", MOVED: "x.io"}, "", id="an external provisioner needs no note"),
        pytest.param({NEW: "x.io"}, None, id="external provisioner"),
        pytest.param({MOVED: "x.io"}, None, id="no provisioner"),
        pytest.param({}, None, id="no marks at all"),
    ],
)
@pytest.mark.req("T42.PC5")
def test_note_on_a_claim(notes: Mapping[str, str], driver: str | None) -> None:
    claim = a_claim(annotations=notes, finalizers=[well_known.PVC_PROTECTION])
    note = migration.claim_migration_step(claim)
    if driver is None:
        assert note is None
        return
    assert note == RecordMigration(claim, driver, claim.metadata.finalizers)
    assert claim_sync.next_claim_step(claim, BindingCache(lambda _: ())).write == note
    assert to_request(note).patch.body == {
        "metadata": {"resourceVersion": "1", "annotations": {MOVED: driver or None}}
    }, "finalizers are not the PV controller's business on claims"


@pytest.mark.parametrize(
    ("notes", "driver"),
    [
        pytest.param({MADE: GCE}, GCE_DRIVER, id="a driver took over"),
        pytest.param({MADE: RBD, MOVED: "rbd.csi"}, "", id="noted although not migrated"),
        pytest.param({MADE: "x.io"}, None, id="external provisioner"),
        pytest.param({MOVED: "x.io"}, None, id="made by hand"),
        pytest.param({}, None, id="no marks at all"),
    ],
)
@pytest.mark.req("T42.PC5")
def test_note_on_a_volume(notes: Mapping[str, str], driver: str | None) -> None:
    volume = a_volume(annotations=notes, reclaim="Retain")
    note = migration.volume_migration_step(volume)
    assert note == (None if driver is None else RecordMigration(volume, driver, ()))
    assert volume_sync.next_volume_step(volume, None).write == note


@pytest.mark.parametrize(
    ("provisioner", "reclaim", "before", "after"),
    [
        pytest.param("x.csi", "Delete", [EXTERNAL], [EXTERNAL], id="13-1 external driver with its finalizer"),
        pytest.param("x.csi", "Delete", [], [], id="13-2 external driver without"),
        pytest.param(RBD, "Delete", [CUSTOM], [CUSTOM, IN_TREE], id="13-3 in-tree beside a custom one"),
        pytest.param(RBD, "Delete", [], [IN_TREE], id="13-4 in-tree"),
        pytest.param(RBD, "Delete", [EXTERNAL], [IN_TREE], id="13-5 in-tree, a driver's is replaced"),
        pytest.param(RBD, "Delete", [EXTERNAL, CUSTOM], [CUSTOM, IN_TREE], id="13-6 in-tree, only the driver's goes"),
        pytest.param(GCE, "Delete", [EXTERNAL, IN_TREE], [EXTERNAL], id="13-7 a driver took over"),
        pytest.param("", "Delete", [EXTERNAL], [EXTERNAL], id="13-10 made by hand"),
        pytest.param("", "Delete", [], [], id="13-11 made by hand, none"),
        pytest.param(RBD, "Retain", [], [], id="13-12 in-tree, kept"),
        pytest.param(RBD, "Recycle", [], [], id="13-13 in-tree, recycled"),
        pytest.param(RBD, "Retain", [IN_TREE], [], id="13-14 in-tree, to be kept from now on"),
        pytest.param("", "Delete", [], [], id="13-15 made by hand, to be deleted"),
    ],
)
@pytest.mark.req("T42.PC33")
def test_finalizers_of_the_deleter(provisioner: str, reclaim: str, before: list[str], after: list[str]) -> None:
    notes = {MADE: provisioner} if provisioner else {}
    if provisioner == GCE:
        notes[MOVED] = GCE_DRIVER
    volume = a_volume(annotations=notes, reclaim=reclaim, finalizers=before)
    note = migration.volume_migration_step(volume)
    assert (tuple(before) if note is None else note.finalizers) == tuple(after)
    if note is not None:
        assert to_request(note).patch.body["metadata"]["finalizers"] == (after or None)  # type: ignore[call-overload]
