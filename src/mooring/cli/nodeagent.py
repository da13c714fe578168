"""`mooring nodeagent`: played nodes as a process of their own, against any Kubernetes."""

import random
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring import __version__
from mooring.cli.event_loop import run
from mooring.cli.process_options import ProcessFlags, process_options, settings_of
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cli.component_process import ProcessSettings, Surroundings
    from mooring.cluster.bootstrap import Layout
    from mooring.control.component import Component

#: In logs and user agents, and of the Lease.
NAME: Final = "mooring-nodeagent"
#: The kubelet's for /healthz.
PORT: Final = 10248


@click.command(short_help="Play nodes of a Kubernetes.")
@click.option("--nodes", type=click.IntRange(0, 10000), default=3, show_default=True, help="How many nodes to play.")
@click.option(
    "--zones", type=click.IntRange(1, 1000), default=3, show_default=True, help="How many zones they are spread over."
)
@click.option(
    "--racks", type=click.IntRange(0, 1000), default=0, show_default=True, help="How many racks each zone has."
)
@click.option(
    "--name", "prefix", default="node", show_default=True, metavar="PREFIX", help="What their names begin with."
)
@process_options(port=PORT)
def nodeagent(nodes: int, zones: int, racks: int, prefix: str, **flags: Unpack[ProcessFlags]) -> None:
    """Register nodes with any Kubernetes and play what is bound to them, until SIGTERM or Ctrl-C.

    Nothing is really run: pods do what their annotations say (`mooring docs nodeagent`). Nodes that others
    registered are left alone. When the command ends, its nodes fall silent and are lost like any other.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags or kubeconfig are wrong.
    """
    from mooring.cli.component_process import ProcessFailed
    from mooring.cli.logs import configure
    from mooring.cluster.bootstrap import Layout
    from mooring.server.http.listening import CannotListen

    layout = Layout(nodes, zones, 0, racks=racks, prefix=prefix)
    settings = settings_of(flags, name=NAME)
    configure(flags["log_level"])
    try:
        run(_run(settings, layout))
    except (ProcessFailed, CannotListen) as error:
        raise click.ClickException(str(error)) from error


async def _run(settings: "ProcessSettings", layout: "Layout") -> None:
    from mooring.cli.component_process import run_process
    from mooring.nodeagent.component import NodeAgent

    def build(surroundings: "Surroundings") -> "Component":
        return NodeAgent(surroundings.context(NodeAgent.name), layout.rows())

    def announce(url: str) -> None:
        click.echo(f"Mooring {__version__} plays {layout.nodes} nodes of {settings.access.server}")
        if url:
            click.echo(f"  health and metrics at {url}")

    await run_process(settings, build, clock=SystemClock(), rng=random.SystemRandom(), announce=announce)
