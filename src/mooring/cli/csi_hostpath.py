"""`mooring csi-hostpath`: the hostpath driver on a Unix socket, until Ctrl-C."""

import asyncio
import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mooring import __version__
from mooring.cli.event_loop import run

if TYPE_CHECKING:
    from mooring.csi.interception import Interceptor
    from mooring.hostpath.layout import Layout, Pool, Settings

#: csi-driver-host-path's.
#: Below the state folder, in a folder for its owner alone: a shared one such as /tmp lets others take the name first.
ENDPOINT: Final = Path("run", "csi.sock")


def _default_state_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "mooring" / "csi-hostpath"


class Quantity(click.ParamType[int]):
    """`10Gi`, `500M`: bytes."""

    name = "quantity"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from mooring.api.quantity import QuantityError, to_bytes

        if isinstance(value, int):
            return value
        try:
            size = to_bytes(str(value))
        except QuantityError as error:
            self.fail(f"{error}.", param, ctx)
        if size <= 0:
            self.fail(f"{value} is not positive.", param, ctx)
        return size


class PoolOption(click.ParamType["Pool"]):
    """`fast=100Gi` or `safe=1Ti,mirrored`."""

    name = "pool"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> "Pool":
        from mooring.hostpath.layout import Kind, Pool

        name, equals, rest = str(value).partition("=")
        size, comma, kind = rest.partition(",")
        if not (name and equals):
            self.fail(f"{value!r} is not NAME=SIZE or NAME=SIZE,KIND.", param, ctx)
        if comma and kind not in Kind._value2member_map_:
            self.fail(f"{kind!r} is not a kind: choose from {', '.join(Kind)}.", param, ctx)
        return Pool(name, Quantity().convert(size, param, ctx), Kind(kind) if comma else Kind.STRIPED)


class SegmentsOption(click.ParamType[dict[str, str]]):
    """`zone=a` or `zone=a,rack=7`."""

    name = "segments"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        segments: dict[str, str] = {}
        for pair in str(value).split(","):
            key, equals, label = pair.partition("=")
            if not (key and equals and label):
                self.fail(f"{pair!r} is not KEY=VALUE.", param, ctx)
            if key in segments:
                self.fail(f"{key} is given twice.", param, ctx)
            segments[key] = label
        return segments


class ServedOption(click.ParamType[tuple[str, dict[str, str]]]):
    """`node-2:zone=b`."""

    name = "node"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, dict[str, str]]:
        node, colon, segments = str(value).partition(":")
        if not (node and colon):
            self.fail(f"{value!r} is not NODE:KEY=VALUE[,KEY=VALUE].", param, ctx)
        return node, SegmentsOption().convert(segments, param, ctx)


