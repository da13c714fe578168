"""`pluginConfig` of a profile: the arguments of single plugins, from the document to the plugins made with them.

One row per plugin that takes arguments; arguments of others are refused. Pure, like all of the configuration.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from mooring.scheduler.binder import BIND_TIMEOUT
from mooring.scheduler.configuration_document import (
    API_VERSION,
    ConfigurationError,
    Document,
    PluginConfig,
    converted,
    only,
)
from mooring.scheduler.contract import Plugin
from mooring.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.scheduler.plugins.node_resources_fit import NodeResourcesFit
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.resource_strategies import (
    CPU_AND_MEMORY,
    RequestedToCapacityRatio,
    Strategy,
    Weighed,
    least_allocated,
    most_allocated,
)
from mooring.volumes.scoring import CapacityPolicy, Ramp, RampPoint

#: kube-scheduler's bounds of a resource's weight.
LEAST_WEIGHT: Final = 1
MOST_WEIGHT: Final = 100


class Arguments(NamedTuple):
    """What a profile's arguments come to: the plugins made with them, by name, and how long bindings may take."""

    plugins: Mapping[str, Plugin]
    bind_timeout: float


class _Arguments(Document, frozen=True):
    api_version: str = API_VERSION
    kind: str = ""


class _ShapePoint(Document, frozen=True):
    utilization: int
    score: int


class _VolumeBindingArgs(_Arguments, frozen=True):
    bind_timeout_seconds: int | None = None
    shape: tuple[_ShapePoint, ...] | None = ()
    #: Mooring's own.
    capacity_policy: CapacityPolicy | None = None


class _ResourceSpec(Document, frozen=True):
    name: str
    weight: int = 1


class _RatioParameters(Document, frozen=True):
    shape: tuple[_ShapePoint, ...] | None = ()


class _ScoringStrategy(Document, frozen=True):
    type: str = "LeastAllocated"
    resources: tuple[_ResourceSpec, ...] | None = ()
    requested_to_capacity_ratio: _RatioParameters | None = None


class _NodeResourcesFitArgs(_Arguments, frozen=True):
    ignored_resources: tuple[str, ...] | None = ()
    ignored_resource_groups: tuple[str, ...] | None = ()
    scoring_strategy: _ScoringStrategy | None = None


class _BalancedAllocationArgs(_Arguments, frozen=True):
    resources: tuple[_ResourceSpec, ...] | None = ()


def read_arguments(path: str, configs: Iterable[PluginConfig]) -> Arguments:
    """Raises ConfigurationError."""
    plugins: dict[str, Plugin] = {}
    timeout = BIND_TIMEOUT
    for number, config in enumerate(configs):
        here = f"{path}[{number}]"
        if config.name in plugins:
            raise ConfigurationError(here, f"{config.name} is configured twice")
        make = _MAKERS.get(config.name)
        if make is None:
            known = ", ".join(sorted(_MAKERS))
            raise ConfigurationError(here, f"arguments of {config.name} are not supported; only those of {known} are")
        plugins[config.name] = make(f"{here}.args", config)
        if config.name == VolumeBinding.name:
            timeout = _bind_timeout(f"{here}.args", config)
    return Arguments(plugins, timeout)


_A = TypeVar("_A", bound=_Arguments)


def _read(path: str, config: PluginConfig, kind: type[_A]) -> _A:
    args = converted(path, config.args, kind)
    only(f"{path}.apiVersion", args.api_version, API_VERSION)
    only(f"{path}.kind", args.kind, "", f"{config.name}Args")
    return args


def _volume_binding(path: str, config: PluginConfig) -> Plugin:
    args = _read(path, config, _VolumeBindingArgs)
    if args.shape and args.capacity_policy is not None:
        raise ConfigurationError(f"{path}.capacityPolicy", "cannot be combined with shape: the shape says it all")
    ramp = _ramp(path, args.shape) if args.shape else None
    return VolumeBinding(ramp, policy=args.capacity_policy or CapacityPolicy.SPREAD)


def _bind_timeout(path: str, config: PluginConfig) -> float:
    seconds = _read(path, config, _VolumeBindingArgs).bind_timeout_seconds
    if seconds is None:
        return BIND_TIMEOUT
    if seconds < 0:
        raise ConfigurationError(f"{path}.bindTimeoutSeconds", "must not be negative")
    return float(seconds)


def _node_resources_fit(path: str, config: PluginConfig) -> Plugin:
    args = _read(path, config, _NodeResourcesFitArgs)
    wanted = args.scoring_strategy or _ScoringStrategy()
    here = f"{path}.scoringStrategy"
    return NodeResourcesFit(
        strategy=_strategy(here, wanted),
        resources=_weighed(f"{here}.resources", wanted.resources or ()) or CPU_AND_MEMORY,
        ignored=args.ignored_resources or (),
        ignored_groups=args.ignored_resource_groups or (),
    )


def _strategy(path: str, wanted: _ScoringStrategy) -> Strategy:
    ratio = wanted.requested_to_capacity_ratio
    match wanted.type:
        case "LeastAllocated":
            return least_allocated
        case "MostAllocated":
            return most_allocated
        case "RequestedToCapacityRatio":
            here = f"{path}.requestedToCapacityRatio"
            return RequestedToCapacityRatio(_ramp(here, (ratio or _RatioParameters()).shape or ()))
        case other:
            kinds = "LeastAllocated, MostAllocated or RequestedToCapacityRatio"
            raise ConfigurationError(f"{path}.type", f"{other!r} is none of {kinds}")


def _balanced_allocation(path: str, config: PluginConfig) -> Plugin:
    resources = _weighed(f"{path}.resources", _read(path, config, _BalancedAllocationArgs).resources or ())
    for number, weighed in enumerate(resources):
        only(f"{path}.resources[{number}].weight", weighed.weight, 1)
    return NodeResourcesBalancedAllocation([one.resource for one in resources or CPU_AND_MEMORY])


def _weighed(path: str, resources: Iterable[_ResourceSpec]) -> tuple[Weighed, ...]:
    weighed: list[Weighed] = []
    for number, spec in enumerate(resources):
        # Zero is how kube-scheduler's own type spells "not given".
        weight = spec.weight or LEAST_WEIGHT
        if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            raise ConfigurationError(f"{path}[{number}].weight", f"must be from {LEAST_WEIGHT} to {MOST_WEIGHT}")
        weighed.append(Weighed(spec.name, weight))
    return tuple(weighed)


def _ramp(path: str, points: Iterable[_ShapePoint]) -> Ramp:
    try:
        return Ramp([RampPoint(point.utilization, point.score) for point in points])
    except ValueError as error:
        raise ConfigurationError(path, str(error)) from error


_MAKERS: Final[Mapping[str, Callable[[str, PluginConfig], Plugin]]] = {
    VolumeBinding.name: _volume_binding,
    NodeResourcesFit.name: _node_resources_fit,
    NodeResourcesBalancedAllocation.name: _balanced_allocation,
}
