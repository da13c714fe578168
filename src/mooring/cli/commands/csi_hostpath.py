"""`mooring csi-hostpath`: the hostpath driver on a Unix socket, until Ctrl-C."""

import random
from pathlib import Path
from typing import Final

import click

from mooring import __version__
from mooring.api.quantity import QuantityError, to_bytes
from mooring.cli.options import FOLDER, RenamedOption, data_folder, log_level_option
from mooring.cli.runtime import configure_logging, run_event_loop, stop_event
from mooring.clock import SystemClock
from mooring.csi.handlers import CALLS
from mooring.csi.interceptors import CallLog, Interceptor
from mooring.csi.requests import BadEndpoint, socket_path
from mooring.csi.server import CsiServer, EndpointInUse
from mooring.hostpath import records
from mooring.hostpath.driver import Hostpath, open_volume_store
from mooring.hostpath.fault_injection import BadRule, InjectedFailures, parse_rule
from mooring.hostpath.files import BindMounts, Links, can_mount
from mooring.hostpath.state_file import StateUnusable
from mooring.server.auth.server_files import private_folder

#: Below the state folder, in a folder for its owner alone: a shared one such as /tmp lets others take the name first.
ENDPOINT: Final = Path("run", "csi.sock")


def quantity(value: str) -> int:
    """`10Gi`, `500M`: bytes."""
    try:
        size = to_bytes(value)
    except QuantityError as error:
        raise click.BadParameter(f"{error}.") from error
    if size <= 0:
        raise click.BadParameter(f"{value} is not positive.")
    return size


def pool(value: str) -> records.Pool:
    """`fast=100Gi` or `safe=1Ti,mirrored`."""
    name, equals, rest = value.partition("=")
    size, comma, kind = rest.partition(",")
    if not (name and equals):
        raise click.BadParameter(f"{value!r} is not NAME=SIZE or NAME=SIZE,KIND.")
    if comma and kind not in records.PoolKind._value2member_map_:
        raise click.BadParameter(f"{kind!r} is not a kind: choose from {', '.join(records.PoolKind)}.")
    return records.Pool(name, quantity(size), records.PoolKind(kind) if comma else records.PoolKind.STRIPED)


def segments(value: str) -> dict[str, str]:
    """`zone=a` or `zone=a,rack=7`."""
    labels: dict[str, str] = {}
    for pair in value.split(","):
        key, equals, label = pair.partition("=")
        if not (key and equals and label):
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.")
        if key in labels:
            raise click.BadParameter(f"{key} is given twice.")
        labels[key] = label
    return labels


def node(value: str) -> tuple[str, dict[str, str]]:
    """`node-2:zone=b`."""
    name, colon, labels = value.partition(":")
    if not (name and colon):
        raise click.BadParameter(f"{value!r} is not NODE:KEY=VALUE[,KEY=VALUE].")
    return name, segments(labels)


