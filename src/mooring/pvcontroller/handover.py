"""What an object says about the CSI driver that took over from an in-tree plugin, and whose finalizer guards it.

Pure; looked at before everything else, so that the state machines find an object's marks in order. Only objects that
name a provisioner are touched: what people made by hand stays as they made it.
"""

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.pvcontroller.intents import NoteHandover
from mooring.pvcontroller.provisioners import DRIVERS, is_external


def due_on_claim(claim: Claim) -> NoteHandover | None:
    notes = claim.metadata.annotations
    provisioner = notes.get(keys.STORAGE_PROVISIONER, notes.get(keys.STORAGE_PROVISIONER_BETA))
    if provisioner is None:
        return None
    driver = DRIVERS.get(provisioner, "")
    if notes.get(keys.MIGRATED_TO, "") == driver:
        return None
    return NoteHandover(claim, driver, claim.metadata.finalizers)


def due_on_volume(volume: Volume) -> NoteHandover | None:
    notes, meta = volume.metadata.annotations, volume.metadata
    provisioner = notes.get(keys.PROVISIONED_BY)
    if provisioner is None:
        return None
    driver, finalizers = DRIVERS.get(provisioner, ""), guards(volume, provisioner)
    if notes.get(keys.MIGRATED_TO, "") == driver and meta.finalizers == finalizers:
        return None
    return NoteHandover(volume, driver, finalizers)


def guards(volume: Volume, provisioner: str) -> tuple[str, ...]:
    """The finalizers a provisioned volume should have: the one of whoever deletes its storage, and all others."""
    present = volume.metadata.finalizers
    if provisioner in DRIVERS:
        return _without(present, keys.IN_TREE_DELETER)
    if is_external(provisioner):
        return present
    # SEEN: a plugin that no driver took over; a driver's finalizer would never be removed.
    present = _without(present, keys.EXTERNAL_PROVISIONER)
    if volume.spec.persistent_volume_reclaim_policy != "Delete":
        return _without(present, keys.IN_TREE_DELETER)
    return present if keys.IN_TREE_DELETER in present else (*present, keys.IN_TREE_DELETER)


def _without(finalizers: tuple[str, ...], gone: str) -> tuple[str, ...]:
    return tuple(name for name in finalizers if name != gone)
