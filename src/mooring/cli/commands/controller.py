"""`mooring controller`: the controllers as a process of their own, against any Kubernetes."""

from typing import Final, Unpack

import click

from mooring.cli.options import ProcessFlags, hold_namespace_option, process_options, settings_of, text_option
from mooring.cli.process import ComponentRuntime, run_component
from mooring.cli.terminal import InvalidInput
from mooring.cluster.control_plane import UnknownController, chosen
from mooring.control.component import Component, ComponentGroup

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
@hold_namespace_option
@process_options(port=CONTROLLER_PORT)
def controller(controllers: str, hold_namespace: str, **flags: Unpack[ProcessFlags]) -> None:
    """Run the volume and workload controllers against any Kubernetes cluster, until SIGTERM or Ctrl-C.

    Where kube-controller-manager runs, enable only controllers that are disabled there. `mooring docs workloads` lists
    the controllers; disabled by default are garbage-collector-controller, namespace-controller and standin-provisioner.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags or kubeconfig are wrong.
    """
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
    run_component(settings, build, log_level=flags["log_level"], greeting=greeting, parts=parts)