@click.command("csi-hostpath", short_help="Run a CSI driver that keeps volumes on this machine.")
@click.option(
    "--endpoint",
    default="",
    envvar="CSI_ENDPOINT",
    help="Unix socket to listen at; $CSI_ENDPOINT works too.  [default: run/csi.sock in the state folder]",
)
@click.option("--node-id", "--nodeid", required=True, metavar="NAME", help="The node this is, as Kubernetes knows it.")
@click.option(
    "--drivername", default=None, metavar="NAME", help="Name of the driver.  [default: hostpath.csi.mooring.dev]"
)
@click.option(
    "--state-dir",
    "--statedir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where volumes and the driver's memory are kept.  [default: mooring/csi-hostpath in the user's data folder]",
)
@click.option(
    "--pool",
    "pools",
    type=PoolOption(),
    multiple=True,
    metavar="NAME=SIZE[,KIND]",
    help="A pool for classes with the parameter pool=NAME; KIND is striped or mirrored, which costs twice. "
    "May be repeated. Without any there is one, `default`, as large as what the file system has left.",
)
@click.option(
    "--max-volume-size", type=Quantity(), default="1Ti", show_default=True, help="Largest volume there may be."
)
@click.option(
    "--max-volumes-per-node",
    "--maxvolumespernode",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How many volumes a node may use at once; 0 means any number.",
)
@click.option(
    "--topology",
    type=SegmentsOption(),
    default={},
    metavar="KEY=VALUE[,...]",
    help="Where this node is, as node labels.  [default: topology.hostpath.csi.mooring.dev/node=NODE-ID]",
)
@click.option(
    "--serve",
    "served",
    type=ServedOption(),
    multiple=True,
    metavar="NODE:KEY=VALUE[,...]",
    help="Another node to make volumes for, with pools of its own if it is elsewhere; makes this a central driver. "
    "May be repeated.",
)
@click.option("--enable-attach", is_flag=True, help="Attach volumes first; CSIDriver must then say attachRequired.")
@click.option(
    "--publish",
    "way",
    type=click.Choice(["auto", "bind", "link"]),
    default="auto",
    show_default=True,
    help="How volumes get to pods: bind mounts, symbolic links, or mounts where that is possible.",
)
@click.option(
    "--fail",
    "rules",
    multiple=True,
    metavar="CALL=CODE[,before|after][,count=N][,skip=N][,probability=P]",
    help="Fail a call on purpose, before it is done or after, e.g. CreateVolume=UNAVAILABLE,after,count=2. "
    "May be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What to log to standard error, as JSON lines; info shows every call and its answer, without secrets.",
)
def csi_hostpath(
    endpoint: str,
    node_id: str,
    drivername: str | None,
    state_dir: Path | None,
    pools: tuple["Pool", ...],
    max_volume_size: int,
    max_volumes_per_node: int,
    topology: dict[str, str],
    served: tuple[tuple[str, dict[str, str]], ...],
    enable_attach: bool,
    way: str,
    rules: tuple[str, ...],
    log_level: str,
) -> None:
    """Run a CSI driver that keeps volumes in folders and sparse files on this machine.

    Prints `ready` on a line of its own once it listens, and runs until Ctrl-C or SIGTERM. Volumes stay where they are
    and are served again by the next start with the same state folder.
    """
    from mooring.cli.logs import configure
    from mooring.csi.endpoint import BadEndpoint, socket_path
    from mooring.csi.service import EndpointTaken
    from mooring.hostpath.layout import DRIVER_NAME, Settings
    from mooring.hostpath.state_file import StateUnusable
    from mooring.server.private_files import private_folder

    if len({pool.name for pool in pools}) < len(pools):
        raise click.BadParameter("a pool is given twice.", param_hint="--pool")
    if served and not pools:
        raise click.UsageError("Nodes share one file system here, so --serve needs a --pool to say what each has.")
    if len({node_id, *(node for node, _ in served)}) <= len(served):
        raise click.BadParameter("a node is given twice.", param_hint="--serve")
    folder = state_dir or _default_state_dir()
    try:
        socket = socket_path(endpoint or str(folder / ENDPOINT))
    except BadEndpoint as error:
        raise click.BadParameter(f"{error}.", param_hint="--endpoint") from error
    interceptors = _interceptors(rules)
    configure(log_level)
    settings = Settings(
        name=drivername or DRIVER_NAME,
        version=__version__,
        max_volume_bytes=max_volume_size,
        max_volumes_per_node=max_volumes_per_node,
        attach=enable_attach,
    )
    layout = _layout(node_id, topology, dict(served), pools)
    try:
        if not endpoint:
            private_folder(socket.parent)
        run(_serve(layout, settings, node_id, folder, socket, way, interceptors))
    except (EndpointTaken, StateUnusable) as error:
        raise click.ClickException(f"{error}.") from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or socket}: {error.strerror or error}.") from error


def _layout(
    node_id: str, topology: Mapping[str, str], served: Mapping[str, Mapping[str, str]], pools: tuple["Pool", ...]
) -> "Layout":
    from mooring.hostpath.layout import FILE_SYSTEM, central, one_node

    own = one_node(node_id, pools=pools or (FILE_SYSTEM,), segments=topology)
    # This node first: where volumes may lie anywhere and room is equal, they lie here.
    return central({**own.nodes, **served}, pools=pools or (FILE_SYSTEM,)) if served else own


def _interceptors(rules: tuple[str, ...]) -> list["Interceptor"]:
    from mooring.clock import SystemClock
    from mooring.csi.call_log import CallLog
    from mooring.csi.calls import CALLS
    from mooring.hostpath.failures import BadRule, Failures, parse_rule

    try:
        parsed = [parse_rule(rule, calls=CALLS) for rule in rules]
    except BadRule as error:
        raise click.BadParameter(f"{error}.", param_hint="--fail") from error
    return [CallLog(clock=SystemClock()), Failures(parsed, chance=random.SystemRandom())]


async def _serve(
    layout: "Layout",
    settings: "Settings",
    node_id: str,
    folder: Path,
    socket: Path,
    way: str,
    interceptors: list["Interceptor"],
) -> None:
    from mooring.csi.service import Service
    from mooring.hostpath.driver import Hostpath
    from mooring.hostpath.mounts import BindMounts, Links, can_mount
    from mooring.hostpath.running import on_files

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wanted, stop.set)
    publisher = BindMounts() if way == "bind" or (way == "auto" and can_mount()) else Links()
    async with (
        on_files(layout, settings, folder, publisher, chance=random.SystemRandom()) as volume_store,
        Service(Hostpath(volume_store, node_id), socket, interceptors=interceptors),
    ):
        click.echo(f"Mooring {__version__}: driver {settings.name} for node {node_id} at unix://{socket}")
        means = "bind mounts" if isinstance(publisher, BindMounts) else "symbolic links"
        click.echo(f"  volumes in {folder / 'volumes'}, published by {means}")
        click.echo("ready")
        await stop.wait()
