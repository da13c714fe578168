"""`mooring up`: an embedded cluster in this process, until Ctrl-C."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import click

from mooring import __version__
from mooring.api.errors import ApiError
from mooring.cli import options
from mooring.cli.runtime import ProgressLine, StopSignals, configure_logging, run_event_loop
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout, Progress
from mooring.cluster.control_plane import NotReady
from mooring.cluster.embedded import EmbeddedCluster, Settings, serving
from mooring.cluster.identities import PAGE
from mooring.cluster.storage import StorageSettings
from mooring.csi.contract import DriverError
from mooring.csi.requests import BadEndpoint, socket_path
from mooring.hostpath.state_file import StateUnusable
from mooring.server.auth.service_account_tokens import BadSigningKey
from mooring.server.environment import SystemEntropy
from mooring.server.http.listener import CannotListen
from mooring.store.contract import StoreError, StoreUnusable
from mooring.web.server import PageSettings, new_token, page
from mooring.web.session import ViewScope

#: Far from 6443, which other clusters on the same machine use.
DEFAULT_PORT: Final = 7443
#: How often the progress of a start is looked at.
PROGRESS_SECONDS: Final = 0.25
#: Printed when the cluster is ready; both work without a checkout.
NEXT_STEPS: Final = (
    "try: mooring docs examples/statefulset-local.yaml | kubectl apply -f -",
    "then: mooring docs tutorials/a-pending-pod",
)
#: Exit code, less the signal's number, of a start or a stop that a signal cut short; as shells have it.
SIGNALLED: Final = 128


@click.command()
@click.option(
    "--data-dir",
    type=options.FOLDER,
    help="Folder of the cluster's state.  [default: mooring in the user's data folder]",
)
@click.option("--in-memory", is_flag=True, help="Keep the cluster in memory; its state is lost when the command ends.")
@options.port_option("--port", DEFAULT_PORT, "Port of the API server on 127.0.0.1")
@click.option(
    "--kubeconfig", type=options.FILE, help="Path of the kubeconfig to write.  [default: kubeconfig in the data folder]"
)
@options.layout_options(max_nodes=5000)
@options.count_option(
    "--local-pvs", 2, "Number of local PersistentVolumes per node, of 10Gi, 20Gi and so on.", most=100
)
@options.text_option(
    "--csi-endpoint",
    "SOCKET",
    "Run with this CSI driver of your own, on all nodes; --log-level=info shows every call and its answer.  "
    "[default: the hostpath driver, with pools on every node]",
)
@click.option(
    "--page-port",
    type=click.IntRange(0, 65535),
    help="Port of the dashboard on 127.0.0.1; 0 picks a free port.  [default: the API server's port plus one, if free]",
)
@click.option("--no-page", is_flag=True, help="Do not serve the dashboard.")
@options.gates_option()
@options.output_option(
    "text", "json", note="; json prints one line with url, kubeconfig and page when the cluster is ready"
)
@options.log_level_option("warning")
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
    output: str,
    log_level: str,
) -> None:
    """Start an embedded cluster: API server, controllers, nodes and a CSI driver in one process.

    Prints the kubeconfig and the address of the dashboard, then `ready` on a line of its own, and runs until Ctrl-C. On
    existing data the options add objects and remove none.
    """
    if in_memory and data_dir is not None:
        raise click.UsageError("--in-memory keeps nothing, so it cannot be combined with --data-dir.")
    configure_logging(log_level)
    try:
        storage = StorageSettings(endpoint=socket_path(csi_endpoint) if csi_endpoint else None)
    except BadEndpoint as error:
        raise click.BadParameter(f"{error}.", param_hint="--csi-endpoint") from error
    folder = None if in_memory else data_dir or options.data_folder()
    layout = Layout(nodes, zones, local_pvs, racks=racks)
    settings = Settings(
        layout, port, folder, kubeconfig, options.gates_of(feature_gates, embedded=True), storage=storage
    )
    try:
        run_event_loop(_serve(settings, page_port, serves_page=not no_page, output=output))
    except Exception as error:
        sentence = _complaint(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error


def _complaint(error: Exception) -> str | None:
    """The reason why the cluster did not start or ended, as one sentence; None for bugs."""
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
            return f"The cluster does not start: {error} not ready. See the log for the reason (--log-level=info)."
        case ApiError() if isinstance(error.__cause__, StoreError):
            return f"The cluster's state cannot be stored: {error.__cause__}."
        case ApiError():
            return f"The cluster's initial objects cannot be created: {error.message}."
        case OSError():
            return f"{error.filename or 'The system'}: {error.strerror}."
    return None


async def _serve(settings: Settings, page_port: int | None, *, serves_page: bool, output: str) -> None:
    async with StopSignals() as stop, AsyncExitStack() as stack:
        async with _shown_progress() as progress:
            cluster = await stack.enter_async_context(
                serving(settings, clock=SystemClock(), rng=SystemEntropy(), progress=progress)
            )
            address = await stack.enter_async_context(_page(cluster, settings, page_port)) if serves_page else ""
        _introduce(settings, cluster, address, output)
        await stop.wait()
    if stop.interrupted is not None:
        raise click.exceptions.Exit(SIGNALLED + stop.interrupted)


@asynccontextmanager
async def _shown_progress() -> AsyncIterator[Progress]:
    """Shows the progress that is reported inside the block, after a second and until the next report."""
    latest = ("starting", 0, 0)

    def report(what: str, done: int, total: int) -> None:
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
            yield report
        finally:
            showing.cancel()


def _introduce(settings: Settings, cluster: EmbeddedCluster, page: str, output: str) -> None:
    layout = settings.layout
    volumes = layout.nodes * layout.local_volumes
    if output == "json":
        # One line, flushed: programs read it from a pipe while the command runs.
        started = {
            "version": __version__,
            "url": cluster.url,
            "kubeconfig": str(cluster.kubeconfig.resolve()),
            "page": page or None,
            "nodes": layout.nodes,
            "zones": min(layout.zones, layout.nodes),
            "unreadyNodes": list(cluster.unready_nodes),
            "storageClasses": [] if cluster.storage is None else [row.name for row in cluster.storage.classes],
        }
        click.echo(json.dumps(started))
        sys.stdout.flush()
        return
    click.echo(f"Mooring {__version__} at {cluster.url}")
    click.echo(f"  {layout.nodes} nodes in {min(layout.zones, layout.nodes)} zones, {volumes} local volumes")
    if cluster.storage is not None:
        rows = cluster.storage.classes
        classes = ", ".join(f"{row.name} (default)" if row.default else row.name for row in rows)
        click.echo(f"  volumes provisioned by {cluster.storage.facts.name}, classes {classes}")
    if cluster.unready_nodes:
        named = ", ".join(cluster.unready_nodes[:5]) + (" …" if len(cluster.unready_nodes) > 5 else "")
        click.echo(f"  not ready: {named} (kubectl describe node)")
    click.echo(f"  export KUBECONFIG={cluster.kubeconfig.resolve()}")
    if page:
        click.echo(f"  page at {page}")
    for step in NEXT_STEPS:
        click.echo(f"  {step}")
    click.echo("ready")


def _page(cluster: EmbeddedCluster, settings: Settings, port: int | None) -> AbstractAsyncContextManager[str]:
    """The dashboard, with an identity of its own; by default on the port after the API server's, if that is free."""
    after_server = settings.port + 1 if 0 < settings.port < 65535 else 0
    wanted = PageSettings(
        new_token(), port=after_server if port is None else port, any_port=port is None, focus=ViewScope(cluster.url)
    )
    return page(cluster.connect(PAGE), wanted, clock=SystemClock(), rng=SystemEntropy())
