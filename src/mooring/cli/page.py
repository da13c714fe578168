"""`mooring page`: the page of any cluster, with the rights of a kubeconfig, until Ctrl-C."""

import asyncio
import signal
from typing import TYPE_CHECKING, Final

import click

from mooring.cli.event_loop import run
from mooring.cli.process_options import LOOPBACK, Misconfigured
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.client.access import Access
    from mooring.web.serving import PageSettings

#: In the server's logs.
NAME: Final = "mooring-page"
#: The one that `mooring up` gives its page.
DEFAULT_PORT: Final = 7444


@click.command(short_help="Show a cluster's storage in the browser.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="How to reach the cluster.  [default: KUBECONFIG, ~/.kube/config, the pod's own account]",
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use.")
@click.option(
    "-n", "--namespace", default="", help="Only pods, claims and events in this namespace.  [default: all namespaces]"
)
@click.option(
    "--bind-address",
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="Where to listen, over plain HTTP. Elsewhere than on loopback, put something before it that encrypts.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--allowed-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A host name under which the page is reached, e.g. a proxy's. May be given several times.",
)
@click.option(
    "--hold-namespace",
    default="kube-system",
    show_default=True,
    help="Where the provisioner keeps its records; volumes that are held name it.",
)
@click.option(
    "--rack-label", default="mooring.dev/rack", show_default=True, metavar="KEY", help="The label that names a rack."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="error",
    show_default=True,
    help="What to log to standard error, as JSON lines.",
)
def page(
    kubeconfig: str,
    context: str,
    namespace: str,
    bind_address: str,
    port: int,
    names: tuple[str, ...],
    hold_namespace: str,
    rack_label: str,
    log_level: str,
) -> None:
    """Show a cluster's storage in the browser: topology to scale, pods that wait and why, and what happens, live.

    Works on any Kubernetes, needs nothing installed there and writes nothing. It shows what the kubeconfig's user may
    list, and says what that is not. The address it prints has a secret in it: whoever has it sees the same.

    Exit codes: 0; 1 when the address cannot be had; 2 when flags or kubeconfig are wrong.
    """
    from mooring.cli.logs import configure
    from mooring.client.kubeconfig import Choice, KubeconfigError, load
    from mooring.server.http.listening import CannotListen
    from mooring.web.serving import PageSettings, new_token
    from mooring.web.session import Focus

    configure(log_level)
    try:
        access = load(kubeconfig, choice=Choice(context=context))
    except KubeconfigError as error:
        raise Misconfigured(str(error)) from error
    focus = Focus(access.server, namespace, hold_namespace, rack_label)
    settings = PageSettings(new_token(), bind_address, port, names=names, focus=focus)
    try:
        run(_serve(access, settings))
    except CannotListen as error:
        raise click.ClickException(str(error)) from error


async def _serve(access: "Access", settings: "PageSettings") -> None:
    from mooring.client.http import HttpClient
    from mooring.server.entropy import SystemEntropy
    from mooring.web.serving import page

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wanted, stop.set)
    clock = SystemClock()
    client = HttpClient(access, component=NAME, clock=clock)
    try:
        async with page(client, settings, clock=clock, rng=SystemEntropy()) as address:
            click.echo(f"The page of {access.server} is at")
            click.echo(f"  {address}")
            await stop.wait()
    finally:
        await client.close()
