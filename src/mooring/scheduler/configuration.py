"""KubeSchedulerConfiguration (`mooring scheduler --config FILE`) and the plugin arguments in it. Pure.

A decoded document in, settings out. A kube-scheduler field that this scheduler does not implement is accepted if it
asks for what happens anyway, and refused by name otherwise, like unknown fields: nothing is ignored. Reading the file
and merging it with flags is the command's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from mooring.api import well_known
from mooring.api.times import DurationError, parse_duration
from mooring.control.election import ElectionSettings
from mooring.scheduler.binding.binder import BIND_TIMEOUT
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import Plugin, Score
from mooring.scheduler.framework.scoring import (
    CPU_AND_MEMORY,
    RequestedToCapacityRatio,
    ResourceWeight,
    Strategy,
    least_allocated,
    most_allocated,
)
from mooring.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.queue import PodBackoff
from mooring.scheduler.registry import DEFAULT, OPTIONAL
from mooring.volumes.scoring import CapacityPolicy, UtilizationShape, UtilizationShapePoint

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"


class ConfigurationError(ValueError):
    """The text begins with the field."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)


class Document(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of the document's parts. Fields of type `object` are checked one by one."""


class ClientConnection(Document, frozen=True):
    kubeconfig: str = ""
    accept_content_types: object = None
    content_type: object = None
    qps: object = None
    burst: object = None


class LeaderElection(Document, frozen=True):
    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: object = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class PluginEntry(Document, frozen=True):
    name: str
    weight: int | None = None


class PluginSet(Document, frozen=True):
    enabled: tuple[PluginEntry, ...] | None = ()
    disabled: tuple[PluginEntry, ...] | None = ()


class Plugins(Document, frozen=True):
    multi_point: PluginSet = PluginSet()
    pre_enqueue: object = None
    queue_sort: object = None
    pre_filter: object = None
    filter: object = None
    post_filter: object = None
    pre_score: object = None
    score: object = None
    reserve: object = None
    permit: object = None
    pre_bind: object = None
    bind: object = None
    post_bind: object = None
    placement_generate: object = None
    placement_score: object = None
    pod_group_post_filter: object = None


class PluginConfig(Document, frozen=True):
    name: str
    args: dict[str, object] = {}


class ProfileDocument(Document, frozen=True):
    scheduler_name: str = well_known.DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: object = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] | None = ()


class File(Document, frozen=True):
    api_version: str
    kind: str
    client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    profiles: tuple[ProfileDocument, ...] | None = ()
    parallelism: object = None
    percentage_of_nodes_to_score: object = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    enable_profiling: object = None
    enable_contention_profiling: object = None
    delay_cache_until_active: object = None
    extenders: object = None


D = TypeVar("D", bound=Document)


