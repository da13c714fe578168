"""`mooring extender`: lends volume decisions to a stock kube-scheduler, as a process of its own."""

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring import __version__
from mooring.cli.event_loop import run
from mooring.cli.process_options import (
    LOOPBACK,
    GoDuration,
    InstanceFlags,
    Misconfigured,
    hold_namespace_option,
    process_options,
    settings_of,
    without_election,
)
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cli.component_process import ProcessSettings, Surroundings
    from mooring.cluster.extender_credentials import Credentials
    from mooring.cluster.extender_door import DoorSettings
    from mooring.control.component import Component
    from mooring.scheduler.extender.kube_configuration import ClientFiles
    from mooring.scheduler.extender.settings import Settings

#: In logs and user agents.
NAME: Final = "mooring-extender"
#: As others of the control plane know it.
PART: Final = "extender"
#: For probes and metrics.
PORT: Final = 10263
#: For kube-scheduler.
EXTENDER_PORT: Final = 10264
#: Addresses to listen on, but none to call.
EVERYWHERE: Final = ("0.0.0.0", "::")

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Lend volume decisions to kube-scheduler.")
@click.option(
    "--mode",
    type=click.Choice(["filter", "bind"]),
    default="filter",
    show_default=True,
    help="filter: say which nodes will do and which are best, kube-scheduler binds. bind: bind the volumes and then "
    "the pod too, with kube-scheduler's VolumeBinding turned off.",
)
@click.option(
    "--extender-address",
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="Where kube-scheduler is answered. Beyond loopback only with --client-ca-file.",
)
@click.option(
    "--extender-port",
    type=click.IntRange(0, 65535),
    default=EXTENDER_PORT,
    show_default=True,
    help="Port on which kube-scheduler is answered; 0 picks a free one and prints it.",
)
@click.option("--tls-cert-file", type=_FILE, metavar="FILE", help="Certificate shown to kube-scheduler, PEM.")
@click.option("--tls-private-key-file", type=_FILE, metavar="FILE", help="Private key of --tls-cert-file, PEM.")
@click.option(
    "--client-ca-file",
    type=_FILE,
    metavar="FILE",
    help="Only callers with a certificate of this authority are let in (mutual TLS).",
)
@click.option(
    "--client-name",
    multiple=True,
    metavar="NAME",
    help="Only certificates with this common name are; may be given several times.  [default: any of the authority]",
)
@click.option(
    "--bind-timeout",
    type=GoDuration(),
    default="10m",
    show_default=True,
    help="How long one call of bind waits for volumes.",
)
@click.option(
    "--capacity-policy",
    type=click.Choice(["Spread", "Pack"]),
    default="Spread",
    show_default=True,
    help="Whether volumes are rather made where most stays free, or where least does.",
)
@click.option(
    "--scheduler-name",
    multiple=True,
    metavar="NAME",
    help="The profiles of kube-scheduler that shall call; may be given several times.  [default: default-scheduler]",
)
@click.option(
    "--called-within",
    type=GoDuration(),
    default="5m",
    show_default=True,
    help="Say so in the log when nobody has called for this long although pods got nodes.",
)
@click.option("--ready-only-when-called", is_flag=True, help="Say it in /readyz as well.")
@click.option(
    "--print-scheduler-config",
    is_flag=True,
    help="Print the KubeSchedulerConfiguration that belongs to these flags, and end.",
)
@click.option(
    "--extender-url",
    default="",
    metavar="URL",
    help="URL of this extender for kube-scheduler.  [default: made of --extender-address and --extender-port]",
)
@hold_namespace_option
@process_options(port=PORT, elects=False)
def extender(
    mode: str,
    extender_address: str,
    extender_port: int,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    client_name: tuple[str, ...],
    bind_timeout: float,
    capacity_policy: str,
    scheduler_name: tuple[str, ...],
    called_within: float,
    ready_only_when_called: bool,
    print_scheduler_config: bool,
    extender_url: str,
    hold_namespace: str,
    **flags: Unpack[InstanceFlags],
) -> None:
    """Answer a stock kube-scheduler's questions about volumes, until SIGTERM or Ctrl-C.

    kube-scheduler has to be told to ask: --print-scheduler-config prints how. All instances act;
    `mooring docs extender` says how to run several, and what is lost against mooring scheduler.

    Exit codes: 0 when told to stop; 1 when the API server or a port cannot be used; 2 when flags, certificates or
    kubeconfig are wrong.
    """
    from mooring.cli.component_process import ProcessFailed
    from mooring.cli.logs import configure
    from mooring.cluster.extender_credentials import Unusable
    from mooring.cluster.extender_door import DoorSettings
    from mooring.scheduler.extender.settings import Mode, Settings
    from mooring.server.http.listening import CannotListen
    from mooring.volumes.scoring import CapacityPolicy

    if "" in scheduler_name:
        raise Misconfigured("--scheduler-name must not be empty.")
    if not bind_timeout or not called_within:
        raise Misconfigured("--bind-timeout and --called-within must be greater than 0.")
    settings = Settings(
        Mode(mode),
        frozenset(scheduler_name) or Settings.scheduler_names,
        bind_timeout,
        called_within,
        ready_only_when_called,
        hold_namespace,
        CapacityPolicy(capacity_policy),
    )
    credentials = _credentials(tls_cert_file, tls_private_key_file, client_ca_file, client_name)
    door = DoorSettings(extender_address, extender_port, credentials)
    try:
        door.check()
        if print_scheduler_config:
            _print_configuration(settings, door, extender_url)
            return
        # Not elected by a Lease, it announces itself where the others that it works with have theirs.
        process = replace(settings_of(without_election(flags), name=NAME), namespace=hold_namespace)
        configure(flags["log_level"])
        run(_run(process, settings, door))
    except Unusable as error:
        raise Misconfigured(str(error)) from error
    except (ProcessFailed, CannotListen) as error:
        raise click.ClickException(str(error)) from error


