"""`mooring story`: what happened to a pod or a claim and to its volumes, in order, from what the cluster keeps and what
the scheduler remembers."""

from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring.cli import terminal
from mooring.cli.cluster_source import SourceFlags, UnusableSource, access_of, read, source_options
from mooring.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from mooring.api.kinds import Kind
    from mooring.api.views.meta import ApiObject
    from mooring.cli.cluster_source import ClusterDocuments
    from mooring.cli.scheduler_memory import Memory
    from mooring.explain.cluster_objects import ClusterObjects
    from mooring.explain.timeline import Happening, Story, Traces

#: In the server's logs.
NAME: Final = "mooring-story"
#: As `mooring explain` ends.


class NotThere(click.ClickException):
    """Nothing of that name is there, nor was anything told of it: one sentence."""

    exit_code = ExitCode.NOT_FOUND


@click.command(short_help="Tell what happened to a pod or a claim.")
@click.argument("what", metavar="pod/NAME | pvc/NAME")
@click.option("-n", "--namespace", default="", help="Where it is.  [default: the context's, or default]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to show it.",
)
@click.option(
    "--scheduler-url",
    default="",
    metavar="URL",
    help="Where mooring scheduler answers health and metrics, for what it remembers of its attempts.  "
    "[default: the API server's own address, where an embedded cluster has its scheduler]",
)
@source_options
def story(what: str, namespace: str, output: str, scheduler_url: str, **source: Unpack[SourceFlags]) -> None:
    """Tell what happened to a pod or a claim, its volumes, holds and rollbacks, in order of time.

    Put together from Events, conditions, dates, annotations and the last write of every writer. Clusters keep Events
    for an hour, so that old stories have gaps. Files need `kubectl get --show-managed-fields` to say who wrote what.
    The scheduler, where it is Mooring's and can be reached, adds its last attempts: why then, which nodes and why not,
    who came second, which volumes, how long binding took.

    Exit codes: 0; 2 when flags, files or kubeconfig are wrong; 3 when the cluster cannot be asked; 4 when there is
    nothing of that name, nor anything told of it.
    """
    import msgspec

    from mooring.explain.timeline import TOLD_OF, tried_for
    from mooring.explain.timeline import story as rebuilt

    kind, name = _subject(what)
    seen = read(source, TOLD_OF, component=NAME, namespace=namespace)
    for unseen in seen.unseen:
        click.echo(f"note: not all is seen: {unseen}", err=True)
    objects, traces = _read(seen)
    key = f"{namespace or seen.namespace}/{name}"
    memory = _memory(tried_for(kind, key, objects), scheduler_url, source)
    told = rebuilt(kind, key, objects, traces, memory.kept)
    if told is None:
        raise NotThere(f"There is no {kind.singular} {key}, and nothing was told of one.")
    if memory.missing:
        click.echo(f"note: {memory.missing}", err=True)
        told = msgspec.structs.replace(told, notes=(memory.missing,))
    _show(told, output)


def _subject(what: str) -> tuple["Kind[ApiObject]", str]:
    from mooring.api.kinds import CLAIM, POD

    words = {word: kind for kind in (POD, CLAIM) for word in (kind.singular, kind.plural, *kind.short)}
    word, slash, name = what.partition("/")
    kind = words.get(word.lower())
    if not slash or not name or "/" in name or kind is None:
        raise UnusableSource(f"{what!r} does not say whose story to tell: write pod/NAME or pvc/NAME.")
    return kind, name


def _memory(pods: tuple[str, ...], url: str, source: SourceFlags) -> "Memory":
    """What the scheduler remembers; of files nobody does, unless somebody says where."""
    from mooring.cli.scheduler_memory import NOTHING, at, beside

    if url:
        return at(url, pods, component=NAME)
    return NOTHING if source["files"] else beside(access_of(source), pods, component=NAME)


def _read(seen: "ClusterDocuments") -> tuple["ClusterObjects", "Traces"]:
    from mooring.explain.cluster_objects import ClusterObjects, MalformedObject
    from mooring.explain.timeline import Traces

    objects, traces = ClusterObjects(now=seen.looked_at), Traces()
    for origin, document in seen.documents:
        try:
            objects.add(document)
            traces.add(document)
        except MalformedObject as error:
            raise UnusableSource(f"{origin}: {error}.") from error
    return objects, traces


def _show(told: "Story", output: str) -> None:
    if output == "json":
        terminal.echo_json(told)
    elif output == "yaml":
        terminal.echo_yaml(told)
    else:
        terminal.styled(told.verdict, bold=True)
        if told.happenings:
            click.echo()
        width = max((len(each.about) for each in told.happenings), default=0)
        for each in told.happenings:
            click.echo(_line(each, width))
        if told.now:
            click.echo("\nnow:")
        for line in told.now:
            click.echo(f"  {line}")


def _line(each: "Happening", width: int) -> str:
    """Whole seconds: most of what is kept has no finer."""
    moment = f"{each.at[:19].replace('T', ' ')}"
    again = f" (x{each.times}{f' until {each.until[11:19]}' if each.until else ''})" if each.times > 1 else ""
    who = f"{each.who}: " if each.who else ""
    return f"{moment}  {each.about.ljust(width)}  {who}{each.text}{again}"
