"""`mooring page`: the dashboard of any cluster, with the rights of a kubeconfig, until Ctrl-C."""

from pathlib import Path
from typing import Final

import click

from mooring.cli import options
from mooring.cli.runtime import configure_logging, run_event_loop, stop_event
from mooring.cli.terminal import InvalidInput
from mooring.client.access import Access
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.server.environment import SystemEntropy
from mooring.server.http.listener import CannotListen
from mooring.web import server
from mooring.web.server import PageSettings, new_token
from mooring.web.session import ViewScope

#: In the server's logs.
NAME: Final = "mooring-page"
#: Of a token that is given.
MIN_TOKEN_LENGTH: Final = 32
#: As of `mooring up`.
DEFAULT_PORT: Final = 7444


@click.command()
@options.kubeconfig_options
@options.namespace_option("Only pods, claims and events in this namespace.  [default: all namespaces]")
@options.text_option(
    "--bind-address",
    "ADDRESS",
    "Address to listen on, plain HTTP; use a TLS proxy for addresses other than loopback.",
    default=options.LOOPBACK,
)
@options.port_option("--port", DEFAULT_PORT, "Port to listen on")
@click.option(
    "--allowed-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Host name of the dashboard, e.g. of a proxy; repeatable.",
)
@options.text_option(
    "--hold-namespace", None, "Namespace of hold references and provisioning intents.", default="kube-system"
)
@click.option(
    "--token-file",
    type=options.EXISTING_FILE,
    help="File with the token that requests need, of at least 32 characters.  [default: a new token for each start]",
)
@options.text_option("--rack-label", "KEY", "Node label that contains the rack.", default="mooring.dev/rack")
@options.log_level_option("error")
def page(
    kubeconfig: str,
    context: str,
    namespace: str,
    bind_address: str,
    port: int,
    names: tuple[str, ...],
    hold_namespace: str,
    token_file: Path | None,
    rack_label: str,
    log_level: str,
) -> None:
    """Serve a live dashboard of a cluster's storage: topology to scale, pending pods with reasons, recent events.

    Works with any Kubernetes cluster, needs nothing installed there and writes nothing. It shows the kinds that the
    kubeconfig's user may list, and names the others. The printed address contains a secret that grants the same view.

    Exit codes: 0; 1 when the address is in use or not allowed; 2 when flags or kubeconfig are wrong.
    """
    configure_logging(log_level)
    token = new_token() if token_file is None else _token(token_file)
    access = options.access_of(kubeconfig, context)
    focus = ViewScope(access.server, namespace, hold_namespace, rack_label)
    settings = PageSettings(token, bind_address, port, names=names, focus=focus)
    try:
        run_event_loop(_serve(access, settings, token_file))
    except CannotListen as error:
        raise click.ClickException(str(error)) from error


def _token(file: Path) -> str:
    """Raises InvalidInput."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: the token cannot be read: {error}.") from error
    if len(token) < MIN_TOKEN_LENGTH or any(character.isspace() for character in token):
        raise InvalidInput(f"{file}: a token needs at least {MIN_TOKEN_LENGTH} characters, and no spaces.")
    return token


async def _serve(access: Access, settings: PageSettings, token_file: Path | None) -> None:
    stop, clock = stop_event(), SystemClock()
    client = HttpClient(access, component=NAME, clock=clock)
    try:
        async with server.page(client, settings, clock=clock, rng=SystemEntropy()) as address:
            click.echo(f"The page of {access.server} is at")
            # A token that is used again does not belong into logs.
            click.echo(
                f"  {address if token_file is None else address.replace(settings.token, f'TOKEN of {token_file}')}"
            )
            await stop.wait()
    finally:
        await client.close()
