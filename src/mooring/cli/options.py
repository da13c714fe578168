"""Flags that commands share, spelled as upstream's. Flags override a configuration file, which overrides defaults."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

import click

from mooring.api.times import DurationError, parse_duration
from mooring.cli.terminal import InvalidInput

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mooring.cli.process import ProcessSettings
    from mooring.client.access import Access
    from mooring.control.election import ElectionSettings
    from mooring.control.feature_gates import FeatureGates
    from mooring.scheduler.configuration import Configuration
    from mooring.scheduler.framework.cycle import Profile
    from mooring.store.etcd.settings import EtcdSettings


LOOPBACK: Final = "127.0.0.1"
FILE: Final = click.Path(dir_okay=False, path_type=Path)
EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER: Final = click.Path(file_okay=False, path_type=Path)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class ElectionFlags(TypedDict, total=False):
    """Values of the flags of leader election; None for those that were not given."""

    leader_elect: bool | None
    leader_elect_lease_duration: float | None
    leader_elect_renew_deadline: float | None
    leader_elect_retry_period: float | None
    leader_elect_resource_name: str | None
    leader_elect_resource_namespace: str | None


class ProcessFlags(ElectionFlags):
    """Values of `process_options`."""

    kubeconfig: str
    context: str
    feature_gates: str
    bind_address: str
    http_port: int
    no_http: bool
    log_level: str


class RenamedOption(click.Option):
    """An option that also accepts its `former` name, which is shown nowhere."""

    def __init__(self, *args: Any, former: str, **attributes: Any) -> None:  # noqa: ANN401  # as click has it
        super().__init__(*args, **attributes)
        self.former = former

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401  # private to click
        shown, self.opts = self.opts, [*self.opts, self.former]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def data_folder() -> Path:
    """Where the user's data is kept unless a flag says otherwise."""
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "mooring"


def duration(value: str) -> float:
    """`15s`, `1m30s`, `500ms`: seconds."""
    try:
        return parse_duration(value)
    except DurationError as error:
        raise click.BadParameter(str(error)) from error


def combined(*decorators: Decorator) -> Decorator:
    """One decorator for several options, shown in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(decorators):
            command = option(command)
        return command

    return decorate


def text_option(name: str, metavar: str | None, help_text: str, *, default: str = "") -> Decorator:
    return click.option(name, default=default, show_default=bool(default), metavar=metavar, help=help_text)


def choice_option(name: str, choices: Sequence[str], help_text: str, *, default: str = "") -> Decorator:
    """By default the first choice."""
    chosen = default or choices[0]
    return click.option(name, type=click.Choice(choices), default=chosen, show_default=True, help=help_text)


def go_flag(name: str, help_text: str, *, default: bool | None = False) -> Decorator:
    """As Go's boolean flags: `--x`, `--x=true`, `--x=false`. None tells that it was not given, which means true."""
    return click.option(
        name,
        type=bool,
        is_flag=False,
        flag_value=True,
        default=default,
        metavar="[true|false]",
        help=f"{help_text}  [default: {'false' if default is False else 'true'}]",
    )


def namespace_option(help_text: str) -> Decorator:
    return click.option("-n", "--namespace", default="", help=help_text, shell_complete=_complete_namespaces)


def _complete_namespaces(ctx: click.Context, param: click.Parameter, unfinished: str) -> list["CompletionItem"]:
    from mooring.cli.completion import complete_namespaces

    return complete_namespaces(ctx, param, unfinished)


def gates_option(
    help_text: str = "Feature gates to enable or disable; all are in `mooring docs reference/feature-gates`.",
) -> Decorator:
    return text_option("--feature-gates", "NAME=true|false,...", help_text)


kubeconfig_options: Final = combined(
    text_option(
        "--kubeconfig",
        "FILE",
        "Kubeconfig of the cluster.  [default: KUBECONFIG, ~/.kube/config, the pod's own account]",
    ),
    text_option("--context", "NAME", "Context of the kubeconfig to use."),
)

hold_namespace_option: Final = text_option(
    "--hold-namespace",
    "NAMESPACE",
    "Namespace of hold references and provisioning intents. Must be equal for all components and not writable by "
    "ordinary users.",
    default="kube-system",
)


