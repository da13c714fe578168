"""`mooring controller`: the controllers as a process of their own, against any Kubernetes."""

import random
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring import __version__
from mooring.cli.event_loop import run
from mooring.cli.process_options import (
    Misconfigured,
    ProcessFlags,
    hold_namespace_option,
    process_options,
    settings_of,
)
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.cli.component_process import ProcessSettings, Surroundings
    from mooring.cluster.controllers import Controller
    from mooring.control.component import Component

#: In logs and user agents, and of the Lease. Not kube-controller-manager's: ours must not wait for its lease.
NAME: Final = "mooring-controller"
#: Where kube-controller-manager answered over plain HTTP when it still did.
PORT: Final = 10252


@click.command(short_help="Run controllers against a Kubernetes.")
@click.option(
    "--controllers",
    "wanted",
    default="*",
    show_default=True,
    metavar="LIST",
    help="Which to run, separated by commas: '*' all that are on by default, 'name' one, '-name' not that one.",
)
@hold_namespace_option
@process_options(port=PORT)
def controller(wanted: str, hold_namespace: str, **flags: Unpack[ProcessFlags]) -> None:
    """Bind volumes and keep workloads on any Kubernetes, until SIGTERM or Ctrl-C.

    Where kube-controller-manager runs, name here what is turned off there. `mooring docs workloads` lists the
    controllers; off unless named are garbage-collector-controller, namespace-controller and standin-provisioner.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags or kubeconfig are wrong.
    """
    from mooring.cli.component_process import ProcessFailed
    from mooring.cli.logs import configure
    from mooring.cluster.controllers import UnknownController, chosen
    from mooring.server.http.listening import CannotListen

    try:
        names = [name.strip() for name in wanted.split(",") if name.strip()]
        selected = chosen(names, hold_namespace=hold_namespace)
    except UnknownController as error:
        raise Misconfigured(f"--controllers: {error}.") from error
    if not selected:
        raise Misconfigured("--controllers: nothing is left to run.")
    settings = settings_of(flags, name=NAME)
    configure(flags["log_level"])
    try:
        run(_run(settings, selected))
    except (ProcessFailed, CannotListen) as error:
        raise click.ClickException(str(error)) from error


async def _run(settings: "ProcessSettings", selected: "Sequence[Controller]") -> None:
    from mooring.cli.component_process import run_process
    from mooring.control.component import Together

    def build(surroundings: "Surroundings") -> "Component":
        return Together(NAME, [one.build(surroundings.context(one.source)) for one in selected])

    def announce(url: str) -> None:
        click.echo(
            f"Mooring {__version__} controls {settings.access.server}: {', '.join(one.name for one in selected)}"
        )
        if url:
            click.echo(f"  health and metrics at {url}")

    clock, rng = SystemClock(), random.SystemRandom()
    parts = [one.source for one in selected]
    await run_process(settings, build, clock=clock, rng=rng, announce=announce, parts=parts)
