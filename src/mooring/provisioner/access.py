"""How a claim wants to use its volume, in the driver's words: the volume capabilities of a CreateVolume. Pure."""

from collections.abc import Sequence
from typing import Final

from mooring.api.views.claim import Claim
from mooring.csi.contract import AccessMode, VolumeCapability
from mooring.provisioner.attempt import Refusal, State

_MODES: Final = {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": AccessMode.MULTI_NODE_MULTI_WRITER,
}
#: For drivers that tell one pod on a node from several.
_FINER_MODES: Final = _MODES | {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_SINGLE_WRITER,
}


def capabilities(
    claim: Claim, *, fs_type: str, mount_flags: Sequence[str], finer: bool
) -> tuple[VolumeCapability, ...] | Refusal:
    """One per access mode, in the claim's order; `finer` is the driver's SINGLE_NODE_MULTI_WRITER."""
    modes = _FINER_MODES if finer else _MODES
    unknown = [mode for mode in claim.spec.access_modes if mode not in modes]
    if unknown:
        return Refusal(State.FINISHED, f"unknown access mode {unknown[0]!r}")
    if claim.spec.volume_mode == "Block":
        return tuple(VolumeCapability(modes[mode], block=True) for mode in claim.spec.access_modes)
    flags = tuple(mount_flags)
    return tuple(VolumeCapability(modes[mode], fs_type=fs_type, mount_flags=flags) for mode in claim.spec.access_modes)
