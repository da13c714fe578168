"""`mooring apiserver`: the API server alone, with kube-apiserver's flags where it has them."""

from pathlib import Path
from typing import Final, Unpack

import click

from mooring import __version__
from mooring.api.times import DurationError, parse_duration
from mooring.cli import options
from mooring.cli.runtime import StopSignals, configure_logging, run_event_loop
from mooring.clock import SystemClock
from mooring.cluster.api_server import ApiSettings, opened
from mooring.control.metrics import Metrics
from mooring.server.auth.authenticator import BadTokenFile, read_token_file
from mooring.server.auth.service_account_tokens import BadSigningKey
from mooring.server.environment import SystemEntropy
from mooring.server.http.listener import CannotListen
from mooring.store.contract import StoreUnusable

#: kube-apiserver's.
DEFAULT_PORT: Final = 6443


@click.command()
@click.option(
    "--data-dir",
    type=options.FOLDER,
    metavar="DIR",
    help="Folder of objects, keys and tokens; with --etcd-servers, of this server's keys and tokens only.",
)
@click.option("--in-memory", is_flag=True, help="Keep all objects in memory; they are lost when the command ends.")
@options.etcd_flags
@options.port_option("--secure-port", DEFAULT_PORT, "HTTPS port")
@options.text_option(
    "--bind-address", "ADDRESS", "Address to listen on; 0.0.0.0 or :: for all addresses.", default=options.LOOPBACK
)
@click.option(
    "--cert-dir",
    type=options.FOLDER,
    metavar="DIR",
    help="Folder of the CA, the server certificate and the keys, created if missing.  "
    "[default: pki in the data folder]",
)
@click.option(
    "--token-auth-file",
    type=options.EXISTING_FILE,
    metavar="FILE",
    help='File of accepted tokens, rows of token,user,uid,"group1,group2".',
)
@options.gates_option()
@options.text_option("--event-ttl", "DURATION", "Retention time of events.", default="1h0m0s")
@click.option(
    "--kubeconfig",
    type=options.FILE,
    metavar="FILE",
    help="Path of the administrator's kubeconfig to write.  [default: kubeconfig in the data folder]",
)
@options.log_level_option("warning", note="; info logs every request")
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
    **etcd: Unpack[options.EtcdFlags],
) -> None:
    """Serve the Kubernetes API for the kinds of `mooring docs kinds`, until SIGTERM or Ctrl-C.

    No controllers are included: run schedulers and controllers against it, Mooring's or Kubernetes' own. Prints the
    kubeconfig, then `ready` on a line of its own.

    Exit codes: 0 when told to stop; 1 when the port, the data, etcd or the keys cannot be used; 2 when flags are wrong.
    """
    objects = options.etcd_asked_for(etcd)
    if objects is not None and (in_memory or data_dir is None):
        raise click.UsageError(
            "--etcd-servers requires --data-dir for this server's keys and tokens, and excludes --in-memory."
        )
    if in_memory == (data_dir is not None):
        raise click.UsageError("Give either --data-dir or --in-memory.")
    ttl = _duration(event_ttl)
    gates = options.gates_of(feature_gates)
    try:
        tokens = read_token_file(token_auth_file) if token_auth_file else {}
    except BadTokenFile as error:
        raise click.BadParameter(str(error), param_hint="--token-auth-file") from error
    configure_logging(log_level)
    settings = ApiSettings(
        secure_port, bind_address, data_dir, cert_dir, kubeconfig, tokens, ttl, gates=gates, etcd=objects
    )
    try:
        run_event_loop(_serve(settings))
    except (CannotListen, StoreUnusable, BadSigningKey) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'The system'}: {error.strerror}.") from error


def _duration(event_ttl: str) -> float:
    try:
        ttl = parse_duration(event_ttl)
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--event-ttl") from error
    if not ttl:
        raise click.BadParameter("must be greater than 0.", param_hint="--event-ttl")
    return ttl


async def _serve(settings: ApiSettings) -> None:
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
