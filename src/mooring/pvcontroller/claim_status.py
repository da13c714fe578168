"""What a claim's status should say, as the fields that have to change.

Pure. A claim with a volume shows what the volume offers, one without shows nothing. The size is taken over only
when the phase changes: later on it may differ on purpose, while a file system has not been grown yet.
"""

from typing import Any

from mooring.api import keys
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.meta import Amount
from mooring.api.views.volume import Volume
from mooring.volumes.shape import exact_size

PENDING = "Pending"
BOUND = "Bound"
LOST = "Lost"


def changes(claim: Claim, phase: str, volume: Volume | None) -> dict[str, Any]:
    """The changed fields with their new values, None for a field that goes; empty when the status is right."""
    changed: dict[str, Any] = {} if claim.status.phase == phase else {"phase": phase}
    return changed | (_nothing_offered(claim) if volume is None else _offered(claim, phase, volume))


def _nothing_offered(claim: Claim) -> dict[str, Any]:
    said = claim.status
    shown = {
        "accessModes": said.access_modes,
        "capacity": said.capacity,
        "currentVolumeAttributesClassName": said.current_volume_attributes_class_name,
    }
    return {field: None for field, value in shown.items() if value}


def _offered(claim: Claim, phase: str, volume: Volume) -> dict[str, Any]:
    said = claim.status
    changed: dict[str, Any] = {}
    if said.access_modes != volume.spec.access_modes:
        changed["accessModes"] = list(volume.spec.access_modes)
    if said.phase != phase:
        size, before = _usable_size(volume), said.capacity.get("storage")
        if before is None or exact_size(before) != exact_size(size):
            changed["capacity"] = {"storage": size}
    attributes = volume.spec.volume_attributes_class_name
    if (said.phase, phase) == (PENDING, BOUND) and said.current_volume_attributes_class_name != attributes:
        changed["currentVolumeAttributesClassName"] = attributes or None
    return changed


def _usable_size(volume: Volume) -> Amount:
    """The size before a resize that the file system has not seen yet, else the volume's own."""
    before = volume.metadata.annotations.get(keys.PRE_RESIZE_CAPACITY)
    if before is None:
        return volume.size
    try:
        exact_size(before)
    except QuantityError:
        return volume.size
    return before
