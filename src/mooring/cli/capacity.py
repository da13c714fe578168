"""`mooring capacity`: what room drivers report, where, for which class, what is on its way, and how old that is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from mooring.cli import terminal
from mooring.cli.cluster_source import ClusterUnavailable
from mooring.cli.event_loop import run
from mooring.cli.process_options import Misconfigured
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cli.capacity_report import Listed, Row
    from mooring.client.access import Access

#: In the server's logs.
NAME: Final = "mooring-capacity"


@click.command(short_help="Show what room drivers report.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="How to reach the cluster.  [default: KUBECONFIG, ~/.kube/config, the pod's own account]",
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use.")
@click.option("-n", "--namespace", default="", help="Only objects in this namespace.  [default: all]")
@click.option("--driver", default="", help="Only of this driver.")
@click.option("--storage-class", default="", help="Only for this class.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to show it.",
)
def capacity(kubeconfig: str, context: str, namespace: str, driver: str, storage_class: str, output: str) -> None:
    """Show the CSIStorageCapacity objects of any Kubernetes, one line per segment and class.

    IN FLIGHT is what claims will take whose node is chosen and whose volume is not there yet. LAST CHANGED is when
    the driver gave the figure, LAST POLLED when its publisher last asked about everything; a stock external-provisioner
    does not say the latter.

    Exit codes: 0; 2 when flags or kubeconfig are wrong; 3 when the cluster cannot be asked.
    """
    from mooring.api.errors import ApiError
    from mooring.cli.capacity_report import rows
    from mooring.client.contract import Unreachable
    from mooring.client.kubeconfig import Choice, KubeconfigError, load

    try:
        access = load(kubeconfig, choice=Choice(context=context))
    except KubeconfigError as error:
        raise Misconfigured(str(error)) from error
    try:
        listed = run(_list(access, namespace))
    except Unreachable as error:
        raise ClusterUnavailable(f"Cannot use the API server: {error}.") from error
    except ApiError as error:
        raise ClusterUnavailable(f"The API server refuses us: {error.message}.") from error
    shown = [
        row
        for row in rows(listed)
        if (not driver or row.driver == driver) and (not storage_class or row.storage_class == storage_class)
    ]
    _show(shown, output)


async def _list(access: "Access", namespace: str) -> "Listed":
    from dataclasses import replace
    from typing import cast

    from mooring.api.kinds import CLAIM, LEASE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
    from mooring.cli.capacity_report import MANAGED_BY_LABEL, DatedCapacity, Listed
    from mooring.client.http import HttpClient

    dated = cast("Kind[DatedCapacity]", replace(STORAGE_CAPACITY, view=DatedCapacity))
    client = HttpClient(access, component=NAME, clock=SystemClock())
    try:
        capacities = await client.list(dated, namespace=namespace)
        return Listed(
            capacities.items,
            (await client.list(STORAGE_CLASS)).items,
            (await client.list(NODE)).items,
            (await client.list(CLAIM)).items,
            (await client.list(VOLUME)).items,
            (await client.list(LEASE, namespace=namespace, labels=MANAGED_BY_LABEL)).items,
        )
    finally:
        await client.close()


def _show(shown: Sequence["Row"], output: str) -> None:
    from mooring.cli.capacity_report import table

    if output == "json":
        terminal.echo_json(shown)
    elif output == "yaml":
        terminal.echo_yaml(shown)
    elif not shown:
        click.echo("No driver reports its capacity here: there are no such CSIStorageCapacity objects.", err=True)
    else:
        lines = table(shown, now=SystemClock().now(), wide=output == "wide")
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        for line in lines:
            click.echo("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
