"""The matcher: whether a volume does for a claim, and if not, which criterion fails first.

One claim and one volume at a time, in the order Kubernetes checks: the exact word on every pair. `volume_index`
answers the same for all nodes and volumes at once; the PV controller and `explain` ask here. Deciding which volume
goes to which of a pod's claims is `assignment`.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api import label_selector
from mooring.api.label_selector import LabelSelector
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.quantity import Quantity, QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import affinity
from mooring.volumes.shape import Shape, exact_size, positive_size, shape_of

AVAILABLE = "Available"


class Criterion(enum.Enum):
    """What a volume fails for a claim, in words that complete "the volume …"."""

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


class Needs(msgspec.Struct, frozen=True):
    """A claim made ready for comparing: its size, shape and selector are worked out once."""

    claim: Claim
    storage_class: str
    size: Quantity
    shape: Shape
    selector: LabelSelector | None

    @property
    def selects(self) -> bool:
        """Whether labels matter: a selector that is there but empty takes all."""
        return self.selector is not None and self.selector != label_selector.EVERYTHING

    def why_not(
        self, volume: Volume, *, node: Mapping[str, str] | None = None, name: str | None = None
    ) -> Criterion | None:
        """The first criterion the volume fails, or None when it does. With `node`, labels of a node that must reach
        it, the place counts as well; without the node's `name`, volumes that name their nodes are let pass.

        A volume reserved for this very claim need not be Available, nor match its selector or class. It must have the
        access modes: the PV controller would not bind it without, and the claim would wait for ever.
        """
        criteria = _RESERVED if points_to(volume, self.claim) else _FREE
        for criterion in criteria:
            if self.fails(criterion, volume, node=node, name=name):
                return criterion
        return None

    def fails(
        self, criterion: Criterion, volume: Volume, *, node: Mapping[str, str] | None = None, name: str | None = None
    ) -> bool:
        """Whether a volume fails one criterion, whatever it does about the others."""
        spec = volume.spec
        match criterion:
            case Criterion.RESERVED:
                return spec.claim_ref is not None and not points_to(volume, self.claim)
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


#: In the order Kubernetes checks them.
_FREE: Final = (
    Criterion.RESERVED,
    Criterion.SIZE,
    Criterion.MODE,
    Criterion.ATTRIBUTES_CLASS,
    Criterion.DELETING,
    Criterion.PHASE,
    Criterion.SELECTOR,
    Criterion.CLASS,
    Criterion.AFFINITY,
    Criterion.ACCESS_MODES,
)
_RESERVED: Final = (
    Criterion.SIZE,
    Criterion.MODE,
    Criterion.ATTRIBUTES_CLASS,
    Criterion.DELETING,
    Criterion.ACCESS_MODES,
    Criterion.AFFINITY,
)


def needs_of(claim: Claim, *, selecting: bool = True) -> Needs:
    """Raises SelectorError or QuantityError when the claim's selector or size cannot be understood. Without `selecting`
    the selector is not looked at."""
    view = claim.spec.selector if selecting else None
    selector = None if view is None else label_selector.from_view(view.match_labels, view.match_expressions)
    return Needs(claim, claim.storage_class, positive_size(claim.request), shape_of(claim), selector)


def points_to(volume: Volume, claim: Claim) -> bool:
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


def why_not(
    claim: Claim, volume: Volume, *, node: Mapping[str, str] | None = None, name: str | None = None
) -> Criterion | None:
    """The first criterion a volume fails for a claim, or None; see `Needs.why_not`."""
    return needs_of(claim).why_not(volume, node=node, name=name)


def find(
    claim: Claim,
    volumes: Iterable[Volume],
    *,
    node: Mapping[str, str] | None = None,
    name: str | None = None,
    excluded: Collection[str] = (),
    reserved_only: bool = False,
) -> Volume | None:
    """The volume for one claim: the one reserved for it, else the smallest that does; ties go to the first by name.

    A reserved volume that the node cannot reach ends the search: the claim waits for that one. `reserved_only` is
    the PV controller's view of a delayed claim, which must not take a free volume before a node is chosen.
    """
    needs = needs_of(claim)
    best: Volume | None = None
    for volume in sorted(volumes, key=lambda one: one.name):
        if volume.name in excluded:
            continue
        failed = needs.why_not(volume, node=node, name=name)
        if points_to(volume, claim) and failed in (None, Criterion.AFFINITY):
            return volume if failed is None else None
        if failed is None and not reserved_only and (best is None or exact_size(volume.size) < exact_size(best.size)):
            best = volume
    return best


def _reaches(volume: Volume, node: Mapping[str, str] | None, name: str | None) -> bool:
    if node is None:
        return True
    required = affinity(volume)
    return required is None or required.matches(node, fields=None if name is None else {NODE_NAME_FIELD: name})


def outgrows(claim: Claim, volume: Volume) -> bool:
    """Whether a bound claim was patched to ask for more than its volume has. Resizing is left to an external resizer,
    as upstream leaves it for every CSI driver."""
    try:
        return exact_size(claim.request) > exact_size(volume.size)
    except QuantityError:
        return False
