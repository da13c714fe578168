"""What a stand-in does about a volume: guard it by its finalizer while it is in use, delete it once released.

Pure. The rules are external-provisioner's; a Failed volume is left to people.
"""

import enum

from mooring.api import keys
from mooring.api.views.volume import Volume
from mooring.provisioner.standins.table import BY_NAME


class Upkeep(enum.Enum):
    GUARD = "add the finalizer"
    UNGUARD = "remove the finalizer"
    DELETE = "delete the volume"


def made_here(volume: Volume) -> bool:
    """Whether a volume is a stand-in's to look after."""
    notes = volume.metadata.annotations
    maker = notes.get(keys.PROVISIONED_BY)
    if maker is not None:
        return maker in BY_NAME or notes.get(keys.MIGRATED_TO, "") in BY_NAME
    return volume.spec.csi is not None and volume.spec.csi.driver in BY_NAME


def upkeep(volume: Volume) -> Upkeep | None:
    """What is due now for a volume of ours."""
    guarded = keys.EXTERNAL_PROVISIONER in volume.metadata.finalizers
    if volume.spec.persistent_volume_reclaim_policy != "Delete":
        return Upkeep.UNGUARD if guarded else None
    if volume.status.phase == "Released" and (guarded or not volume.deleting):
        return Upkeep.DELETE
    if volume.status.phase == "Bound" and not volume.deleting and not guarded:
        return Upkeep.GUARD
    return None
