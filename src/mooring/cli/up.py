"""`mooring up`: an embedded cluster in this process, until Ctrl-C."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from mooring import __version__
from mooring.cli.event_loop import StopSignals, run
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cluster.bootstrap import Progress
    from mooring.cluster.serving import Serving, Settings
    from mooring.cluster.storage import StorageSettings

#: Far from 6443, which other clusters on the same machine use.
DEFAULT_PORT: Final = 7443
#: How often the progress of a start is looked at.
PROGRESS_SECONDS: Final = 0.25
#: Exit code, less the signal's number, of a start or a stop that a signal cut short; as shells have it.
SIGNALLED: Final = 128


def _default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "mooring"


@click.command(short_help="Start an embedded cluster.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the cluster is kept between starts.  [default: mooring in the user's data folder]",
)
@click.option("--in-memory", is_flag=True, help="Keep nothing: the cluster is gone when the command ends.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the API server on 127.0.0.1; 0 picks a free one.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig.  [default: kubeconfig in the data folder]",
)
@click.option("--nodes", type=click.IntRange(0, 5000), default=3, show_default=True, help="How many nodes to play.")
@click.option(
    "--zones", type=click.IntRange(1, 1000), default=3, show_default=True, help="How many zones they are spread over."
)
@click.option(
    "--racks", type=click.IntRange(0, 1000), default=0, show_default=True, help="How many racks each zone has."
)
@click.option(
    "--local-pvs",
    type=click.IntRange(0, 100),
    default=2,
    show_default=True,
    help="How many local volumes each node has; the first is of 10Gi, the second of 20Gi, and so on.",
)
@click.option(
    "--csi-endpoint",
    default="",
    metavar="SOCKET",
    help="Run with this CSI driver of your own, on all nodes; --log-level=info shows every call and its answer.  "
    "[default: the hostpath driver, with pools on every node]",
)
@click.option(
    "--page-port",
    type=click.IntRange(0, 65535),
    help="Port of the page on 127.0.0.1; 0 picks a free one.  [default: the one after the API server's, if it is free]",
)
@click.option("--no-page", is_flag=True, help="Serve no page.")
@click.option(
    "--feature-gates",
    default="",
    metavar="NAME=true|false,...",
    help="Features to turn on or off, as Kubernetes' components take them.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What to log to standard error, as JSON lines.",
)
def up(
    data_dir: Path | None,
    in_memory: bool,
    port: int,
    kubeconfig: Path | None,
    nodes: int,
    zones: int,
    racks: int,
    local_pvs: int,
    csi_endpoint: str,
    page_port: int | None,
    no_page: bool,
    feature_gates: str,
    log_level: str,
) -> None:
    """Start an embedded cluster: API server, controllers, nodes and a CSI driver in one process.

    Prints how to point kubectl at it and the address of its page, then `ready` on a line of its own, and runs until
    Ctrl-C. On existing data the options add what is missing and remove nothing.
    """
    from mooring.cli.logs import configure
    from mooring.cluster.bootstrap import Layout
    from mooring.cluster.serving import Settings
    from mooring.control.feature_gates import BadGates, parse

    if in_memory and data_dir is not None:
        raise click.UsageError("--in-memory keeps nothing, so it cannot be combined with --data-dir.")
    try:
        gates = parse(feature_gates)
    except BadGates as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error
    configure(log_level)
    folder = None if in_memory else data_dir or _default_data_dir()
    settings = Settings(
        Layout(nodes, zones, local_pvs, racks=racks), port, folder, kubeconfig, gates, storage=_storage(csi_endpoint)
    )
    try:
        run(_serve(settings, None if no_page else _PageFlags(page_port)))
    except Exception as error:
        sentence = _complaint(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error


def _complaint(error: Exception) -> str | None:
    """What kept the cluster from starting, or ended it, as one sentence; None for errors of this program."""
    from mooring.api.errors import ApiError
    from mooring.cluster.wiring import NotReady
    from mooring.csi.contract import DriverError
    from mooring.hostpath.state_file import StateUnusable
    from mooring.server.authentication.signing_key_file import BadSigningKey
    from mooring.server.http.listening import CannotListen
    from mooring.store.contract import StoreError, StoreUnusable

    match error:
        case ExceptionGroup(exceptions=[first, *_]):
            # Tasks that do the same fail for the same reason.
            return _complaint(first)
        case CannotListen() | StoreUnusable() | BadSigningKey():
            return str(error)
        case StateUnusable():
            return f"{error}."
        case DriverError():
            return f"The driver cannot be used: {error.message}."
        case NotReady():
            return f"The cluster does not start; waited in vain for {error}. The log says why (--log-level=info)."
        case ApiError() if isinstance(error.__cause__, StoreError):
            return f"The cluster cannot be kept: {error.__cause__}."
        case ApiError():
            return f"The cluster cannot be set up: {error.message}."
        case OSError():
            return f"{error.filename or 'The system'}: {error.strerror}."
    return None


def _storage(endpoint: str) -> "StorageSettings":
    from mooring.cluster.storage import StorageSettings
    from mooring.csi.endpoint import BadEndpoint, socket_path

    try:
        return StorageSettings(endpoint=socket_path(endpoint) if endpoint else None)
    except BadEndpoint as error:
        raise click.BadParameter(f"{error}.", param_hint="--csi-endpoint") from error


class _PageFlags(NamedTuple):
    #: None is the port after the API server's, if that is free.
    port: int | None


async def _serve(settings: "Settings", page: _PageFlags | None) -> None:
    from mooring.cluster.serving import serving
    from mooring.server.entropy import SystemEntropy

    async with StopSignals() as stop, AsyncExitStack() as stack:
        async with _shown_progress() as progress:
            cluster = await stack.enter_async_context(
                serving(settings, clock=SystemClock(), rng=SystemEntropy(), progress=progress)
            )
            address = "" if page is None else await stack.enter_async_context(_page(cluster, settings, page))
        _introduce(settings, cluster, address)
        await stop.wait()
    if stop.interrupted is not None:
        raise click.exceptions.Exit(SIGNALLED + stop.interrupted)


@asynccontextmanager
async def _shown_progress() -> AsyncIterator["Progress"]:
    """What is told inside the block is shown once it has taken a second, and while nothing more is told."""
    from mooring.cli.progress_line import ProgressLine

    latest = ("starting", 0, 0)

    def tell(what: str, done: int, total: int) -> None:
        nonlocal latest
        latest = (what, done, total)

    async def show(line: ProgressLine) -> None:
        while True:
            line(*latest)
            await clock.sleep(PROGRESS_SECONDS)

    clock = SystemClock()
    with ProgressLine(clock, in_files=True) as line:
        showing = asyncio.create_task(show(line), name="progress")
        try:
            yield tell
        finally:
            showing.cancel()


def _introduce(settings: "Settings", cluster: "Serving", page: str) -> None:
    layout = settings.layout
    volumes = layout.nodes * layout.local_volumes
    click.echo(f"Mooring {__version__} at {cluster.url}")
    click.echo(f"  {layout.nodes} nodes in {min(layout.zones, layout.nodes)} zones, {volumes} local volumes")
    if cluster.storage is not None:
        rows = cluster.storage.classes
        classes = ", ".join(f"{row.name} (default)" if row.default else row.name for row in rows)
        click.echo(f"  volumes made by {cluster.storage.facts.name}, classes {classes}")
    if cluster.unready_nodes:
        named = ", ".join(cluster.unready_nodes[:5]) + (" …" if len(cluster.unready_nodes) > 5 else "")
        click.echo(f"  not ready: {named} (kubectl describe node)")
    click.echo(f"  export KUBECONFIG={cluster.kubeconfig.resolve()}")
    if page:
        click.echo(f"  page at {page}")
    click.echo("ready")


def _page(cluster: "Serving", settings: "Settings", flags: _PageFlags) -> AbstractAsyncContextManager[str]:
    """The page of the cluster, with rights of its own."""
    from mooring.cluster.identities import PAGE
    from mooring.server.entropy import SystemEntropy
    from mooring.web.serving import PageSettings, new_token, page
    from mooring.web.session import Focus

    after_server = settings.port + 1 if 0 < settings.port < 65535 else 0
    port = after_server if flags.port is None else flags.port
    wanted = PageSettings(new_token(), port=port, any_port=flags.port is None, focus=Focus(cluster.url))
    return page(cluster.connect(PAGE), wanted, clock=SystemClock(), rng=SystemEntropy())
