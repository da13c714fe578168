"""What a volume has and what a claim asked for, where the two do not go together: the figures behind a criterion.

Below `candidates`. Which criterion fails is `volumes.matching`'s word; this is only how it is told.
"""

from collections.abc import Callable, Mapping
from typing import Final

from mooring.api import quantity
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import Amount
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import affinity
from mooring.volumes.holds import objects
from mooring.volumes.matching import Criterion, Needs
from mooring.volumes.plan import HoldState, hold_state
from mooring.volumes.shortage import where

RELEASED: Final = "Released"

#: What RESERVED means where it says more than that: name and words.
#: How volumes are counted by what they fail.
COUNTED: Final[Mapping[str, str]] = {
    "RESERVED": "taken by other claims",
    "HELD": "held for other claims",
    "ROLLING_BACK": "being rolled back",
    "RELEASED": "Released",
    "SIZE": "too small",
    "MODE": "of another volumeMode",
    "ATTRIBUTES_CLASS": "of another volumeAttributesClassName",
    "DELETING": "being deleted",
    "PHASE": "not Available",
    "SELECTOR": "not matched by the claim's selector",
    "CLASS": "of other classes",
    "AFFINITY": "out of the node's reach",
    "ACCESS_MODES": "without the access modes",
}

_HELD: Final = ("HELD", "is held")
_ROLLING_BACK: Final = ("ROLLING_BACK", "is being rolled back")
_LEFT_BEHIND: Final = ("RELEASED", "is Released: its claim is gone, and its claimRef is still there")


def told(volume: Volume, criterion: Criterion) -> tuple[str, str]:
    """The name and the words of a criterion; a volume that is taken is told by how it is."""
    if criterion is Criterion.RESERVED:
        match held(volume):
            case HoldState.HELD:
                return _HELD
            case HoldState.ROLLING_BACK:
                return _ROLLING_BACK
            case _ if volume.status.phase == RELEASED:
                return _LEFT_BEHIND
    return criterion.name, criterion.value


def held(volume: Volume) -> HoldState:
    """Where holds are kept is a setting that no object shows; their marks tell them from other references."""
    reference = volume.spec.claim_ref
    if reference is None or objects.CLAIM not in volume.metadata.annotations:
        return HoldState.FREE if reference is None else HoldState.COMMITTED
    return hold_state(volume, hold_namespace=reference.namespace)


def detail(needs: Needs, volume: Volume, criterion: Criterion) -> str:
    return _DETAILS[criterion](needs, volume)


def amount(given: Amount) -> str:
    """As Kubernetes writes it; what is no amount is shown as it is."""
    try:
        return quantity.canonical(given)
    except QuantityError:
        return str(given)


def differing(wanted: Mapping[str, str], has: Mapping[str, str]) -> str:
    return ", ".join(f"{key} is {has[key]}" if key in has else f"has no {key}" for key in wanted)


def _reserved(needs: Needs, volume: Volume) -> str:
    notes, reference = volume.metadata.annotations, volume.spec.claim_ref
    assert reference is not None
    match held(volume):
        case HoldState.HELD:
            return f"for {notes[objects.CLAIM]} on {notes.get(objects.NODE, '?')} since {notes.get(objects.SINCE, '?')}"
        case HoldState.ROLLING_BACK:
            return f"made for {notes[objects.CLAIM]}: {notes.get(objects.REASON, 'no reason given')}"
        case _ if volume.status.phase == RELEASED:
            policy = volume.spec.persistent_volume_reclaim_policy
            return f"was {reference.namespace}/{reference.name}'s, reclaim policy {policy}"
    failed = f", {volume.status.phase}: {volume.status.message}" if volume.status.message else ""
    return f"for {reference.namespace}/{reference.name}{failed}"


def _size(needs: Needs, volume: Volume) -> str:
    return f"{amount(volume.size)}, {amount(needs.claim.request)} asked for"


def _mode(needs: Needs, volume: Volume) -> str:
    return f"{volume.spec.volume_mode}, {needs.claim.spec.volume_mode} asked for"


def _attributes_class(needs: Needs, volume: Volume) -> str:
    has, asked = volume.spec.volume_attributes_class_name, needs.claim.spec.volume_attributes_class_name
    return f"{has or 'none'}, {asked or 'none'} asked for"


def _deleting(needs: Needs, volume: Volume) -> str:
    return f"since {volume.metadata.deletion_timestamp}"


def _phase(needs: Needs, volume: Volume) -> str:
    status = volume.status
    return f"{status.phase or 'no phase yet'}: {status.message}" if status.message else status.phase or "no phase yet"


def _selector(needs: Needs, volume: Volume) -> str:
    labels = volume.metadata.labels
    failing = [] if needs.selector is None else [one for one in needs.selector.requirements if not one.matches(labels)]
    return f"{', '.join(map(str, failing))} asked for, {differing({one.key: '' for one in failing}, labels)}"


def _class(needs: Needs, volume: Volume) -> str:
    return f"{volume.storage_class or 'none'}, {needs.storage_class or 'none'} asked for"


def _affinity(needs: Needs, volume: Volume) -> str:
    return f"only from {where(affinity(volume))}"


def _access_modes(needs: Needs, volume: Volume) -> str:
    lacking = sorted(set(needs.claim.spec.access_modes).difference(volume.spec.access_modes))
    return f"{', '.join(volume.spec.access_modes) or 'none'}, not {', '.join(lacking)}"


_DETAILS: Final[Mapping[Criterion, Callable[[Needs, Volume], str]]] = {
    Criterion.RESERVED: _reserved,
    Criterion.SIZE: _size,
    Criterion.MODE: _mode,
    Criterion.ATTRIBUTES_CLASS: _attributes_class,
    Criterion.DELETING: _deleting,
    Criterion.PHASE: _phase,
    Criterion.SELECTOR: _selector,
    Criterion.CLASS: _class,
    Criterion.AFFINITY: _affinity,
    Criterion.ACCESS_MODES: _access_modes,
}
