"""`mooring provisioner`: makes volumes through a CSI driver, beside any Kubernetes, as external-provisioner does."""

import dataclasses
import errno
import math
import os
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring import __version__
from mooring.cli.event_loop import run
from mooring.cli.process_options import Misconfigured, settings_of
from mooring.cli.provisioner_flags import (
    ProvisionerFlags,
    capacity_settings,
    check,
    gates_of,
    log_level,
    notes,
    process_flags,
    provisioner_options,
    settings,
)
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.api.views.meta import OwnerReference
    from mooring.cli.component_process import ProcessSettings, Surroundings
    from mooring.control.component import Component
    from mooring.csi.contract import Driver
    from mooring.provisioner.settings import DriverFacts

#: In logs and user agents.
NAME: Final = "mooring-provisioner"
#: How often somebody who waits for a socket is told so. Seconds.
REMINDER: Final = 30.0
#: Between two looks for the socket.
GLANCE: Final = 0.2
#: Where a pod is told its namespace.
POD_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@click.command(short_help="Make volumes through a CSI driver, beside any Kubernetes.")
@provisioner_options
def provisioner(**flags: Unpack[ProvisionerFlags]) -> None:
    """Make and delete volumes through the CSI driver at --csi-address, and publish its capacity, until SIGTERM.

    Flags, events and objects are external-provisioner's, so that it can stand in a driver's deployment for it.

    Exit codes: 0 when told to stop; 1 when the driver, the API server or the port cannot be used, or the lease is
    lost; 2 when flags, environment or kubeconfig are wrong.
    """
    from mooring.cli.component_process import ProcessFailed
    from mooring.cli.logs import configure
    from mooring.csi.contract import DriverError
    from mooring.csi.endpoint import BadEndpoint, socket_path
    from mooring.provisioner.owner import NoOwner
    from mooring.server.http.listening import CannotListen

    check(flags, os.environ)
    try:
        path = socket_path(flags["csi_address"])
    except BadEndpoint as error:
        raise Misconfigured(f"--csi-address: {error}.") from error
    configure(log_level(flags))
    for note in notes(flags):
        click.echo(note, err=True)
    try:
        run(_run(path, flags))
    except DriverError as error:
        raise click.ClickException(f"The driver at {path} cannot be used: {error.message}.") from error
    except (ProcessFailed, CannotListen, NoOwner) as error:
        raise click.ClickException(str(error)) from error


async def _run(path: Path, flags: ProvisionerFlags) -> None:
    from mooring.cli.component_process import run_process
    from mooring.csi.call_log import CallLog
    from mooring.csi.channel import Channel
    from mooring.provisioner.lease_names import lease_name

    clock, rng = SystemClock(), random.SystemRandom()
    topology, gates = gates_of(flags["feature_gates"])
    namespace = _own_namespace()
    node = os.environ.get("NODE_NAME", "") if flags["node_deployment"] else ""
    await _socket(path, clock)
    async with Channel(path, deadline=flags["timeout"], interceptors=[CallLog(clock=clock)]) as driver:
        facts = await _known(driver, topology=topology, node=node, rng=rng)
        process = settings_of(
            process_flags(flags, lease=lease_name(facts.name), namespace=namespace, gates=gates), name=NAME
        )
        owner = await _owner(process, flags)

        def build(surroundings: "Surroundings") -> "Component":
            return _component(surroundings, driver, facts, flags, namespace=namespace, node=node, owner=owner, rng=rng)

        def announce(url: str) -> None:
            what = f"for node {node}" if node else "for all nodes"
            click.echo(f"Mooring {__version__} provisions with {facts.name} {what} at {process.access.server}")
            if url:
                click.echo(f"  health and metrics at {url}")

        await run_process(
            process,
            build,
            clock=clock,
            rng=rng,
            announce=announce,
            parts=[NAME],
            known_as=f"{NAME}-{lease_name(facts.name)}",
            announces=not node,
        )


def _component(
    surroundings: "Surroundings",
    driver: "Driver",
    facts: "DriverFacts",
    flags: ProvisionerFlags,
    *,
    namespace: str,
    node: str,
    owner: "OwnerReference | None",
    rng: random.Random,
) -> "Component":
    from mooring.control.leader_election import incarnation
    from mooring.provisioner.component import Provisioner

    # As upstream names the source of its events.
    source = f"{facts.name}_{incarnation(socket.gethostname(), rng)}"
    context = dataclasses.replace(surroundings.context(), recorder=surroundings.recorder(source))
    return Provisioner(
        context,
        driver,
        settings(flags, namespace=namespace, node=node),
        facts=facts,
        capacity=capacity_settings(flags, namespace=os.environ.get("NAMESPACE", namespace)),
        owner=owner,
        registry=surroundings.metrics.registry,
    )


async def _socket(path: Path, clock: SystemClock) -> None:
    """Until the driver listens: sidecars and drivers start in any order, and one that was killed leaves its socket."""
    told = -math.inf
    while lacking := _lacking(path):
        if clock.monotonic() - told >= REMINDER:
            click.echo(f"Waiting for the driver's socket {path}, {lacking}.", err=True)
            told = clock.monotonic()
        await clock.sleep(GLANCE)


def _lacking(path: Path) -> str:
    """What keeps the driver from being asked at all; "" where nothing does, or waiting would not help."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        number = probe.connect_ex(str(path))
    if number == errno.ENOENT:
        return "which is not there yet"
    # A file that is no socket refuses too, and will never do otherwise.
    return "where nobody listens yet" if number == errno.ECONNREFUSED and not path.is_file() else ""


async def _known(driver: "Driver", *, topology: bool, node: str, rng: random.Random) -> "DriverFacts":
    from mooring.csi.contract import PluginCapability
    from mooring.provisioner.introduction import introduce

    facts = await introduce(driver, clock=SystemClock(), rng=rng, node=node)
    if topology:
        return facts
    rest = facts.plugin_capabilities - {PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS}
    return dataclasses.replace(facts, plugin_capabilities=rest)


async def _owner(process: "ProcessSettings", flags: ProvisionerFlags) -> "OwnerReference | None":
    from mooring.cli.component_process import ProcessFailed
    from mooring.client.contract import Unreachable
    from mooring.client.http import HttpClient
    from mooring.provisioner.owner import owner_of

    level = flags["capacity_ownerref_level"]
    if not flags["enable_capacity"] or level < 0:
        return None
    client = HttpClient(process.access, component=NAME, clock=SystemClock())
    try:
        return await owner_of(client, pod=os.environ["POD_NAME"], namespace=os.environ["NAMESPACE"], level=level)
    except Unreachable as error:
        raise ProcessFailed(f"Cannot use the API server: {error}.") from error
    finally:
        await client.close()


def _own_namespace() -> str:
    """Where the pod runs, as upstream finds out; `default` outside of any."""
    told = os.environ.get("POD_NAMESPACE") or os.environ.get("NAMESPACE")
    if told:
        return told
    return POD_NAMESPACE_FILE.read_text().strip() if POD_NAMESPACE_FILE.exists() else "default"
