"""The flags that all commands share which run one component against a Kubernetes, spelled as upstream's.

`process_options` puts them on a command, `settings_of` makes the process's settings of what was given. Flags win over
a configuration file, which wins over defaults.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from mooring.api.go_durations import DurationError, seconds
from mooring.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from mooring.cli.component_process import ProcessSettings
    from mooring.control.election_settings import ElectionSettings

LOOPBACK: Final = "127.0.0.1"

Command = TypeVar("Command", bound=Callable[..., Any])


class Misconfigured(click.ClickException):
    """Flags, configuration file or kubeconfig cannot be followed: one sentence, exit code 2."""

    exit_code = ExitCode.USAGE


class InstanceFlags(TypedDict):
    """What click hands over for `process_options` of a command whose instances all act."""

    kubeconfig: str
    context: str
    feature_gates: str
    bind_address: str
    http_port: int
    no_http: bool
    log_level: str


class ProcessFlags(InstanceFlags):
    """The same for one of whose instances only one acts; None is a flag that was not given."""

    leader_elect: bool | None
    leader_elect_lease_duration: float | None
    leader_elect_renew_deadline: float | None
    leader_elect_retry_period: float | None
    leader_elect_resource_name: str | None
    leader_elect_resource_namespace: str | None


class GoDuration(click.ParamType[float]):
    """`15s`, `1m30s`, `500ms`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return seconds(str(value))
        except DurationError as error:
            self.fail(str(error), param, ctx)


def hold_namespace_option(command: Command) -> Command:
    """For those that have to do with held volumes; all of a cluster must be told the same."""
    return click.option(
        "--hold-namespace",
        default="kube-system",
        show_default=True,
        metavar="NAMESPACE",
        help="Where holds point to and intents lie; the same for all components, and closed to ordinary users.",
    )(command)


def process_options(*, port: int, elects: bool = True) -> Callable[[Command], Command]:
    """All shared flags; `port` is the component's own for probes and metrics. `elects` is whether only one of several
    instances acts, unless told otherwise."""
    options = (
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="How to reach the cluster.  [default: KUBECONFIG, ~/.kube/config, the pod's own account]",
        ),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use."),
        *(_election_options() if elects else ()),
        click.option(
            "--feature-gates",
            default="",
            metavar="NAME=true|false,...",
            help="Features to turn on or off, as Kubernetes' components take them.",
        ),
        click.option(
            "--bind-address",
            default=LOOPBACK,
            show_default=True,
            metavar="ADDRESS",
            help="Where /healthz, /livez, /readyz and /metrics are answered, over plain HTTP.",
        ),
        click.option(
            "--http-port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="Port of the health and metrics endpoints; 0 picks a free one and prints it.",
        ),
        click.option("--no-http", is_flag=True, help="Serve no health and metrics endpoints."),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="What to log to standard error, as JSON lines.",
        ),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _election_options() -> tuple[Callable[[Command], Command], ...]:
    return (
        click.option(
            "--leader-elect",
            type=bool,
            is_flag=False,
            flag_value=True,
            default=None,
            metavar="[true|false]",
            help="Whether only one of several instances acts.  [default: true]",
        ),
        click.option(
            "--leader-elect-lease-duration",
            type=GoDuration(),
            help="How long others leave a lease alone that is not renewed.  [default: 15s]",
        ),
        click.option(
            "--leader-elect-renew-deadline",
            type=GoDuration(),
            help="How long the leader acts without renewing.  [default: 10s]",
        ),
        click.option("--leader-elect-retry-period", type=GoDuration(), help="Pause between two tries.  [default: 2s]"),
        click.option("--leader-elect-resource-name", metavar="NAME", help="Name of the Lease."),
        click.option(
            "--leader-elect-resource-namespace",
            metavar="NAMESPACE",
            help="Namespace of the Lease.  [default: kube-system]",
        ),
    )


def without_election(flags: InstanceFlags) -> ProcessFlags:
    """The flags of a command whose instances all act, as `settings_of` takes them."""
    return ProcessFlags(
        **flags,
        leader_elect=False,
        leader_elect_lease_duration=None,
        leader_elect_renew_deadline=None,
        leader_elect_retry_period=None,
        leader_elect_resource_name=None,
        leader_elect_resource_namespace=None,
    )


def settings_of(
    flags: ProcessFlags, *, name: str, file: "ElectionSettings | None" = None, kubeconfig: str = ""
) -> "ProcessSettings":
    """The settings of the process called `name`, which is also its Lease's name unless somebody says otherwise.

    `file` and `kubeconfig` are what a configuration file says. Raises Misconfigured.
    """
    from mooring.cli.component_process import Address, ProcessSettings
    from mooring.client.kubeconfig import Choice, KubeconfigError, load
    from mooring.control.election_settings import LEASE_NAMESPACE, BadElection, ElectionSettings
    from mooring.control.feature_gates import BadGates, parse

    try:
        gates = parse(flags["feature_gates"])
        wanted = _election(flags).over(file or ElectionSettings())
        election = wanted.settled(name=name)
        access = load(flags["kubeconfig"] or kubeconfig, choice=Choice(context=flags["context"]))
    except BadGates as error:
        raise Misconfigured(f"--feature-gates: {error}") from error
    except BadElection as error:
        raise Misconfigured(f"leader election: {error}") from error
    except KubeconfigError as error:
        raise Misconfigured(str(error)) from error
    monitoring = None if flags["no_http"] else Address(flags["bind_address"], flags["http_port"])
    return ProcessSettings(
        name, access, gates, election, monitoring, namespace=wanted.resource_namespace or LEASE_NAMESPACE
    )


def _election(flags: ProcessFlags) -> "ElectionSettings":
    from mooring.control.election_settings import ElectionSettings

    return ElectionSettings(
        flags["leader_elect"],
        flags["leader_elect_lease_duration"],
        flags["leader_elect_renew_deadline"],
        flags["leader_elect_retry_period"],
        flags["leader_elect_resource_name"],
        flags["leader_elect_resource_namespace"],
    )
