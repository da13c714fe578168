"""KubeSchedulerConfiguration as it is written: the parts of the document, field by field, and how they are refused.

`object` are fields that are recognised, and then judged one by one; a field that nobody knows is refused at once. What
the fields mean is said in `configuration` and, for the arguments of plugins, in `plugin_arguments`.
"""

from typing import Final, TypeVar

import msgspec

from mooring.api import keys

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"


class ConfigurationError(ValueError):
    """The configuration cannot be followed. The text begins with the field."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)


class Document(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What all parts of the document share."""


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


class PluginConfig(Document, frozen=True):
    name: str
    args: dict[str, object] = {}


class ProfileDocument(Document, frozen=True):
    scheduler_name: str = keys.DEFAULT_SCHEDULER
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
    """The value as that part of the document; msgspec's complaints begin with where instead of ending with it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        below = where.rstrip("`").lstrip(".")
        full = ".".join(filter(None, (path, below))).replace(".[", "[")
        raise ConfigurationError(full, problem) from error


def only(path: str, value: object, *accepted: object) -> None:
    """Refuse a field that asks for something else than what happens anyway."""
    if value is None or any(value == one and isinstance(value, bool) is isinstance(one, bool) for one in accepted):
        return
    instead = f"; only {' or '.join(_written(one) for one in accepted)} is" if accepted else ": remove it"
    raise ConfigurationError(path, f"{_written(value)} is not supported{instead}")


def camel(name: str) -> str:
    """A field as it is written."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _written(value: object) -> str:
    """A value as people write it in such files."""
    return msgspec.json.encode(value).decode()
