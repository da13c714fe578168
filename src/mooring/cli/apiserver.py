"""`mooring apiserver`: the API server alone, with kube-apiserver's flags where it has them."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring import __version__
from mooring.cli.etcd_flags import EtcdFlags, etcd_asked_for, etcd_flags
from mooring.cli.event_loop import StopSignals, run
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cluster.api_process import ApiSettings
    from mooring.control.feature_gates import FeatureGates

#: kube-apiserver's.
DEFAULT_PORT: Final = 6443


@click.command(short_help="Run the API server alone.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where objects, keys and tokens are kept; with --etcd-servers, the keys and tokens of this server.",
)
@click.option("--in-memory", is_flag=True, help="Keep nothing: everything is gone when the command ends.")
@etcd_flags
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to serve HTTPS on; 0 picks a free one.",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on; 0.0.0.0 or :: is every address.",
)
@click.option(
    "--cert-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the authority, the server's certificate and the keys lie, made if missing.  [default: pki in the "
    "data folder]",
)
@click.option(
    "--token-auth-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help='Tokens that are let in, as rows of token,user,uid,"group1,group2".',
)
@click.option(
    "--feature-gates",
    default="",
    metavar="NAME=true|false,...",
    help="Features to turn on or off, as Kubernetes' components take them.",
)
@click.option("--event-ttl", default="1h0m0s", show_default=True, metavar="DURATION", help="How long events are kept.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the administrator's kubeconfig.  [default: kubeconfig in the data folder]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What to log to standard error, as JSON lines; info has a line for every request.",
)
def apiserver(
    data_dir: Path | None,
    in_memory: bool,
    secure_port: int,
    bind_address: str,
    cert_dir: Path | None,
    token_auth_file: Path | None,
    feature_gates: str,
    event_ttl: str,
    kubeconfig: Path | None,
    log_level: str,
    **etcd: Unpack[EtcdFlags],
) -> None:
    """Serve the Kubernetes API for the kinds of `mooring docs kinds`, until SIGTERM or Ctrl-C.

    Nothing acts on the objects: run schedulers and controllers against it, Mooring's or Kubernetes' own. Prints how to
    point kubectl at it, then `ready` on a line of its own.

    Exit codes: 0 when told to stop; 1 when the port, the data, etcd or the keys cannot be used; 2 when flags are wrong.
    """
    objects = etcd_asked_for(etcd)
    if objects is not None and (in_memory or data_dir is None):
        raise click.UsageError(
            "--etcd-servers keeps the objects; give --data-dir as well, where this server's keys and tokens are kept."
        )
    if in_memory == (data_dir is not None):
        raise click.UsageError(
            "Give one of --data-dir, where everything is kept, and --in-memory, which keeps nothing."
        )
    ttl = _duration(event_ttl)
    gates = _gates(feature_gates)
    from mooring.cli.logs import configure
    from mooring.cluster.api_process import ApiSettings
    from mooring.server.authentication.signing_key_file import BadSigningKey
    from mooring.server.authentication.token_file import BadTokenFile, read_token_file
    from mooring.server.http.listening import CannotListen
    from mooring.store.contract import StoreUnusable

    try:
        tokens = read_token_file(token_auth_file) if token_auth_file else {}
    except BadTokenFile as error:
        raise click.BadParameter(str(error), param_hint="--token-auth-file") from error
    configure(log_level)
    settings = ApiSettings(
        secure_port, bind_address, data_dir, cert_dir, kubeconfig, tokens, ttl, gates=gates, etcd=objects
    )
    try:
        run(_serve(settings))
    except (CannotListen, StoreUnusable, BadSigningKey) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'The system'}: {error.strerror}.") from error


def _duration(event_ttl: str) -> float:
    from mooring.api.go_durations import DurationError, seconds

    try:
        ttl = seconds(event_ttl)
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--event-ttl") from error
    if not ttl:
        raise click.BadParameter("events must live for some time.", param_hint="--event-ttl")
    return ttl


def _gates(text: str) -> "FeatureGates":
    from mooring.control.feature_gates import BadGates, parse

    try:
        return parse(text)
    except BadGates as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error


async def _serve(settings: "ApiSettings") -> None:
    from mooring.cluster.api_process import opened
    from mooring.control.metrics import Metrics
    from mooring.server.entropy import SystemEntropy

    clock = SystemClock()
    async with (
        StopSignals() as stop,
        opened(settings, clock=clock, rng=SystemEntropy()) as process,
        process.listening(Metrics(clock), {}) as door,
    ):
        click.echo(f"Mooring {__version__} serves the Kubernetes API at {door.url}")
        click.echo(f"  export KUBECONFIG={door.kubeconfig.resolve()}")
        click.echo("ready")
        await stop.wait()
