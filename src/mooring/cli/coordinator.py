"""`mooring coordinator`: commits the volumes of a pod together, or rolls back what blocks it, on any Kubernetes."""

import random
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring import __version__
from mooring.cli.event_loop import run
from mooring.cli.process_options import (
    GoDuration,
    ProcessFlags,
    hold_namespace_option,
    process_options,
    settings_of,
)
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cli.component_process import ProcessSettings, Surroundings
    from mooring.control.component import Component
    from mooring.coordinator.settings import Settings

#: In logs and user agents, and of the Lease: provisioners look for it under this name.
NAME: Final = "mooring-coordinator"
PORT: Final = 10262


@click.command(short_help="Commit a pod's volumes together, or roll them back.")
@hold_namespace_option
@click.option(
    "--grace",
    type=GoDuration(),
    default="15s",
    show_default=True,
    help="How long a volume waits for one of its pod that nobody makes yet; longer than schedulers wait before they "
    "try a pod again.",
)
@click.option(
    "--abandon",
    type=GoDuration(),
    default="60s",
    show_default=True,
    help="How long a volume waits that no pod wants any more.",
)
@click.option(
    "--max-hold", type=GoDuration(), default="10m", show_default=True, help="How long a volume is held at most."
)
@click.option(
    "--drain",
    is_flag=True,
    help="Settle everything that is held, then end: commit what is complete, give up the rest. Stop all other "
    "coordinators first; provisioners must be running.",
)
@click.option(
    "--drain-timeout", type=GoDuration(), default="5m", show_default=True, help="How long --drain may take at most."
)
@process_options(port=PORT)
def coordinator(
    hold_namespace: str,
    grace: float,
    abandon: float,
    max_hold: float,
    drain: bool,
    drain_timeout: float,
    **flags: Unpack[ProcessFlags],
) -> None:
    """Give pods all their volumes on one node or none, on any Kubernetes, until SIGTERM or Ctrl-C.

    Volumes of drivers whose provisioner takes part (mooring provisioner --enable-rollback) are held until all of a
    pod's are there; `mooring docs rollback` says what that promises where.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags or kubeconfig are wrong, or when everybody can write to the hold namespace. With --drain: 0 when nothing is
    held any more; 1 when something still is, or when another coordinator is running.
    """
    from mooring.cli.component_process import ProcessFailed
    from mooring.cli.logs import configure
    from mooring.coordinator.settings import Settings
    from mooring.server.http.listening import CannotListen
    from mooring.volumes.holds.verdicts import Patience

    if flags["leader_elect_resource_namespace"] is None:
        flags["leader_elect_resource_namespace"] = hold_namespace
    process = settings_of(flags, name=NAME)
    patience = Patience(grace=grace, abandon=abandon, hold=max_hold)
    settings = Settings(hold_namespace=hold_namespace, patience=patience, alone=process.election is None)
    configure(flags["log_level"])
    try:
        run(_drain(process, settings, drain_timeout) if drain else _run(process, settings))
    except (ProcessFailed, CannotListen) as error:
        raise click.ClickException(str(error)) from error


async def _run(process: "ProcessSettings", settings: "Settings") -> None:
    from mooring.cli.component_process import run_process
    from mooring.coordinator.component import Coordinator

    await _check_namespace(process, settings.hold_namespace)

    def build(surroundings: "Surroundings") -> "Component":
        return Coordinator(surroundings.context(), settings, registry=surroundings.metrics.registry)

    def announce(url: str) -> None:
        click.echo(f"Mooring {__version__} coordinates volumes of {process.access.server}")
        if url:
            click.echo(f"  health and metrics at {url}")

    clock, rng = SystemClock(), random.SystemRandom()
    await run_process(process, build, clock=clock, rng=rng, announce=announce, parts=[NAME])


async def _drain(process: "ProcessSettings", settings: "Settings", timeout: float) -> None:
    from mooring.cli.coordinator_drain import drain

    await drain(process, settings, timeout=timeout)


async def _check_namespace(process: "ProcessSettings", namespace: str) -> None:
    from mooring.api.errors import ApiError, Forbidden
    from mooring.cli.component_process import ProcessFailed
    from mooring.cli.process_options import Misconfigured
    from mooring.client.contract import Unreachable
    from mooring.client.http import HttpClient
    from mooring.coordinator.hold_namespace import OpenNamespace, check

    client = HttpClient(process.access, component=NAME, clock=SystemClock())
    try:
        await check(client, namespace)
    except OpenNamespace as error:
        raise Misconfigured(str(error)) from error
    except Forbidden as error:
        raise ProcessFailed(
            f"Cannot find out who may write to namespace {namespace}: {error.message}; allow creating "
            "subjectaccessreviews in authorization.k8s.io."
        ) from error
    except Unreachable as error:
        raise ProcessFailed(f"Cannot use the API server: {error}.") from error
    except ApiError as error:
        raise ProcessFailed(f"The API server refuses us: {error.message}.") from error
    finally:
        await client.close()
