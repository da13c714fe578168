"""`mooring import`: manifests of the design drafts, made fit for today's API, as YAML or straight into a cluster."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from mooring.cli import terminal
from mooring.cli.event_loop import run
from mooring.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from mooring.api.kinds import Kind
    from mooring.api.views.meta import ApiObject
    from mooring.client.access import Access
    from mooring.drafts.contract import Outcome

    Placed = tuple[Kind[ApiObject], dict[str, Any]]

#: The input cannot be read, or holds something that has no counterpart today.


class Unusable(click.ClickException):
    """Nothing was printed and nothing applied: one sentence why."""

    exit_code = ExitCode.USAGE


@click.command("import", short_help="Make manifests of the design drafts fit for today's API.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifests; a folder of such files; - for standard input. May be given several times.",
)
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="Where capacity objects go, which had no namespace in the drafts, and with --apply all others that name none.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="yaml prints the manifests, and what was changed on standard error; json prints both as one report.",
)
@click.option(
    "--apply", "apply_them", is_flag=True, help="Write the objects into the cluster instead of printing them."
)
@click.option("--kubeconfig", default="", metavar="FILE", help="Kubeconfig of the cluster, for --apply.")
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig, for --apply.")
def import_drafts(
    files: tuple[str, ...], namespace: str, output: str, apply_them: bool, kubeconfig: str, context: str
) -> None:
    """Make manifests of the volume topology and storage capacity drafts fit for today's API.

    Repairs the defects that the drafts are known to have, and those alone: metadata.Name, volumes without accessModes,
    bindingMode, diskName of GCE disks, "containers: ...", missing --- between documents, and CSIStorageCapacity in its
    first form. Everything else stays as it is.

    Exit codes: 0 when all is well; 2 when something cannot be read or taken over, and then nothing is printed or
    applied.
    """
    outcome = _read(files, namespace)
    if output == "json":
        _print_report(outcome)
    for refusal in outcome.refusals:
        click.echo(f"{refusal.object}: refused: {refusal.why}", err=True)
    if outcome.refusals:
        raise Unusable(f"{len(outcome.refusals)} of the objects cannot be taken over; nothing was done.")
    if output == "yaml":
        for change in outcome.changes:
            click.echo(f"{change.object}: {change.change}", err=True)
    if apply_them:
        # A report stays the only thing on standard output.
        _apply(outcome.objects, namespace, _access(kubeconfig, context), quiet=output == "json")
    elif output == "yaml":
        _print_yaml(outcome.objects)


def _read(files: tuple[str, ...], namespace: str) -> "Outcome":
    from mooring.cli.dumps import UnreadableDump, contents, parsed
    from mooring.drafts.contract import Change, Outcome
    from mooring.drafts.manifests import joined, modernize
    from mooring.drafts.text import repaired

    outcomes: list[Outcome] = []
    try:
        for name, raw in contents(files):
            if raw.lstrip()[:1] != b"{":
                text, done = repaired(raw.decode())
                raw = text.encode()
                outcomes.append(Outcome(changes=tuple(Change(name, change) for change in done)))
            outcomes += [modernize(document, namespace=namespace) for _, document in parsed(name, raw)]
    except UnreadableDump as error:
        raise Unusable(str(error)) from error
    except UnicodeDecodeError as error:
        raise Unusable(f"{name}: not text in UTF-8: {error.reason} at byte {error.start}") from error
    outcome = joined(outcomes)
    if not outcome.objects and not outcome.refusals:
        raise Unusable("There are no objects in what was given.")
    return outcome


def _print_yaml(objects: Iterable[dict[str, Any]]) -> None:
    import yaml

    yaml.dump_all(objects, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True)


def _print_report(outcome: "Outcome") -> None:
    report = {
        "objects": outcome.objects,
        "changes": [change._asdict() for change in outcome.changes],
        "refused": [refusal._asdict() for refusal in outcome.refusals],
    }
    terminal.echo_json(report)


def _access(kubeconfig: str, context: str) -> "Access":
    from mooring.client.kubeconfig import Choice, KubeconfigError, load

    try:
        return load(kubeconfig, choice=Choice(context=context))
    except KubeconfigError as error:
        raise Unusable(str(error)) from error


def _apply(objects: Iterable[dict[str, Any]], namespace: str, access: "Access", *, quiet: bool) -> None:
    from mooring.api.errors import ApiError
    from mooring.client.contract import Unreachable

    placed = [_placed(obj) for obj in objects]
    try:
        run(_write(placed, namespace, access, quiet=quiet))
    except ApiError as error:
        raise click.ClickException(error.message) from error
    except Unreachable as error:
        raise click.ClickException(str(error)) from error


def _placed(obj: dict[str, Any]) -> "Placed":
    from mooring.api.kinds import BY_KIND

    wanted = obj.get("apiVersion"), obj.get("kind")
    kind = BY_KIND.get((str(wanted[0]), str(wanted[1])))
    if kind is None:
        raise Unusable(f"{wanted[0]} {wanted[1]} is a kind that --apply does not know: use kubectl apply.")
    return kind, obj


async def _write(placed: "Iterable[Placed]", namespace: str, access: "Access", *, quiet: bool) -> None:
    """Create each object, or bring what is there into line with it, as far as the server allows."""
    from mooring.api.errors import AlreadyExists
    from mooring.api.patches.contract import MergePatch
    from mooring.client.http import HttpClient
    from mooring.clock import SystemClock

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
