"""What `mooring scheduler --config FILE` may say: KubeSchedulerConfiguration, as far as this scheduler goes.

Pure: a decoded document in, settings out. A field that kube-scheduler has and this scheduler has not is accepted when
it asks for what happens anyway, and refused by its name otherwise; a field that nobody knows is refused too. Nothing
is ignored. Reading the file and merging it with flags is the command's work.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from mooring.api import keys
from mooring.api.go_durations import DurationError, seconds
from mooring.control.election_settings import ElectionSettings
from mooring.scheduler.binder import BIND_TIMEOUT
from mooring.scheduler.contract import Plugin, Score
from mooring.scheduler.profile import Profile
from mooring.scheduler.queue import FIRST_BACKOFF, LONGEST_BACKOFF
from mooring.scheduler.registry import DEFAULT

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

ALL: Final = "*"
#: What no profile can do without: it keeps pods from being placed wrongly.
_ALWAYS: Final = "Unsupported"
#: kube-scheduler's other plugins of 1.36: turning one off changes nothing here, turning one on is refused.
FOREIGN_PLUGINS: Final = frozenset(
    {
        "DefaultBinder", "DefaultPreemption", "DynamicResources", "GangScheduling", "ImageLocality",
        "NodeDeclaredFeatures", "NodePorts", "NodeResourcesBalancedAllocation", "NodeVolumeLimits",
        "PodTopologySpread", "PrioritySort", "SchedulingGates", "VolumeRestrictions", "VolumeZone",
    }
)  # fmt: skip


class ConfigurationError(ValueError):
    """The configuration cannot be followed. The text begins with the field."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)


def _only_default() -> Mapping[str, Profile]:
    return {keys.DEFAULT_SCHEDULER: DEFAULT}


@dataclass(frozen=True)
class Configuration:
    """All a scheduler process is told by its file; the defaults are those without one."""

    profiles: Mapping[str, Profile] = field(default_factory=_only_default)
    election: ElectionSettings = field(default_factory=ElectionSettings)
    #: "" leaves the choice to the command line.
    kubeconfig: str = ""
    bind_timeout: float = BIND_TIMEOUT


