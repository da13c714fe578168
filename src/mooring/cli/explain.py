"""`mooring explain`: where a pod would go and why, or why nowhere, from files of objects and without a cluster."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NoReturn

import click

if TYPE_CHECKING:
    from mooring.api.views.pod import Pod
    from mooring.explain.cluster_objects import ClusterObjects
    from mooring.explain.verdicts import PodVerdict

#: The pod would fit somewhere; it would not; or nothing can be said.
FITS, FITS_NOWHERE, UNUSABLE = 0, 1, 2

#: How kubectl lets people write the kind.
POD_KINDS: Final = ("pod", "pods", "po")
#: How many pods of the input are listed when the wanted one is not there.
LISTED: Final = 10


class Unusable(click.ClickException):
    """The input or the question makes no sense: one sentence."""

    exit_code = UNUSABLE


@click.command(short_help="Say where a pod would go and why.")
@click.argument("what", metavar="pod/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's namespace.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Objects as kubectl get -o yaml or -o json prints them; a folder of such files; - for standard input. "
    "May be given several times.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(what: str, namespace: str, files: tuple[str, ...], output: str) -> None:
    """Say where a pod would go and why, or why it would go nowhere, from files alone.

    Every node is looked at by every plugin of the scheduler. Give it at least the pod, the nodes, the pods on them,
    and the claims, volumes and storage classes.

    Exit codes: 0 when the pod would fit somewhere, or is somewhere where its volumes can be used; 1 when not; 2 when
    the question or the files are wrong.
    """
    from mooring.explain.pod import explain_pod

    name = _pod_name(what)
    objects = _read(files)
    verdict, problems = explain_pod(_pod(objects, f"{namespace}/{name}"), objects)
    _note(objects, problems)
    if output == "json":
        _print_json(verdict)
    else:
        _print_text(verdict)
    click.get_current_context().exit(FITS if verdict.ok else FITS_NOWHERE)


def _pod_name(what: str) -> str:
    kind, slash, name = what.partition("/")
    if not slash or not name or "/" in name:
        raise Unusable(f"{what!r} does not say what to explain: write pod/NAME.")
    if kind.lower() not in POD_KINDS:
        raise Unusable(f"Only pods can be explained so far, and {kind!r} is none: write pod/NAME.")
    return name


def _read(files: Iterable[str]) -> "ClusterObjects":
    from mooring.cli.dumps import UnreadableDump, documents
    from mooring.explain.cluster_objects import ClusterObjects, MalformedObject

    objects = ClusterObjects()
    try:
        for origin, document in documents(tuple(files)):
            try:
                objects.add(document)
            except MalformedObject as error:
                raise Unusable(f"{origin}: {error}.") from error
    except UnreadableDump as error:
        raise Unusable(f"{error}.") from error
    return objects


def _pod(objects: "ClusterObjects", key: str) -> "Pod":
    from mooring.api.kinds import POD

    pod = objects.get(POD, key)
    if pod is None:
        _refuse_missing(key, sorted(one.key for one in objects.of(POD)))
    return pod


def _refuse_missing(key: str, there: list[str]) -> NoReturn:
    if not there:
        raise Unusable(f"There is no pod {key} in the input, nor any other.")
    more = f" and {len(there) - LISTED} more" if len(there) > LISTED else ""
    raise Unusable(f"There is no pod {key} in the input; it has {', '.join(there[:LISTED])}{more}.")


def _note(objects: "ClusterObjects", problems: Iterable[str]) -> None:
    if objects.skipped:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(objects.skipped.items()))
        click.echo(f"note: left out what no decision looks at: {counted}", err=True)
    for problem in problems:
        click.echo(f"note: {problem}", err=True)


def _print_json(verdict: "PodVerdict") -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(verdict)))


def _print_text(verdict: "PodVerdict") -> None:
    from mooring.explain.words import paragraphs

    # click takes colours out again where nobody could see them.
    click.echo(click.style(verdict.verdict, fg="green" if verdict.ok else "red", bold=True))
    for paragraph in paragraphs(verdict):
        click.echo(f"\n{paragraph}")
