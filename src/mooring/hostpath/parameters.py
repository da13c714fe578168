"""What a class, or an inline volume, may ask of this driver: `pool`, `kind`, and for inline volumes `size`.

Unknown keys are refused by name, because a misspelt pool that is ignored ends on the wrong disks. Keys that belong to
Kubernetes (`csi.storage.k8s.io/`), which capacity publishers pass on unfiltered, are skipped, and so is `fstype`.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.quantity import QuantityError, to_bytes
from mooring.csi.contract import Code, DriverError
from mooring.hostpath.layout import Kind

KUBERNETES: Final = "csi.storage.k8s.io/"
#: Set by kubelets on NodePublishVolume when the volume is defined inside a pod.
EPHEMERAL: Final = "csi.storage.k8s.io/ephemeral"
#: Bytes of an inline volume that names no size; csi-driver-host-path's fixed 100 MiB.
INLINE_BYTES: Final = 100 << 20


class Wish(msgspec.Struct, frozen=True):
    """None where the class leaves it to the driver."""

    pool: str | None = None
    kind: Kind | None = None


def wish(parameters: Mapping[str, str]) -> Wish:
    """Of a class. Raises INVALID_ARGUMENT."""
    return _wish(_own(parameters))


def inline_wish(attributes: Mapping[str, str]) -> tuple[Wish, int]:
    """Of a volume inside a pod, and its size in bytes. Raises INVALID_ARGUMENT."""
    own = _own(attributes)
    text = own.pop("size", None)
    if text is None:
        return _wish(own), INLINE_BYTES
    try:
        size = to_bytes(text)
    except QuantityError as error:
        raise DriverError(Code.INVALID_ARGUMENT, f"size {text!r} is not a quantity") from error
    if size <= 0:
        raise DriverError(Code.INVALID_ARGUMENT, f"size {text!r} is not positive")
    return _wish(own), size


def _own(parameters: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value for key, value in parameters.items() if not key.startswith(KUBERNETES) and key.lower() != "fstype"
    }


def _wish(own: dict[str, str]) -> Wish:
    if strange := sorted(own.keys() - {"pool", "kind"}):
        raise DriverError(
            Code.INVALID_ARGUMENT, f"unknown parameter {', '.join(strange)}: this driver has pool and kind"
        )
    kind = own.get("kind")
    if kind is not None and kind not in Kind._value2member_map_:
        raise DriverError(Code.INVALID_ARGUMENT, f"unknown kind {kind!r}: choose from {', '.join(Kind)}")
    return Wish(pool=own.get("pool"), kind=None if kind is None else Kind(kind))