def gates_of(text: str, *, embedded: bool = False) -> "FeatureGates":
    """The value of --feature-gates, for the embedded cluster or a single component. Raises click.BadParameter."""
    from mooring.control.feature_gates import EMBEDDED, BadGates, parse_feature_gates

    try:
        return parse_feature_gates(text, EMBEDDED) if embedded else parse_feature_gates(text)
    except BadGates as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error


def log_level_option(default: str = "info", *, note: str = "") -> Decorator:
    help_text = f"Minimum level of log messages, JSON lines on standard error{note}."
    return choice_option("--log-level", ("debug", "info", "warning", "error"), help_text, default=default)


def output_option(*formats: str, note: str = "") -> Decorator:
    """The first format is the default."""
    choices = click.Choice(formats)
    return click.option(
        "-o", "--output", type=choices, default=formats[0], show_default=True, help=f"Output format{note}."
    )


def port_option(name: str, default: int, help_text: str) -> Decorator:
    return count_option(name, default, f"{help_text}; 0 picks a free port, which is printed.", most=65535)


def duration_option(name: str, default: str, help_text: str, *, former: str = "") -> Decorator:
    """An option in Go's syntax of durations; `former` is a hidden second name."""
    option = partial(click.option, name, type=duration, default=default, show_default=True, help=help_text)
    return option(cls=RenamedOption, former=former) if former else option()


def layout_options(*, max_nodes: int) -> Decorator:
    """Number of simulated nodes, zones and racks."""
    zones = "Number of zones that the nodes are distributed over."
    return combined(
        count_option("--nodes", 3, "Number of simulated nodes.", most=max_nodes),
        count_option("--zones", 3, zones, least=1, most=1000),
        count_option("--racks", 0, "Number of racks per zone.", most=1000),
    )


def count_option(name: str, default: int, help_text: str, *, least: int = 0, most: int | None = None) -> Decorator:
    return click.option(name, type=click.IntRange(least, most), default=default, show_default=True, help=help_text)


def process_options(*, port: int, elects: bool = True) -> Decorator:
    """All shared flags; `port` is the default of --http-port, `elects` adds the flags of leader election."""
    return combined(
        kubeconfig_options,
        *((_election_options,) if elects else ()),
        gates_option(),
        text_option(
            "--bind-address",
            "ADDRESS",
            "Address of the health and metrics endpoints (/healthz, /livez, /readyz, /metrics), plain HTTP; "
            "for probes by the kubelet, 0.0.0.0.",
            default=LOOPBACK,
        ),
        port_option("--http-port", port, "Port of the health and metrics endpoints"),
        click.option("--no-http", is_flag=True, help="Do not serve the health and metrics endpoints."),
        log_level_option(),
    )


#: What the flags of leader election mean, also of external-provisioner's spelling.
LEADER_ELECTION: Final = "Enable leader election: only one instance is active."
LEASE_DURATION: Final = "Lease duration: non-leaders wait this long after the last renewal before acquiring."
RENEW_DEADLINE: Final = "How long the leader stays active without a successful renewal."
RETRY_PERIOD: Final = "Interval between attempts to acquire or renew the Lease."

_election_options: Final = combined(
    go_flag("--leader-elect", LEADER_ELECTION, default=None),
    click.option("--leader-elect-lease-duration", type=duration, help=f"{LEASE_DURATION}  [default: 15s]"),
    click.option("--leader-elect-renew-deadline", type=duration, help=f"{RENEW_DEADLINE}  [default: 10s]"),
    click.option("--leader-elect-retry-period", type=duration, help=f"{RETRY_PERIOD}  [default: 2s]"),
    click.option(
        "--leader-elect-resource-name",
        metavar="NAME",
        help="Name of the leader-election Lease.  [default: the component's name]",
    ),
    click.option(
        "--leader-elect-resource-namespace",
        metavar="NAMESPACE",
        help="Namespace of the leader-election Lease.  [default: kube-system]",
    ),
)


def access_of(kubeconfig: str, context: str, *, hint: str = "") -> "Access":
    """Server and credentials of a kubeconfig. Raises InvalidInput; `hint` is added to its text."""
    from mooring.client.kubeconfig import Choice, KubeconfigError, load

    try:
        return load(kubeconfig, choice=Choice(context=context))
    except KubeconfigError as error:
        raise InvalidInput(f"{error}{hint}") from error


