"""Feature gates: the table, the parser of `--feature-gates`, and features that are held back during an upgrade. Pure.

All components accept the same value; each row names the components it affects.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

#: The spellings upstream's flag takes, which are Go's.
_VALUES: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


class Stage(enum.Enum):
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
    #: Whether only the default is accepted.
    locked: bool = False
    #: Whether its components rely on each other: it is held back until every live instance of them announces it.
    coordinated: bool = False

    def __str__(self) -> str:
        return self.name


VOLUME_SCHEDULING: Final = Gate(
    name="VolumeScheduling",
    stage=Stage.GA,
    default=True,
    components=("scheduler", "persistentvolume-controller", "mooring-provisioner", "standin-provisioner"),
    off=(
        "Claims of a WaitForFirstConsumer class are bound and provisioned at once, as those of other classes, wherever "
        "their volume is. Pods wait until their claims are bound, with the gate as reason."
    ),
)
CSI_STORAGE_CAPACITY: Final = Gate(
    name="CSIStorageCapacity",
    stage=Stage.GA,
    default=True,
    components=("apiserver", "scheduler", "mooring-provisioner"),
    off=(
        "The API server does not serve CSIStorageCapacity; stored objects stay. The scheduler ignores them: every node "
        "is assumed to have capacity for a new volume. The provisioner publishes none."
    ),
)
UNUSED_SINCE: Final = Gate(
    name="PersistentVolumeClaimUnusedSinceTime",
    stage=Stage.BETA,
    default=True,
    components=("volume-protection",),
    off="Bound claims do not get the condition Unused, which records since when no pod uses them.",
)
PROVISIONING_ROLLBACK: Final = Gate(
    name="ProvisioningRollback",
    stage=Stage.BETA,
    default=True,
    components=("scheduler", "extender", "mooring-provisioner", "mooring-coordinator"),
    off=(
        "Volumes are bound to their claims one by one as they are provisioned or matched, and stay bound. Volumes held "
        "when the gate is disabled are committed if all volumes of the pod are held, and rolled back otherwise."
    ),
    coordinated=True,
)
CLAIM_ROLLBACK: Final = Gate(
    name="ClaimRollback",
    stage=Stage.ALPHA,
    default=False,
    components=("apiserver", "persistentvolume-controller", "scheduler", "node-agent"),
    off=(
        "A bound claim keeps its volume: no claim is marked clean or to be unbound, existing marks are ignored, and "
        "the API server rejects unbinding a claim. A claim that was marked clean loses the mark when it is used."
    ),
    coordinated=True,
)
GANG_VOLUMES: Final = Gate(
    name="GangVolumes",
    stage=Stage.ALPHA,
    default=False,
    components=("scheduler", "mooring-provisioner", "mooring-coordinator"),
    off=(
        "The volumes of a group of pods (PodGroup) are bound one by one once nodes are found for all members together, "
        "so that a group may run without some of its members. Needs ProvisioningRollback; on in `mooring up`."
    ),
)

PRESET_NODE_BINDING: Final = Gate(
    name="PresetNodeBinding",
    stage=Stage.BETA,
    default=True,
    components=("preset-node-controller",),
    off=(
        "Claims of a WaitForFirstConsumer class stay unbound when their pod was created with spec.nodeName, as in "
        "Kubernetes, and an event on the pod gives the reason."
    ),
)

GATES: Final = (
    VOLUME_SCHEDULING,
    CSI_STORAGE_CAPACITY,
    UNUSED_SINCE,
    PROVISIONING_ROLLBACK,
    CLAIM_ROLLBACK,
    PRESET_NODE_BINDING,
    GANG_VOLUMES,
)
#: Gates that are on in the embedded cluster, where every component has them.
EMBEDDED: Final[Mapping[Gate, bool]] = {GANG_VOLUMES: True}
BY_NAME: Final[Mapping[str, Gate]] = {gate.name: gate for gate in GATES}


class BadGates(ValueError):
    """Invalid value of `--feature-gates`; the text names the part and the correction."""


@dataclass(frozen=True)
class FeatureGates:
    """The settings of one process, fixed at start."""

    _on: frozenset[Gate]

    def enabled(self, gate: Gate) -> bool:
        return gate in self._on

    def __str__(self) -> str:
        """Every gate with its setting, as `parse_feature_gates` accepts it."""
        return ",".join(f"{gate}={str(self.enabled(gate)).lower()}" for gate in GATES)


class FeatureRollout:
    """The features that are held back: an instance of a component that takes part does not announce them.

    Until the announcements were read for the first time, all coordinated ones are.
    """

    def __init__(self) -> None:
        #: Gate -> the instance that lacks it.
        self._lacking: Mapping[Gate, str] = {gate: "" for gate in GATES if gate.coordinated}

    def update(self, lacking: Mapping[Gate, str]) -> None:
        self._lacking = lacking

    def holds_back(self, gate: Gate) -> bool:
        return gate in self._lacking


def parse_announced(text: str) -> FeatureGates:
    """The settings that another process announces. Gates that it does not name, or not as this version spells them, are
    off there; gates that only it knows are ignored."""
    settings = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    return FeatureGates(frozenset(gate for gate in GATES if _VALUES.get(settings.get(gate.name, ""), False)))


def parse_feature_gates(text: str, defaults: Mapping[Gate, bool] = MappingProxyType({})) -> FeatureGates:
    """Settings from `A=true,B=false`; other gates are as in `defaults`, or keep their default. Raises BadGates."""
    return with_defaults({**defaults, **named(text)})


def named(text: str) -> dict[Gate, bool]:
    """Only the settings that the value names. Raises BadGates."""
    return dict(_setting(part) for part in filter(None, text.split(",")))


def with_defaults(settings: Mapping[Gate, bool]) -> FeatureGates:
    """These settings, and every other gate at its default."""
    return FeatureGates(frozenset(gate for gate in GATES if settings.get(gate, gate.default)))


def _setting(part: str) -> tuple[Gate, bool]:
    name, given, value = (piece.strip() for piece in part.partition("="))
    gate = BY_NAME.get(name)
    if gate is None:
        raise BadGates(f"unrecognized feature gate: {name} (known: {', '.join(sorted(BY_NAME))})")
    if not given:
        raise BadGates(f"missing bool value for {name}: write {name}=true or {name}=false")
    on = _VALUES.get(value)
    if on is None:
        raise BadGates(f"invalid value of {name}={value}: write {name}=true or {name}=false")
    if gate.locked and on is not gate.default:
        default = str(gate.default).lower()
        raise BadGates(f"cannot set feature gate {name} to {str(on).lower()}, feature is locked to {default}")
    return gate, on


DEFAULTS: Final = parse_feature_gates("")
