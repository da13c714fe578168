"""`mooring nodeagent`: simulated nodes as a process of their own."""

from typing import Final, Unpack

import click

from mooring.cli.options import ProcessFlags, RenamedOption, layout_options, process_options, settings_of
from mooring.cli.process import run_component
from mooring.cluster.bootstrap import Layout
from mooring.nodeagent.component import NodeAgent

#: In logs and user agents, and of the Lease.
NODE_AGENT_NAME: Final = "mooring-nodeagent"
#: The kubelet's for /healthz.
NODE_AGENT_PORT: Final = 10248


@click.command()
@layout_options(max_nodes=10000)
@click.option(
    "--node-name-prefix",
    "prefix",
    cls=RenamedOption,
    former="--name",
    default="node",
    show_default=True,
    metavar="PREFIX",
    help="Prefix of the names of simulated nodes.",
)
@process_options(port=NODE_AGENT_PORT)
def nodeagent(nodes: int, zones: int, racks: int, prefix: str, **flags: Unpack[ProcessFlags]) -> None:
    """Register simulated nodes with any Kubernetes cluster and simulate their pods, until SIGTERM or Ctrl-C.

    No containers run: annotations determine the behaviour of pods (`mooring docs nodeagent`). Other nodes are not
    touched. When the command ends, the heartbeats of its nodes stop.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags or kubeconfig are wrong.
    """
    layout = Layout(nodes, zones, 0, racks=racks, prefix=prefix)
    settings = settings_of(flags, name=NODE_AGENT_NAME)
    run_component(
        settings,
        lambda runtime: NodeAgent(runtime.context(NodeAgent.name), layout.rows()),
        log_level=flags["log_level"],
        greeting=f"simulates {layout.nodes} nodes of {settings.access.server}",
        parts=[NodeAgent.name],
    )
