"""`mooring import`: converts manifests of the design drafts to today's API, and prints or applies them."""

import sys
from collections.abc import Iterable
from typing import Any

import click

from mooring.api.errors import AlreadyExists, ApiError
from mooring.api.kinds import BY_KIND, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.cli import terminal
from mooring.cli.options import access_of, kubeconfig_options, output_option
from mooring.cli.runtime import run_event_loop
from mooring.cli.sources import contents, parsed
from mooring.cli.terminal import InvalidInput
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.drafts import DraftChange, DraftResult, joined, modernize, repaired_text

Placed = tuple[Kind[ApiObject], dict[str, Any]]


@click.command("import")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifest file, folder of manifests, or - for standard input; repeatable.",
)
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="Namespace of CSIStorageCapacity objects, which had none in drafts, and with --apply of all others without.",
)
@output_option(
    "yaml", "json", note=": yaml prints manifests, and the changes on standard error; json prints one report"
)
@click.option(
    "--apply", "apply_them", is_flag=True, help="Apply the objects to the cluster instead of printing manifests."
)
@kubeconfig_options
def import_drafts(
    files: tuple[str, ...], namespace: str, output: str, apply_them: bool, kubeconfig: str, context: str
) -> None:
    """Convert manifests of the volume topology and storage capacity drafts to today's API.

    Repairs only the known defects of the drafts: metadata.Name, volumes without accessModes,
    bindingMode, diskName of GCE disks, "containers: ...", missing --- between documents, and CSIStorageCapacity in its
    first form. Everything else stays unchanged.

    Exit codes: 0; 1 when the cluster rejects an object or is unreachable; 2 when an input cannot be read or converted,
    and then nothing is printed or applied.
    """
    outcome = _read(files, namespace)
    if output == "json":
        changes, refused = ([each._asdict() for each in some] for some in (outcome.changes, outcome.refusals))
        terminal.echo_json({"objects": outcome.objects, "changes": changes, "refused": refused})
    for refusal in outcome.refusals:
        click.echo(f"{refusal.object}: refused: {refusal.why}", err=True)
    if outcome.refusals:
        raise InvalidInput(
            f"{len(outcome.refusals)} of the objects cannot be converted; nothing was printed or applied."
        )
    if output == "yaml":
        for change in outcome.changes:
            click.echo(f"{change.object}: {change.change}", err=True)
    if apply_them:
        # With json, standard output contains only the report.
        _apply(outcome.objects, namespace, access_of(kubeconfig, context), quiet=output == "json")
    elif output == "yaml":
        import yaml

        yaml.dump_all(outcome.objects, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True)


def _read(files: tuple[str, ...], namespace: str) -> DraftResult:
    outcomes: list[DraftResult] = []
    try:
        for name, raw in contents(files):
            if raw.lstrip()[:1] != b"{":
                text, done = repaired_text(raw.decode())
                raw = text.encode()
                outcomes.append(DraftResult(changes=tuple(DraftChange(name, change) for change in done)))
            outcomes += [modernize(document, namespace=namespace) for _, document in parsed(name, raw)]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: not text in UTF-8: {error.reason} at byte {error.start}.") from error
    outcome = joined(outcomes)
    if not outcome.objects and not outcome.refusals:
        raise InvalidInput("The input contains no objects.")
    return outcome


def _apply(objects: Iterable[dict[str, Any]], namespace: str, access: Access, *, quiet: bool) -> None:
    placed: list[Placed] = []
    for obj in objects:
        version, name = str(obj.get("apiVersion")), str(obj.get("kind"))
        if (kind := BY_KIND.get((version, name))) is None:
            raise InvalidInput(f"{version} {name} is not supported by --apply: use kubectl apply.")
        placed.append((kind, obj))
    try:
        run_event_loop(_write(placed, namespace, access, quiet=quiet))
    except ApiError as error:
        raise click.ClickException(error.message) from error
    except Unreachable as error:
        raise click.ClickException(str(error)) from error


async def _write(placed: Iterable[Placed], namespace: str, access: Access, *, quiet: bool) -> None:
    """Create each object, or patch the existing one."""
    client = HttpClient(access, component="mooring-import", clock=SystemClock())
    try:
        for kind, obj in placed:
            meta = obj.get("metadata") or {}
            where = (meta.get("namespace") or namespace) if kind.namespaced else ""
            try:
                await client.create(kind, obj, namespace=where)
                done = "created"
            except AlreadyExists:
                await client.patch(kind, meta["name"], MergePatch(obj), namespace=where)
                done = "configured"
            click.echo(f"{kind.singular}/{meta.get('name')} {done}", err=quiet)
    finally:
        await client.close()