def _credentials(
    certificate: Path | None, key: Path | None, authority: Path | None, names: tuple[str, ...]
) -> "Credentials | None":
    from mooring.cluster.extender_credentials import Credentials

    if certificate is None and key is None:
        if authority is not None:
            raise Misconfigured("--client-ca-file needs --tls-cert-file and --tls-private-key-file.")
        if names:
            raise Misconfigured("--client-name needs --client-ca-file.")
        return None
    if certificate is None or key is None:
        raise Misconfigured("--tls-cert-file and --tls-private-key-file go together.")
    if names and authority is None:
        raise Misconfigured("--client-name needs --client-ca-file.")
    return Credentials(certificate, key, authority, frozenset(names))


def _print_configuration(settings: "Settings", door: "DoorSettings", url: str) -> None:
    import yaml

    from mooring.scheduler.extender.kube_configuration import kube_configuration

    document = kube_configuration(
        settings.mode,
        url or _url(door),
        sorted(settings.scheduler_names),
        bind_timeout=settings.bind_timeout,
        files=None if door.credentials is None else _places(),
    )
    click.echo(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False), nl=False)


def _url(door: "DoorSettings") -> str:
    if door.host in EVERYWHERE or not door.port:
        raise Misconfigured("Nobody can call every address, or port 0: say with --extender-url how this is reached.")
    host = f"[{door.host}]" if ":" in door.host else door.host
    return f"{'http' if door.credentials is None else 'https'}://{host}:{door.port}/"


def _places() -> "ClientFiles":
    """Where things lie on kube-scheduler's side nobody here knows: to be filled in."""
    from mooring.scheduler.extender.kube_configuration import ClientFiles

    folder = "/etc/kubernetes/extender"
    return ClientFiles(f"{folder}/server-ca.crt", f"{folder}/client.crt", f"{folder}/client.key")


async def _run(process: "ProcessSettings", settings: "Settings", door_settings: "DoorSettings") -> None:
    from mooring.cli.component_process import run_process
    from mooring.cluster.extender_door import ExtenderDoor
    from mooring.control.component import Together
    from mooring.scheduler.extender.component import Extender

    clock, rng = SystemClock(), random.SystemRandom()
    door = ExtenderDoor(door_settings, clock, rng)
    listener = await door.open()

    def build(surroundings: "Surroundings") -> "Component":
        component = Extender(surroundings.context(), settings, registry=surroundings.metrics.registry)
        door.lead_to(component.call)
        return Together(component.name, [component, door])

    def announce(url: str) -> None:
        click.echo(f"Mooring {__version__} judges volumes of {process.access.server} for kube-scheduler")
        click.echo(f"  kube-scheduler is answered at {listener.url} in mode {settings.mode.value}")
        if url:
            click.echo(f"  health and metrics at {url}")

    try:
        await run_process(process, build, clock=clock, rng=rng, announce=announce, parts=[PART])
    finally:
        await listener.close()