class _Document(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What all parts of the document share. `object` are fields that are recognised, and then judged one by one."""


class _ClientConnection(_Document, frozen=True):
    kubeconfig: str = ""
    accept_content_types: object = None
    content_type: object = None
    qps: object = None
    burst: object = None


class _LeaderElection(_Document, frozen=True):
    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: object = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class _PluginEntry(_Document, frozen=True):
    name: str
    weight: int | None = None


class _PluginSet(_Document, frozen=True):
    enabled: tuple[_PluginEntry, ...] | None = ()
    disabled: tuple[_PluginEntry, ...] | None = ()


class _Plugins(_Document, frozen=True):
    multi_point: _PluginSet = _PluginSet()
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


class _PluginConfig(_Document, frozen=True):
    name: str
    args: dict[str, object] = {}


class _VolumeBindingArgs(_Document, frozen=True):
    api_version: str = API_VERSION
    kind: str = "VolumeBindingArgs"
    bind_timeout_seconds: int | None = None
    shape: object = None


class _Profile(_Document, frozen=True):
    scheduler_name: str = keys.DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: object = None
    plugins: _Plugins | None = None
    plugin_config: tuple[_PluginConfig, ...] | None = ()


class _File(_Document, frozen=True):
    api_version: str
    kind: str
    client_connection: _ClientConnection = _ClientConnection()
    leader_election: _LeaderElection = _LeaderElection()
    profiles: tuple[_Profile, ...] | None = ()
    parallelism: object = None
    percentage_of_nodes_to_score: object = None
    pod_initial_backoff_seconds: object = None
    pod_max_backoff_seconds: object = None
    enable_profiling: object = None
    enable_contention_profiling: object = None
    delay_cache_until_active: object = None
    extenders: object = None


def read(document: object) -> Configuration:
    """The settings of a decoded file. Raises ConfigurationError."""
    file = _converted("", document, _File)
    _only("apiVersion", file.api_version, API_VERSION)
    _only("kind", file.kind, KIND)
    _refuse_foreign_fields(file)
    profiles: dict[str, Profile] = {}
    timeouts: dict[str, float] = {}
    for number, wanted in enumerate(file.profiles or (_Profile(),)):
        path = f"profiles[{number}]"
        name = wanted.scheduler_name
        if not name:
            raise ConfigurationError(f"{path}.schedulerName", "must not be empty")
        if name in profiles:
            raise ConfigurationError(f"{path}.schedulerName", f"{name!r} has a profile already")
        _only(f"{path}.percentageOfNodesToScore", wanted.percentage_of_nodes_to_score, 0, 100)
        profiles[name] = _profile(f"{path}.plugins", wanted.plugins or _Plugins())
        timeouts[name] = _bind_timeout(f"{path}.pluginConfig", wanted.plugin_config or ())
    if len(set(timeouts.values())) > 1:
        raise ConfigurationError("profiles", "bindTimeoutSeconds of VolumeBindingArgs must be the same in all profiles")
    election = _election(file.leader_election)
    return Configuration(profiles, election, file.client_connection.kubeconfig, next(iter(timeouts.values())))


def _refuse_foreign_fields(file: _File) -> None:
    for name in ("qps", "burst", "accept_content_types", "content_type"):
        _only(f"clientConnection.{_camel(name)}", getattr(file.client_connection, name))
    _only("leaderElection.resourceLock", file.leader_election.resource_lock, "leases")
    # Zero leaves the share to the scheduler, and this one looks at all nodes.
    _only("percentageOfNodesToScore", file.percentage_of_nodes_to_score, 0, 100)
    _only("podInitialBackoffSeconds", file.pod_initial_backoff_seconds, FIRST_BACKOFF)
    _only("podMaxBackoffSeconds", file.pod_max_backoff_seconds, LONGEST_BACKOFF)
    for name in ("enable_profiling", "enable_contention_profiling", "delay_cache_until_active"):
        _only(_camel(name), getattr(file, name), False)
    _only("parallelism", file.parallelism)
    _only("extenders", file.extenders, [])


def _only(path: str, value: object, *accepted: object) -> None:
    """Refuse a field that asks for something else than what happens anyway."""
    if value is None or any(value == one and isinstance(value, bool) is isinstance(one, bool) for one in accepted):
        return
    instead = f"; only {' or '.join(_written(one) for one in accepted)} is" if accepted else ": remove it"
    raise ConfigurationError(path, f"{_written(value)} is not supported{instead}")


def _election(wanted: _LeaderElection) -> ElectionSettings:
    return ElectionSettings(
        wanted.leader_elect,
        _duration("leaderElection.leaseDuration", wanted.lease_duration),
        _duration("leaderElection.renewDeadline", wanted.renew_deadline),
        _duration("leaderElection.retryPeriod", wanted.retry_period),
        wanted.resource_name,
        wanted.resource_namespace,
    )


def _duration(path: str, text: str | None) -> float | None:
    try:
        return None if text is None else seconds(text)
    except DurationError as error:
        raise ConfigurationError(path, str(error)) from error


def _profile(path: str, wanted: _Plugins) -> Profile:
    for point in wanted.__struct_fields__:
        if point != "multi_point" and getattr(wanted, point) not in (None, {}):
            raise ConfigurationError(f"{path}.{_camel(point)}", "not supported: use multiPoint for whole plugins")
    enabled, disabled = wanted.multi_point.enabled or (), wanted.multi_point.disabled or ()
    known = {plugin.name: plugin for plugin in DEFAULT.plugins}
    off = {_disabled(f"{path}.multiPoint.disabled[{place}]", entry) for place, entry in enumerate(disabled)}
    kept = {name: plugin for name, plugin in known.items() if name == _ALWAYS or not (name in off or ALL in off)}
    for place, entry in enumerate(enabled):
        plugin = _enabled(f"{path}.multiPoint.enabled[{place}]", entry, known)
        kept[plugin.name] = plugin
    return Profile(kept.values())


def _disabled(path: str, entry: _PluginEntry) -> str:
    if entry.name == _ALWAYS:
        raise ConfigurationError(path, f"{_ALWAYS} cannot be disabled: it refuses pods that would be placed wrongly")
    if entry.name != ALL and entry.name not in FOREIGN_PLUGINS and entry.name not in _names(DEFAULT.plugins):
        raise ConfigurationError(path, _no_such_plugin(entry.name))
    return entry.name


def _enabled(path: str, entry: _PluginEntry, known: Mapping[str, Plugin]) -> Plugin:
    plugin = known.get(entry.name)
    if plugin is None:
        raise ConfigurationError(path, _no_such_plugin(entry.name))
    if entry.weight:
        weight = plugin.weight if isinstance(plugin, Score) else None
        if entry.weight != weight:
            fixed = f"its weight is {weight}" if weight else "it does not score"
            raise ConfigurationError(f"{path}.weight", f"cannot be set for {entry.name}: {fixed}")
    return plugin


def _no_such_plugin(name: str) -> str:
    return f"this scheduler has no plugin {name!r}; it has: {', '.join(sorted(_names(DEFAULT.plugins)))}"


def _names(plugins: Iterable[Plugin]) -> set[str]:
    return {plugin.name for plugin in plugins}


def _bind_timeout(path: str, configs: Iterable[_PluginConfig]) -> float:
    timeout = BIND_TIMEOUT
    seen: set[str] = set()
    for number, config in enumerate(configs):
        here = f"{path}[{number}]"
        if config.name in seen:
            raise ConfigurationError(here, f"{config.name} is configured twice")
        seen.add(config.name)
        if config.name != "VolumeBinding":
            raise ConfigurationError(here, f"arguments of {config.name} are not supported; only VolumeBinding's are")
        args = _converted(f"{here}.args", config.args, _VolumeBindingArgs)
        _only(f"{here}.args.apiVersion", args.api_version, API_VERSION)
        _only(f"{here}.args.kind", args.kind, "VolumeBindingArgs")
        _only(f"{here}.args.shape", args.shape, [])
        if args.bind_timeout_seconds is not None:
            if args.bind_timeout_seconds < 0:
                raise ConfigurationError(f"{here}.args.bindTimeoutSeconds", "must not be negative")
            timeout = float(args.bind_timeout_seconds)
    return timeout


_D = TypeVar("_D", bound=_Document)


def _converted(path: str, value: object, kind: type[_D]) -> _D:
    """The value as that part of the document; msgspec's complaints begin with where instead of ending with it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        below = where.rstrip("`").lstrip(".")
        full = ".".join(filter(None, (path, below))).replace(".[", "[")
        raise ConfigurationError(full, problem) from error


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _written(value: object) -> str:
    """A value as people write it in such files."""
    return msgspec.json.encode(value).decode()
