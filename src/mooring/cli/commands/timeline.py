"""`mooring timeline`: history of a pod, claim or PodGroup, from the cluster and the scheduler's recent attempts.

The scheduler's `/debug/attempts` may be unavailable, as with other schedulers: that is a note, not an error.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Unpack

import click
import msgspec

from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM, POD, POD_GROUP, Kind
from mooring.api.views.meta import ApiObject
from mooring.cli import terminal
from mooring.cli.completion import complete_objects
from mooring.cli.options import namespace_option, output_option, text_option
from mooring.cli.runtime import run_event_loop
from mooring.cli.sources import SourceFlags, cluster_objects, note_unseen, read, source_access, source_options
from mooring.cli.terminal import InvalidInput, ObjectNotFound
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.transport import Request, Transport
from mooring.clock import SystemClock
from mooring.explain.timeline import (
    TIMELINE_KINDS,
    FieldWriters,
    ObjectTimeline,
    TimelineEntry,
    object_timeline,
    pods_to_ask,
)
from mooring.scheduler.attempt_log import PATH, Attempts

#: User agent in the server's logs.
NAME: Final = "mooring-story"
#: Of requests to the scheduler: a timeline without its attempts is better than a long wait.
TIMEOUT_SECONDS: Final = 5.0

_MISSING: Final = "scheduling attempts are not shown"


class AttemptHistory(NamedTuple):
    """Recent scheduling attempts of some pods; `missing` says why they are unknown."""

    kept: tuple[Attempts, ...] = ()
    missing: str = ""


def attempts_beside(access: Access, pods: Sequence[str]) -> AttemptHistory:
    """From a scheduler in the API server's process, as with `mooring up`."""
    absent = "the API server's process has no scheduler; set --scheduler-url to the URL of mooring scheduler"
    return _attempts(access, pods, absent=absent)


def _attempts(access: Access, pods: Sequence[str], *, absent: str, unreachable: str = "") -> AttemptHistory:
    """`absent` is the reason for a 404, `unreachable` for no response at all, by default the error's text."""
    try:
        return AttemptHistory(run_event_loop(_ask(access, pods)))
    except Unreachable as error:
        reason = unreachable or str(error)
    except ApiError as error:
        # Component ports answer without a Status: the code tells what happened.
        reason = absent if error.code == NotFound.code else error.message
    except msgspec.DecodeError as error:
        reason = f"the answer cannot be read: {error}"
    return AttemptHistory(missing=f"{_MISSING}: {reason}")


async def _ask(access: Access, pods: Sequence[str]) -> tuple[Attempts, ...]:
    transport = Transport(access, component=NAME, clock=SystemClock(), timeout=TIMEOUT_SECONDS, in_flight=1)
    try:
        answers = [await transport.call(Request("GET", PATH, {"pod": pod})) for pod in pods]
    finally:
        await transport.close()
    return tuple(msgspec.json.decode(answer, type=Attempts) for answer in answers)


@click.command()
@click.argument(
    "what",
    metavar="pod/NAME | pvc/NAME | podgroup/NAME",
    shell_complete=complete_objects({"pod": POD, "pvc": CLAIM, "podgroup": POD_GROUP}),
)
@namespace_option("Namespace of the object.  [default: the context's, or default]")
@output_option("text", "json", "yaml")
@text_option(
    "--scheduler-url",
    "URL",
    "URL of mooring scheduler's health and metrics endpoint, for its recent scheduling attempts.  "
    "[default: the API server's own address, where an embedded cluster has its scheduler]",
)
@source_options
def timeline(what: str, namespace: str, output: str, scheduler_url: str, **source: Unpack[SourceFlags]) -> None:
    """Show what happened to a pod, a claim or a PodGroup, its volumes, holds and rollbacks, in order of time.

    Sources are Events, conditions, timestamps, annotations and managed fields. Clusters keep Events for an hour, so
    older timelines have gaps. Files need `kubectl get --show-managed-fields` for the writers of fields. Mooring's
    scheduler, if reachable, adds its last attempts: trigger, rejected nodes with reasons, runner-up, volumes, duration
    of binding.

    Exit codes: 0; 2 when flags, files or kubeconfig are wrong; 3 when the cluster cannot be read; 4 when there is
    neither an object nor an Event of that name.
    """
    kind, name = _subject(what)
    seen = read(source, TIMELINE_KINDS, component=NAME, namespace=namespace)
    note_unseen(seen)
    writers = FieldWriters()
    objects = cluster_objects(seen, writers.add)
    key = f"{namespace or seen.namespace}/{name}"
    attempts = _scheduling_attempts(pods_to_ask(kind, key, objects), scheduler_url, source)
    shown = object_timeline(kind, key, objects, writers, attempts.kept)
    if shown is None:
        raise ObjectNotFound(f"There is no {kind.singular} {key}, and no Event names one.")
    if attempts.missing:
        click.echo(f"note: {attempts.missing}", err=True)
        shown = msgspec.structs.replace(shown, notes=(attempts.missing,))
    if not terminal.echo_document(shown, output):
        _show(shown)


def _subject(what: str) -> tuple[Kind[ApiObject], str]:
    words = {word: kind for kind in (POD, CLAIM, POD_GROUP) for word in (kind.singular, kind.plural, *kind.short)}
    word, slash, name = what.partition("/")
    kind = words.get(word.lower())
    if not slash or not name or "/" in name or kind is None:
        raise InvalidInput(f"{what!r} is not an object with a timeline: write pod/NAME, pvc/NAME or podgroup/NAME.")
    return kind, name


def _scheduling_attempts(pods: tuple[str, ...], url: str, source: SourceFlags) -> AttemptHistory:
    """From the scheduler whose health and metrics endpoint is at this URL; without one, not for objects from files.
    Raises InvalidInput."""
    if not url:
        return AttemptHistory() if source["files"] else attempts_beside(source_access(source), pods)
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"--scheduler-url {url!r} is not a URL: write it like http://127.0.0.1:10251.")
    absent, unreachable = f"{PATH} not found at {url}", f"no scheduler answers at {url}"
    return _attempts(Access(url.rstrip("/")), pods, absent=absent, unreachable=unreachable)


def _show(shown: ObjectTimeline) -> None:
    terminal.styled(shown.verdict, bold=True)
    if shown.entries:
        click.echo()
    width = max((len(each.about) for each in shown.entries), default=0)
    for each in shown.entries:
        click.echo(_line(each, width))
    if shown.now:
        click.echo("\nnow:")
    for line in shown.now:
        click.echo(f"  {line}")


def _line(each: TimelineEntry, width: int) -> str:
    """Whole seconds: most of what is kept has no finer."""
    moment = each.at[:19].replace("T", " ")
    again = f" (x{each.times}{f' until {each.until[11:19]}' if each.until else ''})" if each.times > 1 else ""
    component = f"{each.component}: " if each.component else ""
    return f"{moment}  {each.about.ljust(width)}  {component}{each.text}{again}"