def converted(path: str, value: object, kind: type[D]) -> D:
    """Decode a part of the document. Raises ConfigurationError, with the path first."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        below = where.rstrip("`").lstrip(".")
        full = ".".join(filter(None, (path, below))).replace(".[", "[")
        raise ConfigurationError(full, problem) from error


def only(path: str, value: object, *accepted: object) -> None:
    """Refuse a field whose value is not one of the accepted ones."""
    if value is None or any(value == one and isinstance(value, bool) is isinstance(one, bool) for one in accepted):
        return
    instead = f"; only {' or '.join(_written(one) for one in accepted)} is" if accepted else ": remove it"
    raise ConfigurationError(path, f"{_written(value)} is not supported{instead}")


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _written(value: object) -> str:
    """A value as written in the file."""
    return msgspec.json.encode(value).decode()


#: kube-scheduler's bounds of a resource's weight.
MIN_WEIGHT: Final = 1
MAX_WEIGHT: Final = 100


class _Arguments(Document, frozen=True):
    """Base of the arguments of one plugin."""

    api_version: str = API_VERSION
    kind: str = ""

    def plugin(self, path: str) -> Plugin | None:
        """The plugin with these arguments, which are at `path`; None for the profile's own. Raises
        ConfigurationError."""
        raise NotImplementedError


class _ShapePoint(Document, frozen=True):
    utilization: int
    score: int


class _VolumeBindingArgs(_Arguments, frozen=True):
    bind_timeout_seconds: int | None = None
    shape: tuple[_ShapePoint, ...] | None = ()
    #: Mooring's own.
    capacity_policy: CapacityPolicy | None = None

    def plugin(self, path: str) -> Plugin | None:
        if self.shape and self.capacity_policy is not None:
            raise ConfigurationError(f"{path}.capacityPolicy", "cannot be combined with shape")
        if self.shape:
            return VolumeBinding(_ramp(path, self.shape))
        return None if self.capacity_policy is None else VolumeBinding(policy=self.capacity_policy)

    def bind_timeout(self, path: str) -> float:
        seconds = self.bind_timeout_seconds
        if seconds is not None and seconds < 0:
            raise ConfigurationError(f"{path}.bindTimeoutSeconds", "must not be negative")
        return BIND_TIMEOUT if seconds is None else float(seconds)


class _ResourceSpec(Document, frozen=True):
    name: str
    weight: int = 1


class _RatioParameters(Document, frozen=True):
    shape: tuple[_ShapePoint, ...] | None = ()


class _ScoringStrategy(Document, frozen=True):
    type: str = "LeastAllocated"
    resources: tuple[_ResourceSpec, ...] | None = ()
    requested_to_capacity_ratio: _RatioParameters | None = None

    def function(self, path: str) -> Strategy:
        match self.type:
            case "LeastAllocated":
                return least_allocated
            case "MostAllocated":
                return most_allocated
            case "RequestedToCapacityRatio":
                ratio = self.requested_to_capacity_ratio or _RatioParameters()
                return RequestedToCapacityRatio(_ramp(f"{path}.requestedToCapacityRatio", ratio.shape or ()))
            case other:
                kinds = "LeastAllocated, MostAllocated or RequestedToCapacityRatio"
                raise ConfigurationError(f"{path}.type", f"{other!r} must be one of {kinds}")


class _NodeResourcesFitArgs(_Arguments, frozen=True):
    ignored_resources: tuple[str, ...] | None = ()
    ignored_resource_groups: tuple[str, ...] | None = ()
    scoring_strategy: _ScoringStrategy | None = None

    def plugin(self, path: str) -> Plugin:
        here, strategy = f"{path}.scoringStrategy", self.scoring_strategy or _ScoringStrategy()
        return NodeResourcesFit(
            strategy=strategy.function(here),
            resources=_weighed(f"{here}.resources", strategy.resources or ()) or CPU_AND_MEMORY,
            ignored=self.ignored_resources or (),
            ignored_groups=self.ignored_resource_groups or (),
        )


class _BalancedAllocationArgs(_Arguments, frozen=True):
    resources: tuple[_ResourceSpec, ...] | None = ()

    def plugin(self, path: str) -> Plugin:
        resources = _weighed(f"{path}.resources", self.resources or ())
        for number, weighed in enumerate(resources):
            only(f"{path}.resources[{number}].weight", weighed.weight, 1)
        return NodeResourcesBalancedAllocation([one.resource for one in resources or CPU_AND_MEMORY])


_ARGUMENTS: Final[Mapping[str, type[_Arguments]]] = {
    VolumeBinding.name: _VolumeBindingArgs,
    NodeResourcesFit.name: _NodeResourcesFitArgs,
    NodeResourcesBalancedAllocation.name: _BalancedAllocationArgs,
}


def read_arguments(path: str, configs: Iterable[PluginConfig]) -> tuple[dict[str, Plugin], float]:
    """The plugins with their arguments, by name, and the bind timeout. Raises ConfigurationError."""
    plugins: dict[str, Plugin] = {}
    seen: set[str] = set()
    timeout = BIND_TIMEOUT
    for number, config in enumerate(configs):
        here = f"{path}[{number}]"
        if config.name in seen:
            raise ConfigurationError(here, f"{config.name} is configured twice")
        if config.name not in _ARGUMENTS:
            known = ", ".join(sorted(_ARGUMENTS))
            raise ConfigurationError(here, f"arguments of {config.name} are not supported; only those of {known} are")
        args = converted(f"{here}.args", config.args, _ARGUMENTS[config.name])
        only(f"{here}.args.apiVersion", args.api_version, API_VERSION)
        only(f"{here}.args.kind", args.kind, "", f"{config.name}Args")
        seen.add(config.name)
        plugin = args.plugin(f"{here}.args")
        if plugin is not None:
            plugins[config.name] = plugin
        if isinstance(args, _VolumeBindingArgs):
            timeout = args.bind_timeout(f"{here}.args")
    return plugins, timeout


def _weighed(path: str, resources: Iterable[_ResourceSpec]) -> tuple[ResourceWeight, ...]:
    weighed: list[ResourceWeight] = []
    for number, spec in enumerate(resources):
        # Zero is how kube-scheduler's own type spells "not given".
        weight = spec.weight or MIN_WEIGHT
        if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
            raise ConfigurationError(f"{path}[{number}].weight", f"must be from {MIN_WEIGHT} to {MAX_WEIGHT}")
        weighed.append(ResourceWeight(spec.name, weight))
    return tuple(weighed)


def _ramp(path: str, points: Iterable[_ShapePoint]) -> UtilizationShape:
    try:
        return UtilizationShape([UtilizationShapePoint(point.utilization, point.score) for point in points])
    except ValueError as error:
        raise ConfigurationError(path, str(error)) from error


ALL: Final = "*"
#: Cannot be disabled: it rejects pods that would be scheduled wrongly.
_ALWAYS: Final = "Unsupported"
_PLUGINS: Final = frozenset(plugin.name for plugin in (*DEFAULT.plugins, *OPTIONAL))
#: kube-scheduler's other plugins: turning one off changes nothing here, turning one on is refused.
FOREIGN_PLUGINS: Final = frozenset(
    {
        "DefaultBinder",
        "DeferredPodScheduling",
        "DynamicResources",
        "GangScheduling",
        "PodGroupPodsCount",
        "PrioritySort",
        "SchedulingGates",
        "TopologyPlacementGenerator",
    }
)


@dataclass(frozen=True)
class Configuration:
    """The settings of a scheduler process; the defaults are those without a file."""

    profiles: Mapping[str, Profile] = field(default_factory=lambda: {well_known.DEFAULT_SCHEDULER: DEFAULT})
    election: ElectionSettings = field(default_factory=ElectionSettings)
    #: "" leaves the choice to the command line.
    kubeconfig: str = ""
    bind_timeout: float = BIND_TIMEOUT
    backoff: PodBackoff = field(default_factory=PodBackoff)


def read(document: object, *, base: Profile = DEFAULT) -> Configuration:
    """The settings of a decoded file, whose profiles change `base`. Raises ConfigurationError."""
    file = converted("", document, File)
    only("apiVersion", file.api_version, API_VERSION)
    only("kind", file.kind, KIND)
    _refuse_foreign_fields(file)
    profiles: dict[str, Profile] = {}
    timeouts: dict[str, float] = {}
    for number, profile in enumerate(file.profiles or (ProfileDocument(),)):
        path = f"profiles[{number}]"
        name = profile.scheduler_name
        if not name:
            raise ConfigurationError(f"{path}.schedulerName", "must not be empty")
        if name in profiles:
            raise ConfigurationError(f"{path}.schedulerName", f"{name!r} has a profile already")
        only(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score, 0, 100)
        configured, timeouts[name] = read_arguments(f"{path}.pluginConfig", profile.plugin_config or ())
        profiles[name] = _profile(f"{path}.plugins", profile.plugins or Plugins(), configured, base)
    if len(set(timeouts.values())) > 1:
        raise ConfigurationError("profiles", "bindTimeoutSeconds of VolumeBindingArgs must be the same in all profiles")
    election, kubeconfig = _election(file.leader_election), file.client_connection.kubeconfig
    return Configuration(profiles, election, kubeconfig, next(iter(timeouts.values())), _backoff(file))


def _refuse_foreign_fields(file: File) -> None:
    for name in ("qps", "burst", "accept_content_types", "content_type"):
        only(f"clientConnection.{camel(name)}", getattr(file.client_connection, name))
    only("leaderElection.resourceLock", file.leader_election.resource_lock, "leases")
    # Zero leaves the share to the scheduler, and this one evaluates all nodes.
    only("percentageOfNodesToScore", file.percentage_of_nodes_to_score, 0, 100)
    for name in ("enable_profiling", "enable_contention_profiling", "delay_cache_until_active"):
        only(camel(name), getattr(file, name), False)
    only("parallelism", file.parallelism)
    only("extenders", file.extenders, [])


def _backoff(file: File) -> PodBackoff:
    default = PodBackoff()
    initial = default.initial if file.pod_initial_backoff_seconds is None else float(file.pod_initial_backoff_seconds)
    maximum = default.maximum if file.pod_max_backoff_seconds is None else float(file.pod_max_backoff_seconds)
    if initial <= 0:
        raise ConfigurationError("podInitialBackoffSeconds", "must be greater than 0")
    if maximum < initial:
        problem = f"must be greater than or equal to PodInitialBackoffSeconds, which is {initial:.0f}"
        raise ConfigurationError("podMaxBackoffSeconds", problem)
    return PodBackoff(initial, maximum)


def _election(election: LeaderElection) -> ElectionSettings:
    return ElectionSettings(
        election.leader_elect,
        _duration("leaderElection.leaseDuration", election.lease_duration),
        _duration("leaderElection.renewDeadline", election.renew_deadline),
        _duration("leaderElection.retryPeriod", election.retry_period),
        election.resource_name,
        election.resource_namespace,
    )


def _duration(path: str, text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text)
    except DurationError as error:
        raise ConfigurationError(path, str(error)) from error


def _profile(path: str, plugins: Plugins, configured: Mapping[str, Plugin], base: Profile) -> Profile:
    for point in plugins.__struct_fields__:
        if point != "multi_point" and getattr(plugins, point) not in (None, {}):
            raise ConfigurationError(f"{path}.{camel(point)}", "not supported: use multiPoint for whole plugins")
    enabled, disabled = plugins.multi_point.enabled or (), plugins.multi_point.disabled or ()
    usual = {plugin.name: configured.get(plugin.name, plugin) for plugin in base.plugins}
    known = usual | {plugin.name: plugin for plugin in OPTIONAL}
    off = {_disabled(f"{path}.multiPoint.disabled[{place}]", entry) for place, entry in enumerate(disabled)}
    kept = {name: plugin for name, plugin in usual.items() if name == _ALWAYS or not (name in off or ALL in off)}
    weights: dict[str, int] = {}
    for place, entry in enumerate(enabled):
        here = f"{path}.multiPoint.enabled[{place}]"
        if entry.name not in known:
            raise ConfigurationError(here, _no_such_plugin(entry.name))
        kept[entry.name] = known[entry.name]
        if entry.weight:
            weights[entry.name] = _weight(f"{here}.weight", entry.weight, known[entry.name])
    return Profile(kept.values(), weights=weights)


def _disabled(path: str, entry: PluginEntry) -> str:
    if entry.name == _ALWAYS:
        raise ConfigurationError(path, f"{_ALWAYS} cannot be disabled: it rejects pods that would be scheduled wrongly")
    if entry.name != ALL and entry.name not in FOREIGN_PLUGINS and entry.name not in _PLUGINS:
        raise ConfigurationError(path, _no_such_plugin(entry.name))
    return entry.name


def _weight(path: str, weight: int, plugin: Plugin) -> int:
    if not isinstance(plugin, Score):
        raise ConfigurationError(path, f"cannot be set for {plugin.name}: it does not score")
    if weight < 0:
        raise ConfigurationError(path, "must not be negative")
    return weight


def _no_such_plugin(name: str) -> str:
    return f"this scheduler has no plugin {name!r}; it has: {', '.join(sorted(_PLUGINS))}"