def settings_of(
    flags: ProcessFlags, *, name: str, file: "ElectionSettings | None" = None, kubeconfig: str = ""
) -> "ProcessSettings":
    """The settings of the process `name`, by default also the name of its Lease.

    `file` and `kubeconfig` are from a configuration file. Raises InvalidInput.
    """
    from mooring.cli.process import Address, ProcessSettings
    from mooring.control.election import LEASE_NAMESPACE, BadElection, ElectionSettings
    from mooring.control.feature_gates import BadGates, parse_feature_gates

    given = ElectionSettings(
        flags.get("leader_elect"),
        flags.get("leader_elect_lease_duration"),
        flags.get("leader_elect_renew_deadline"),
        flags.get("leader_elect_retry_period"),
        flags.get("leader_elect_resource_name"),
        flags.get("leader_elect_resource_namespace"),
    )
    settings = given.over(file or ElectionSettings())
    try:
        gates = parse_feature_gates(flags["feature_gates"])
        election = settings.settled(name=name)
    except BadGates as error:
        raise InvalidInput(f"--feature-gates: {error}") from error
    except BadElection as error:
        raise InvalidInput(f"leader election: {error}") from error
    access = access_of(flags["kubeconfig"] or kubeconfig, flags["context"])
    monitoring = None if flags["no_http"] else Address(flags["bind_address"], flags["http_port"])
    return ProcessSettings(
        name, access, gates, election, monitoring, namespace=settings.resource_namespace or LEASE_NAMESPACE
    )


class EtcdFlags(TypedDict):
    etcd_servers: str
    etcd_cafile: Path | None
    etcd_certfile: Path | None
    etcd_keyfile: Path | None
    etcd_prefix: str
    etcd_compaction_interval: str


#: kube-apiserver's etcd flags; the command takes `**etcd: Unpack[EtcdFlags]`.
etcd_flags: Final = combined(
    text_option(
        "--etcd-servers",
        "URL,...",
        "etcd endpoints, http://HOST:PORT or https://HOST:PORT, that store the objects instead of the data folder; "
        "several API servers can share one etcd.",
    ),
    click.option(
        "--etcd-cafile", type=EXISTING_FILE, metavar="FILE", help="CA certificate that verifies etcd's certificate."
    ),
    click.option("--etcd-certfile", type=EXISTING_FILE, metavar="FILE", help="Client certificate for etcd."),
    click.option("--etcd-keyfile", type=EXISTING_FILE, metavar="FILE", help="Private key of --etcd-certfile."),
    text_option(
        "--etcd-prefix",
        "PREFIX",
        "Prefix of all keys in etcd; differs from kube-apiserver's, so that one etcd can serve both.",
        default="/mooring",
    ),
    text_option(
        "--etcd-compaction-interval",
        "DURATION",
        "Interval and age of etcd compaction; 0 disables compaction by this server.",
        default="5m0s",
    ),
)


def etcd_asked_for(flags: EtcdFlags) -> "EtcdSettings | None":
    """None without --etcd-servers. Raises click.UsageError."""
    if not flags["etcd_servers"]:
        if flags["etcd_cafile"] or flags["etcd_certfile"] or flags["etcd_keyfile"]:
            raise click.UsageError("--etcd-cafile, --etcd-certfile and --etcd-keyfile require --etcd-servers.")
        return None
    from mooring.store.etcd.settings import BadSettings, etcd_settings

    try:
        compaction = parse_duration(flags["etcd_compaction_interval"])
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--etcd-compaction-interval") from error
    try:
        return etcd_settings(
            flags["etcd_servers"],
            authority=flags["etcd_cafile"],
            certificate=flags["etcd_certfile"],
            key=flags["etcd_keyfile"],
            prefix=flags["etcd_prefix"],
            compaction=compaction,
        )
    except BadSettings as error:
        raise click.UsageError(f"etcd: {error}.") from error


def read_scheduler_configuration(file: Path, base: "Profile") -> "Configuration":
    """The KubeSchedulerConfiguration of a file, whose profiles change `base`. Raises InvalidInput."""
    from mooring.api.documents import MalformedYaml, single_yaml_document
    from mooring.scheduler.configuration import ConfigurationError, read

    try:
        return read(single_yaml_document(file.read_bytes()), base=base)
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}.") from error
    except (MalformedYaml, ConfigurationError) as error:
        raise InvalidInput(f"{file}: {error}.") from error
