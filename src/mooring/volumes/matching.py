"""PV/PVC matching: requirements of a claim, volume shapes, and the first criterion a volume fails.

One claim and one volume at a time, in the order Kubernetes checks; `volume_index` gives the same result for all
nodes and volumes at once. Volumes of one class and shape differ only in size, labels and topology.
"""

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from mooring.api import quantity, selectors
from mooring.api.node_selectors import NODE_NAME_FIELD
from mooring.api.quantity import Quantity, QuantityError
from mooring.api.selectors import LabelSelector
from mooring.api.views.meta import Amount
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.topology import affinity_of

SIZE_CACHE_SIZE: Final = 8192
"""Distinct spellings of sizes parsed once; a cluster writes few."""


@lru_cache(maxsize=SIZE_CACHE_SIZE)
def exact_size(amount: Amount) -> Quantity:
    """A size as an exact number; sizes are compared exactly, so that 800E and 1500m work too."""
    return quantity.parse(amount)


def positive_size(amount: Amount) -> Quantity:
    """`exact_size` of an amount that must not be negative. Raises QuantityError."""
    size = exact_size(amount)
    if size < 0:
        raise QuantityError(str(amount), "is negative")
    return size


class VolumeShape(NamedTuple):
    """Everything a claim must find on a volume besides class, size, labels and place."""

    mode: str
    access_modes: frozenset[str]
    attributes_class: str

    def satisfies(self, requested: "VolumeShape") -> bool:
        """Whether a volume of this shape does for a claim that wants the other; it may offer more access modes."""
        return (
            self.mode == requested.mode
            and self.attributes_class == requested.attributes_class
            and requested.access_modes <= self.access_modes
        )


def shape_of(thing: Volume | Claim) -> VolumeShape:
    spec = thing.spec
    return VolumeShape(spec.volume_mode, frozenset(spec.access_modes), spec.volume_attributes_class_name)


AVAILABLE = "Available"


class Criterion(enum.Enum):
    """What a volume fails for a claim, in words that complete "the volume …"; in the order Kubernetes checks them."""

    RESERVED = "is reserved for another claim"
    SIZE = "is smaller than requested"
    MODE = "has another volumeMode"
    ATTRIBUTES_CLASS = "has another volumeAttributesClassName"
    DELETING = "is being deleted"
    PHASE = "is not Available"
    SELECTOR = "does not match the claim's selector"
    CLASS = "has another storage class"
    AFFINITY = "cannot be reached from the node"
    ACCESS_MODES = "lacks a requested access mode"


class ClaimRequirements(msgspec.Struct, frozen=True):
    """A claim made ready for comparing: its size, shape and selector are worked out once."""

    claim: Claim
    storage_class: str
    size: Quantity
    shape: VolumeShape
    selector: LabelSelector | None

    @property
    def has_selector(self) -> bool:
        """Whether labels matter: a selector that is there but empty takes all."""
        return self.selector is not None and self.selector != selectors.ALL_LABELS

    def first_mismatch(
        self, volume: Volume, *, node: Mapping[str, str] | None = None, name: str | None = None
    ) -> Criterion | None:
        """The first criterion the volume fails, or None when it does. With `node`, labels of a node that must reach
        it, the place counts as well; without the node's `name`, volumes that name their nodes are let pass.

        A volume reserved for this very claim need not be Available, nor match its selector or class. It must have the
        access modes: the PV controller would not bind it without, and the claim would wait for ever.
        """
        criteria = _RESERVED if is_reserved_for(volume, self.claim) else _FREE
        return next((each for each in criteria if self.fails(each, volume, node=node, name=name)), None)

    def fails(
        self, criterion: Criterion, volume: Volume, *, node: Mapping[str, str] | None = None, name: str | None = None
    ) -> bool:
        """Whether a volume fails one criterion, whatever it does about the others."""
        spec = volume.spec
        match criterion:
            case Criterion.RESERVED:
                return spec.claim_ref is not None and not is_reserved_for(volume, self.claim)
            case Criterion.SIZE:
                return exact_size(volume.size) < self.size
            case Criterion.MODE:
                return spec.volume_mode != self.shape.mode
            case Criterion.ATTRIBUTES_CLASS:
                return spec.volume_attributes_class_name != self.shape.attributes_class
            case Criterion.DELETING:
                return volume.deleting
            case Criterion.PHASE:
                return volume.status.phase != AVAILABLE
            case Criterion.SELECTOR:
                return self.selector is not None and not self.selector.matches(volume.metadata.labels)
            case Criterion.CLASS:
                return volume.storage_class != self.storage_class
            case Criterion.AFFINITY:
                return not _reaches(volume, node, name)
            case Criterion.ACCESS_MODES:
                return not self.shape.access_modes.issubset(spec.access_modes)


_FREE: Final = tuple(Criterion)
_RESERVED: Final = (
    *(Criterion.SIZE, Criterion.MODE, Criterion.ATTRIBUTES_CLASS),
    *(Criterion.DELETING, Criterion.ACCESS_MODES, Criterion.AFFINITY),
)


def requirements_of(claim: Claim, *, selecting: bool = True) -> ClaimRequirements:
    """Raises SelectorError or QuantityError when the claim's selector or size cannot be understood. Without `selecting`
    the selector is not looked at."""
    view = claim.spec.selector if selecting else None
    selector = None if view is None else selectors.label_selector_from_view(view)
    return ClaimRequirements(claim, claim.storage_class, positive_size(claim.request), shape_of(claim), selector)


def is_reserved_for(volume: Volume, claim: Claim) -> bool:
    """Whether a volume is reserved for this claim: by name, and by uid unless the reference leaves that open."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.name
        and reference.namespace == claim.namespace
        and reference.uid in ("", claim.uid)
    )


def is_free(volume: Volume) -> bool:
    """Whether a claim may take a volume that is not reserved for it."""
    return volume.spec.claim_ref is None and volume.status.phase == AVAILABLE and not volume.deleting


def first_mismatch(
    claim: Claim, volume: Volume, *, node: Mapping[str, str] | None = None, name: str | None = None
) -> Criterion | None:
    """The first criterion a volume fails for a claim, or None; see `ClaimRequirements.first_mismatch`."""
    return requirements_of(claim).first_mismatch(volume, node=node, name=name)


def _reaches(volume: Volume, node: Mapping[str, str] | None, name: str | None) -> bool:
    if node is None:
        return True
    required = affinity_of(volume)
    return required is None or required.matches(node, fields=None if name is None else {NODE_NAME_FIELD: name})


def outgrows(claim: Claim, volume: Volume) -> bool:
    """Whether a bound claim was patched to ask for more than its volume has. Resizing is left to an external resizer,
    as upstream leaves it for every CSI driver."""
    try:
        return exact_size(claim.request) > exact_size(volume.size)
    except QuantityError:
        return False
