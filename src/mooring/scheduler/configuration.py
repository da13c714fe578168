"""What `mooring scheduler --config FILE` may say: KubeSchedulerConfiguration, as far as this scheduler goes.

Pure: a decoded document in, settings out. A field that kube-scheduler has and this scheduler has not is accepted when
it asks for what happens anyway, and refused by its name otherwise; a field that nobody knows is refused too. Nothing
is ignored. Reading the file and merging it with flags is the command's work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mooring.api import keys
from mooring.api.go_durations import DurationError, seconds
from mooring.control.election_settings import ElectionSettings
from mooring.scheduler.binder import BIND_TIMEOUT
from mooring.scheduler.configuration_document import (
    API_VERSION,
    KIND,
    ConfigurationError,
    File,
    LeaderElection,
    PluginEntry,
    Plugins,
    ProfileDocument,
    camel,
    converted,
    only,
)
from mooring.scheduler.contract import Plugin, Score
from mooring.scheduler.plugin_arguments import read_arguments
from mooring.scheduler.profile import Profile
from mooring.scheduler.queue import Patience
from mooring.scheduler.registry import DEFAULT, OPTIONAL

__all__ = ["API_VERSION", "FOREIGN_PLUGINS", "KIND", "Configuration", "ConfigurationError", "read"]

ALL: Final = "*"
#: What no profile can do without: it keeps pods from being placed wrongly.
_ALWAYS: Final = "Unsupported"
_PLUGINS: Final = frozenset(plugin.name for plugin in (*DEFAULT.plugins, *OPTIONAL))
#: kube-scheduler's other plugins of 1.36: turning one off changes nothing here, turning one on is refused.
FOREIGN_PLUGINS: Final = frozenset(
    {
        "DefaultBinder", "DynamicResources", "GangScheduling",
        "PrioritySort", "SchedulingGates",
    }
)  # fmt: skip


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
    patience: Patience = field(default_factory=Patience)


def read(document: object) -> Configuration:
    """The settings of a decoded file. Raises ConfigurationError."""
    file = converted("", document, File)
    only("apiVersion", file.api_version, API_VERSION)
    only("kind", file.kind, KIND)
    _refuse_foreign_fields(file)
    profiles: dict[str, Profile] = {}
    timeouts: dict[str, float] = {}
    for number, wanted in enumerate(file.profiles or (ProfileDocument(),)):
        path = f"profiles[{number}]"
        name = wanted.scheduler_name
        if not name:
            raise ConfigurationError(f"{path}.schedulerName", "must not be empty")
        if name in profiles:
            raise ConfigurationError(f"{path}.schedulerName", f"{name!r} has a profile already")
        only(f"{path}.percentageOfNodesToScore", wanted.percentage_of_nodes_to_score, 0, 100)
        arguments = read_arguments(f"{path}.pluginConfig", wanted.plugin_config or ())
        profiles[name] = _profile(f"{path}.plugins", wanted.plugins or Plugins(), arguments.plugins)
        timeouts[name] = arguments.bind_timeout
    if len(set(timeouts.values())) > 1:
        raise ConfigurationError("profiles", "bindTimeoutSeconds of VolumeBindingArgs must be the same in all profiles")
    return Configuration(
        profiles,
        _election(file.leader_election),
        file.client_connection.kubeconfig,
        next(iter(timeouts.values())),
        _patience(file),
    )


def _refuse_foreign_fields(file: File) -> None:
    for name in ("qps", "burst", "accept_content_types", "content_type"):
        only(f"clientConnection.{camel(name)}", getattr(file.client_connection, name))
    only("leaderElection.resourceLock", file.leader_election.resource_lock, "leases")
    # Zero leaves the share to the scheduler, and this one looks at all nodes.
    only("percentageOfNodesToScore", file.percentage_of_nodes_to_score, 0, 100)
    for name in ("enable_profiling", "enable_contention_profiling", "delay_cache_until_active"):
        only(camel(name), getattr(file, name), False)
    only("parallelism", file.parallelism)
    only("extenders", file.extenders, [])


def _patience(file: File) -> Patience:
    default = Patience()
    first = default.first if file.pod_initial_backoff_seconds is None else float(file.pod_initial_backoff_seconds)
    longest = default.longest if file.pod_max_backoff_seconds is None else float(file.pod_max_backoff_seconds)
    if first <= 0:
        raise ConfigurationError("podInitialBackoffSeconds", "must be greater than 0")
    if longest < first:
        problem = f"must be greater than or equal to PodInitialBackoffSeconds, which is {first:.0f}"
        raise ConfigurationError("podMaxBackoffSeconds", problem)
    return Patience(first, longest)


def _election(wanted: LeaderElection) -> ElectionSettings:
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


def _profile(path: str, wanted: Plugins, configured: Mapping[str, Plugin]) -> Profile:
    for point in wanted.__struct_fields__:
        if point != "multi_point" and getattr(wanted, point) not in (None, {}):
            raise ConfigurationError(f"{path}.{camel(point)}", "not supported: use multiPoint for whole plugins")
    enabled, disabled = wanted.multi_point.enabled or (), wanted.multi_point.disabled or ()
    usual = {plugin.name: configured.get(plugin.name, plugin) for plugin in DEFAULT.plugins}
    known = usual | {plugin.name: plugin for plugin in OPTIONAL}
    off = {_disabled(f"{path}.multiPoint.disabled[{place}]", entry) for place, entry in enumerate(disabled)}
    kept = {name: plugin for name, plugin in usual.items() if name == _ALWAYS or not (name in off or ALL in off)}
    weights: dict[str, int] = {}
    for place, entry in enumerate(enabled):
        here = f"{path}.multiPoint.enabled[{place}]"
        plugin = _enabled(here, entry, known)
        kept[plugin.name] = plugin
        if entry.weight:
            weights[plugin.name] = _weight(f"{here}.weight", entry.weight, plugin)
    return Profile(kept.values(), weights=weights)


def _disabled(path: str, entry: PluginEntry) -> str:
    if entry.name == _ALWAYS:
        raise ConfigurationError(path, f"{_ALWAYS} cannot be disabled: it refuses pods that would be placed wrongly")
    if entry.name != ALL and entry.name not in FOREIGN_PLUGINS and entry.name not in _PLUGINS:
        raise ConfigurationError(path, _no_such_plugin(entry.name))
    return entry.name


def _enabled(path: str, entry: PluginEntry, known: Mapping[str, Plugin]) -> Plugin:
    plugin = known.get(entry.name)
    if plugin is None:
        raise ConfigurationError(path, _no_such_plugin(entry.name))
    return plugin


def _weight(path: str, weight: int, plugin: Plugin) -> int:
    if not isinstance(plugin, Score):
        raise ConfigurationError(path, f"cannot be set for {plugin.name}: it does not score")
    if weight < 0:
        raise ConfigurationError(path, "must not be negative")
    return weight


def _no_such_plugin(name: str) -> str:
    return f"this scheduler has no plugin {name!r}; it has: {', '.join(sorted(_PLUGINS))}"
