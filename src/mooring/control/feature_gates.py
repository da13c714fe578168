"""Feature gates: one literal table, and what a `--feature-gates` flag makes of it.

Pure, and the same for every component: people give all components of a cluster one value, and a gate says itself
where it counts. What a component does when a gate is off stands in the gate's row, and is done by the component.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: The spellings upstream's flag takes, which are Go's.
_VALUES: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


class Stage(enum.Enum):
    """How far a feature has come, in upstream's words."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True)
class Gate:
    """One row of the table."""

    name: str
    stage: Stage
    default: bool
    #: The components whose behaviour it changes.
    components: tuple[str, ...]
    #: What they do when it is off.
    off: str
    #: Whether it can no longer be set to anything but its default.
    locked: bool = False

    def __str__(self) -> str:
        return self.name


VOLUME_SCHEDULING: Final = Gate(
    name="VolumeScheduling",
    stage=Stage.GA,
    default=True,
    components=("scheduler", "persistentvolume-controller"),
    off=(
        "The scheduler finds no node for a pod with an unbound claim of a class that waits for its first consumer, and "
        "gives the gate as the reason; the PV controller leaves such claims unbound and says so in an event. Claims of "
        "other classes, and claims already bound, are not touched by it."
    ),
)
CSI_STORAGE_CAPACITY: Final = Gate(
    name="CSIStorageCapacity",
    stage=Stage.GA,
    default=True,
    components=("scheduler",),
    off="The scheduler does not look at capacity objects: every node is taken to have room for a new volume.",
)
UNUSED_SINCE: Final = Gate(
    name="PersistentVolumeClaimUnusedSinceTime",
    stage=Stage.ALPHA,
    default=False,
    components=("volume-protection",),
    off="Claims do not have the condition Unused, which says since when no pod uses them.",
)
PROVISIONING_ROLLBACK: Final = Gate(
    name="ProvisioningRollback",
    stage=Stage.BETA,
    default=True,
    components=("mooring-provisioner", "mooring-coordinator"),
    off=(
        "Volumes are given to their claims one by one, as they are made or found, and stay there. What is held when it "
        "is turned off is given if it is complete, and rolled back otherwise."
    ),
)
CLAIM_ROLLBACK: Final = Gate(
    name="ClaimRollback",
    stage=Stage.ALPHA,
    default=False,
    components=("apiserver", "persistentvolume-controller", "scheduler", "node-agent"),
    off=(
        "A claim that was bound keeps its volume for good: none is called clean or marked to be unbound, no mark is "
        "looked at, and the API server lets no claim lose its volume. What is called clean already and is used then is "
        "no longer called so."
    ),
)

GATES: Final = (VOLUME_SCHEDULING, CSI_STORAGE_CAPACITY, UNUSED_SINCE, PROVISIONING_ROLLBACK, CLAIM_ROLLBACK)
BY_NAME: Final[Mapping[str, Gate]] = {gate.name: gate for gate in GATES}


class BadGates(ValueError):
    """A value that `--feature-gates` does not take; the text says which part of it, and what would do."""


@dataclass(frozen=True)
class FeatureGates:
    """The settings of one process, fixed when it starts. Two are equal when everything behaves the same."""

    _on: frozenset[Gate]

    def enabled(self, gate: Gate) -> bool:
        return gate in self._on

    def __str__(self) -> str:
        """Every gate with its setting, in a form `parse` reads."""
        return ",".join(f"{gate}={str(self.enabled(gate)).lower()}" for gate in GATES)


def parse(text: str) -> FeatureGates:
    """Settings as the flag takes them, `A=true,B=false`; what is not named keeps its default. Raises BadGates."""
    return with_defaults(named(text))


def named(text: str) -> dict[Gate, bool]:
    """The settings that such a value names, and no others. Raises BadGates."""
    return dict(_setting(part) for part in filter(None, text.split(",")))


def with_defaults(settings: Mapping[Gate, bool]) -> FeatureGates:
    """These settings, and every other gate at its default."""
    return FeatureGates(frozenset(gate for gate in GATES if settings.get(gate, gate.default)))


def _setting(part: str) -> tuple[Gate, bool]:
    name, given, value = (piece.strip() for piece in part.partition("="))
    gate = BY_NAME.get(name)
    if gate is None:
        raise BadGates(f"unrecognized feature gate: {name} (known are {', '.join(sorted(BY_NAME))})")
    if not given:
        raise BadGates(f"missing bool value for {name}: write {name}=true or {name}=false")
    on = _VALUES.get(value)
    if on is None:
        raise BadGates(f"invalid value of {name}={value}: write {name}=true or {name}=false")
    if gate.locked and on is not gate.default:
        default = str(gate.default).lower()
        raise BadGates(f"cannot set feature gate {name} to {str(on).lower()}, feature is locked to {default}")
    return gate, on


#: Nothing set: every gate at its default.
DEFAULTS: Final = parse("")
