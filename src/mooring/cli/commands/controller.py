"""`mooring controller`: the controllers as a process of their own, against any Kubernetes."""

from typing import Final, Unpack

import click

from mooring.cli.options import ProcessFlags, hold_namespace_option, process_options, settings_of, text_option
from mooring.cli.process import ComponentRuntime, ProcessFailed, ProcessSettings, run_component
from mooring.cli.runtime import api_errors_as, run_event_loop
from mooring.cli.terminal import InvalidInput
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.control_plane import UnknownController, chosen
from mooring.control.component import Component, ComponentGroup
from mooring.pvcontroller import zonal_upgrade as undo

#: In logs, user agents and the Lease. Differs from kube-controller-manager's, whose Lease it must not wait for.
CONTROLLER_NAME: Final = "mooring-controller"
#: kube-controller-manager's former port for plain HTTP.
CONTROLLER_PORT: Final = 10252


@click.command()
@text_option(
    "--controllers",
    "LIST",
    "Controllers to run, separated by commas: '*' for all enabled by default, 'name' adds, '-name' removes one.",
    default="*",
)
@click.option(
    "--undo-zonal-upgrade",
    is_flag=True,
    help="Remove the node affinity that zone labels of volumes imply, then exit; no controller runs. The labels stay "
    "in force, and zonal-upgrade-controller leaves those volumes alone.",
)
@hold_namespace_option
@process_options(port=CONTROLLER_PORT)
def controller(controllers: str, undo_zonal_upgrade: bool, hold_namespace: str, **flags: Unpack[ProcessFlags]) -> None:
    """Run the volume and workload controllers against any Kubernetes cluster, until SIGTERM or Ctrl-C.

    Where kube-controller-manager runs, enable only controllers that are disabled there. `mooring docs workloads` lists
    the controllers; disabled by default are garbage-collector-controller, namespace-controller, preset-node-controller,
    lost-storage-controller, unused-claim-controller and standin-provisioner.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags or kubeconfig are wrong. With --undo-zonal-upgrade: 0 when no such affinity is left; 1 when the API server
    rejects its removal.
    """
    if undo_zonal_upgrade:
        run_event_loop(_undo_zonal_upgrade(settings_of(flags, name=CONTROLLER_NAME)))
        return
    try:
        named = [name.strip() for name in controllers.split(",") if name.strip()]
        selected = chosen(named, hold_namespace=hold_namespace)
    except UnknownController as error:
        raise InvalidInput(f"--controllers: {error}.") from error
    if not selected:
        raise InvalidInput("--controllers: no controller is selected.")
    settings = settings_of(flags, name=CONTROLLER_NAME)

    def build(runtime: ComponentRuntime) -> Component:
        return ComponentGroup(CONTROLLER_NAME, [one.build(runtime.context(one.source)) for one in selected])

    greeting = f"controls {settings.access.server}: {', '.join(one.name for one in selected)}"
    parts = [one.source for one in selected]
    # Processes with other controllers have another Lease, and announce themselves beside it.
    known_as = settings.election.name if settings.election is not None else ""
    run_component(settings, build, log_level=flags["log_level"], greeting=greeting, parts=parts, known_as=known_as)


async def _undo_zonal_upgrade(settings: ProcessSettings) -> None:
    client = HttpClient(settings.access, component=CONTROLLER_NAME, clock=SystemClock())
    removed, kept = 0, 0
    try:
        with api_errors_as(ProcessFailed):
            async for result in undo.undo_zonal_upgrade(client):
                removed, kept = removed + (not result.kept), kept + bool(result.kept)
                click.echo(f"{result.volume}: {result.kept or 'node affinity removed'}")
    finally:
        await client.close()
    click.echo(f"{removed} volumes changed, {kept} unchanged")
    if kept:
        raise ProcessFailed(
            "The API server does not allow the removal. Enable its feature gate MutablePVNodeAffinity for it; until "
            "then the affinity of these volumes agrees with their labels."
        )