@click.command("csi-hostpath")
@click.option(
    "--endpoint",
    default="",
    envvar="CSI_ENDPOINT",
    help="Unix socket of the driver, unix:///PATH or a path; only its owner can connect.  "
    "[default: $CSI_ENDPOINT, or run/csi.sock in the state folder]",
)
@click.option(
    "--node-id", "--nodeid", required=True, metavar="NAME", help="Kubernetes name of the node that the driver runs on."
)
@click.option(
    "--drivername", default=None, metavar="NAME", help="Name of the CSI driver.  [default: hostpath.csi.mooring.dev]"
)
@click.option(
    "--state-dir",
    "--statedir",
    type=FOLDER,
    help="Folder of volumes and driver state, of one driver at a time.  "
    "[default: mooring/csi-hostpath in the user's data folder]",
)
@click.option(
    "--pool",
    "pools",
    type=pool,
    multiple=True,
    metavar="NAME=SIZE[,KIND]",
    help="Storage pool for classes with the parameter pool=NAME; KIND is striped or mirrored (double size). "
    "May be repeated. Without any there is one, `default`, as large as what the file system has left.",
)
@click.option("--max-volume-size", type=quantity, default="1Ti", show_default=True, help="Maximum size of a volume.")
@click.option(
    "--max-volumes-per-node",
    "--maxvolumespernode",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Maximum number of volumes per node; 0 is unlimited.",
)
@click.option(
    "--topology",
    type=segments,
    metavar="KEY=VALUE[,...]",
    help="Topology segment of this node, as node labels.  [default: topology.hostpath.csi.mooring.dev/node=NODE-ID]",
)
@click.option(
    "--served-node",
    "served",
    cls=RenamedOption,
    former="--serve",
    type=node,
    multiple=True,
    metavar="NODE:KEY=VALUE[,...]",
    help="Another node to provision volumes for, with pools of its own in another segment (central driver). "
    "May be repeated.",
)
@click.option(
    "--enable-attach",
    is_flag=True,
    help="Require ControllerPublishVolume before use; CSIDriver must set attachRequired.",
)
@click.option(
    "--publish-mode",
    "way",
    cls=RenamedOption,
    former="--publish",
    type=click.Choice(["auto", "bind", "link"]),
    default="auto",
    show_default=True,
    help="How volumes are published to pods: bind mounts, symbolic links, or bind mounts where permitted (auto).",
)
@click.option(
    "--inject-failure",
    "rules",
    cls=RenamedOption,
    former="--fail",
    multiple=True,
    metavar="CALL=CODE[,before|after][,count=N][,skip=N][,probability=P]",
    help="Inject a failure before or after a call, e.g. CreateVolume=UNAVAILABLE,after,count=2. May be repeated.",
)
@log_level_option(note="; info logs every call without secrets")
def csi_hostpath(
    endpoint: str,
    node_id: str,
    drivername: str | None,
    state_dir: Path | None,
    pools: tuple[records.Pool, ...],
    max_volume_size: int,
    max_volumes_per_node: int,
    topology: dict[str, str] | None,
    served: tuple[tuple[str, dict[str, str]], ...],
    enable_attach: bool,
    way: str,
    rules: tuple[str, ...],
    log_level: str,
) -> None:
    """Run a CSI driver that stores volumes in folders and sparse files on this machine.

    Prints `ready` once it listens, and runs until Ctrl-C or SIGTERM. Volumes are kept in the state folder for the next
    start.
    """
    if len({pool.name for pool in pools}) < len(pools):
        raise click.BadParameter("a pool is given twice.", param_hint="--pool")
    if served and not pools:
        raise click.UsageError("--served-node needs a --pool: the nodes share one file system.")
    if len({node_id, *(name for name, _ in served)}) <= len(served):
        raise click.BadParameter("a node is given twice.", param_hint="--served-node")
    folder = state_dir or data_folder() / "csi-hostpath"
    try:
        socket = socket_path(endpoint or str(folder / ENDPOINT))
    except BadEndpoint as error:
        raise click.BadParameter(f"{error}.", param_hint="--endpoint") from error
    try:
        failures = [parse_rule(rule, calls=CALLS) for rule in rules]
    except BadRule as error:
        raise click.BadParameter(f"{error}.", param_hint="--inject-failure") from error
    injected = InjectedFailures(failures, chance=random.SystemRandom())
    interceptors: list[Interceptor] = [CallLog(clock=SystemClock()), injected]
    configure_logging(log_level)
    settings = records.HostpathSettings(
        name=drivername or records.DRIVER_NAME,
        version=__version__,
        max_volume_bytes=max_volume_size,
        max_volumes_per_node=max_volumes_per_node,
        attach=enable_attach,
    )
    own = records.one_node(node_id, pools=pools or (records.FILE_SYSTEM,), segments=topology or {})
    # This node first: it wins between segments of equal free capacity.
    layout = records.central({**own.nodes, **dict(served)}, pools=pools) if served else own
    try:
        if not endpoint:
            private_folder(socket.parent)
        run_event_loop(_serve(layout, settings, node_id, folder, socket, way, interceptors))
    except (EndpointInUse, StateUnusable) as error:
        raise click.ClickException(f"{error}.") from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or socket}: {error.strerror or error}.") from error


async def _serve(
    layout: records.DriverLayout,
    settings: records.HostpathSettings,
    node_id: str,
    folder: Path,
    socket: Path,
    way: str,
    interceptors: list[Interceptor],
) -> None:
    stop = stop_event()
    publisher = BindMounts() if way == "bind" or (way == "auto" and can_mount()) else Links()
    async with (
        open_volume_store(layout, settings, folder, publisher, chance=random.SystemRandom()) as volume_store,
        CsiServer(Hostpath(volume_store, node_id), socket, interceptors=interceptors),
    ):
        click.echo(f"Mooring {__version__}: driver {settings.name} for node {node_id} at unix://{socket}")
        means = "bind mounts" if isinstance(publisher, BindMounts) else "symbolic links"
        click.echo(f"  volumes in {folder / 'volumes'}, published by {means}")
        click.echo("ready")
        await stop.wait()
