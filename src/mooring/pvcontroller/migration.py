"""CSI migration: the provisioner that serves a class, and the annotations and finalizers of migrated objects. Pure.

Claims of in-tree plugins with a CSI driver go to that driver, as in Kubernetes; other in-tree plugins are rejected
with `ProvisioningFailed` or `VolumeFailedDelete`. Only objects that name a provisioner are changed.
"""

from collections.abc import Mapping
from typing import Final

from mooring.api import well_known
from mooring.api.views.storage import Claim, Volume
from mooring.pvcontroller.actions import RecordMigration
from mooring.volumes import in_tree

IN_TREE: Final = "kubernetes.io/"
"""The prefix of in-tree plugins; the pseudo provisioner of hand-made volumes has it too."""

DRIVERS: Final[Mapping[str, str]] = {plugin.name: plugin.driver for plugin in in_tree.IN_TREE_PLUGINS} | {
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""The plugins whose volumes Kubernetes leaves to a driver for good, with no way back."""


def is_external(provisioner: str) -> bool:
    return not provisioner.startswith(IN_TREE)


def serving_provisioner(provisioner: str) -> str:
    """The external provisioner behind a class's provisioner; "" where there is none."""
    return provisioner if is_external(provisioner) else DRIVERS.get(provisioner, "")


def unknown_plugin(name: str) -> str:
    """Upstream's words for an in-tree plugin that is not there."""
    return f"no volume plugin matched name: {name}"


def claim_migration_step(claim: Claim) -> RecordMigration | None:
    notes = claim.metadata.annotations
    provisioner = notes.get(well_known.STORAGE_PROVISIONER, notes.get(well_known.STORAGE_PROVISIONER_BETA))
    if provisioner is None:
        return None
    driver = DRIVERS.get(provisioner, "")
    if notes.get(well_known.MIGRATED_TO, "") == driver:
        return None
    return RecordMigration(claim, driver, claim.metadata.finalizers)


def volume_migration_step(volume: Volume) -> RecordMigration | None:
    notes, meta = volume.metadata.annotations, volume.metadata
    provisioner = notes.get(well_known.PROVISIONED_BY)
    if provisioner is None:
        return None
    driver, finalizers = DRIVERS.get(provisioner, ""), deletion_finalizers(volume, provisioner)
    if notes.get(well_known.MIGRATED_TO, "") == driver and meta.finalizers == finalizers:
        return None
    return RecordMigration(volume, driver, finalizers)


def deletion_finalizers(volume: Volume, provisioner: str) -> tuple[str, ...]:
    """The finalizers a provisioned volume should have: that of the component that deletes storage, and others."""
    present = volume.metadata.finalizers
    if provisioner in DRIVERS:
        return _without(present, well_known.IN_TREE_DELETER)
    if is_external(provisioner):
        return present
    # A plugin that no driver took over; a driver's finalizer would never be removed.
    present = _without(present, well_known.EXTERNAL_PROVISIONER)
    if volume.spec.persistent_volume_reclaim_policy != "Delete":
        return _without(present, well_known.IN_TREE_DELETER)
    return present if well_known.IN_TREE_DELETER in present else (*present, well_known.IN_TREE_DELETER)


def _without(finalizers: tuple[str, ...], gone: str) -> tuple[str, ...]:
    return tuple(name for name in finalizers if name != gone)
