"""`mooring provisioner`: provisions volumes through a CSI driver, as external-provisioner does."""

import dataclasses
import errno
import math
import os
import random
import socket
from pathlib import Path
from typing import Final, Unpack

import click

from mooring.api.views.meta import OwnerReference
from mooring.cli import provisioner_flags
from mooring.cli.options import settings_of
from mooring.cli.process import ComponentRuntime, ProcessFailed, ProcessSettings, run_process
from mooring.cli.provisioner_flags import ProvisionerFlags
from mooring.cli.runtime import configure_logging, run_event_loop
from mooring.cli.terminal import InvalidInput
from mooring.client.contract import Unreachable
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.control.component import Component
from mooring.control.leader_election import new_identity
from mooring.csi.client import CsiClient
from mooring.csi.contract import DriverError, PluginCapability
from mooring.csi.interceptors import CallLog
from mooring.csi.requests import BadEndpoint, socket_path
from mooring.provisioner.capacity.segments import OwnerNotFound, owner_of
from mooring.provisioner.component import Provisioner, needs_node_info, probe_driver
from mooring.provisioner.settings import lease_name

#: In logs and user agents.
NAME: Final = "mooring-provisioner"
#: Between two messages while waiting for the socket.
REMINDER_SECONDS: Final = 30.0
POLL_INTERVAL_SECONDS: Final = 0.2
#: The namespace of the pod that this process runs in.
POD_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@click.command()
@provisioner_flags.provisioner_options
def provisioner(**flags: Unpack[ProvisionerFlags]) -> None:
    """Provision and delete volumes through the CSI driver at --csi-address, and publish its capacity, until SIGTERM.

    Flags, events and objects are external-provisioner's, so that it can replace external-provisioner in a deployment.

    Exit codes: 0 when told to stop; 1 when the driver, the API server or the port cannot be used, or the lease is
    lost; 2 when flags, environment or kubeconfig are wrong.
    """
    provisioner_flags.check(flags, os.environ)
    try:
        path = socket_path(flags["csi_address"])
    except BadEndpoint as error:
        raise InvalidInput(f"--csi-address: {error}.") from error
    configure_logging(provisioner_flags.log_level(flags))
    for note in provisioner_flags.notes(flags):
        click.echo(note, err=True)
    try:
        run_event_loop(_run(path, flags))
    except DriverError as error:
        raise click.ClickException(f"The driver at {path} cannot be used: {error.message}.") from error
    except OwnerNotFound as error:
        raise click.ClickException(str(error)) from error


async def _run(path: Path, flags: ProvisionerFlags) -> None:
    clock, rng = SystemClock(), random.SystemRandom()
    topology, gates = provisioner_flags.gates_of(flags["feature_gates"])
    namespace = _own_namespace()
    node = os.environ.get("NODE_NAME", "") if flags["node_deployment"] else ""
    await _wait_for_socket(path, clock)
    async with CsiClient(path, deadline=flags["timeout"], interceptors=[CallLog(clock=clock)]) as driver:
        published_in = os.environ.get("NAMESPACE", namespace)
        capacity = provisioner_flags.capacity_settings(flags, namespace=published_in)
        facts = await probe_driver(driver, clock=clock, rng=rng, node=node, node_info=needs_node_info(capacity))
        if not topology:
            rest = facts.plugin_capabilities - {PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS}
            facts = dataclasses.replace(facts, plugin_capabilities=rest)
        lease = lease_name(facts.name)
        shared = provisioner_flags.process_flags(flags, lease=lease, namespace=namespace, gates=gates)
        process = settings_of(shared, name=NAME)
        owner = await _owner(process, flags)

        settings = provisioner_flags.settings(flags, namespace=namespace, node=node)

        def build(runtime: ComponentRuntime) -> Component:
            # As upstream names the source of its events.
            source = f"{facts.name}_{new_identity(socket.gethostname(), rng)}"
            context = dataclasses.replace(runtime.context(), recorder=runtime.recorder(source))
            registry = runtime.metrics.registry
            return Provisioner(
                context, driver, settings, facts=facts, capacity=capacity, owner=owner, registry=registry
            )

        served = f"for node {node}" if node else "for all nodes"
        greeting, known_as = f"provisions with {facts.name} {served} at {process.access.server}", f"{NAME}-{lease}"
        await run_process(process, build, greeting=greeting, parts=[NAME], known_as=known_as, announces=not node)


async def _wait_for_socket(path: Path, clock: SystemClock) -> None:
    """Wait until the driver listens: it may start later, and a killed driver leaves its socket."""
    reminded = -math.inf
    while missing := _missing_socket(path):
        if clock.monotonic() - reminded >= REMINDER_SECONDS:
            click.echo(f"Waiting for the driver's socket {path}, {missing}.", err=True)
            reminded = clock.monotonic()
        await clock.sleep(POLL_INTERVAL_SECONDS)


def _missing_socket(path: Path) -> str:
    """Why the driver cannot be called yet; "" if it can, or if waiting would not help."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        number = probe.connect_ex(str(path))
    if number == errno.ENOENT:
        return "which is not there yet"
    # A regular file refuses too, and always will.
    return "on which no process listens yet" if number == errno.ECONNREFUSED and not path.is_file() else ""


async def _owner(process: ProcessSettings, flags: ProvisionerFlags) -> OwnerReference | None:
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
    """As upstream: from the environment, else of the pod's service account, else `default`."""
    given = os.environ.get("POD_NAMESPACE") or os.environ.get("NAMESPACE")
    if given:
        return given
    return POD_NAMESPACE_FILE.read_text().strip() if POD_NAMESPACE_FILE.exists() else "default"
