"""`mooring explain`: why an object is in its state, with remedies, from a cluster or files."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Final, NamedTuple, TypeVar, Unpack

import click
import msgspec

from mooring.api.kinds import CLAIM, NODE, POD, POD_GROUP, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.cli import terminal
from mooring.cli.completion import complete_objects
from mooring.cli.options import namespace_option, output_option, text_option
from mooring.cli.sources import ClusterDocuments, SourceFlags, cluster_objects, read, source_options
from mooring.cli.terminal import ExitCode, InvalidInput, ObjectNotFound
from mooring.explain import results, text
from mooring.explain.cluster_objects import EXPLAINED_KINDS
from mooring.explain.cluster_view import ClusterView
from mooring.explain.group import explain_group
from mooring.explain.messages import PAGE, find
from mooring.explain.node import explain_node
from mooring.explain.pod import Line, explain_claim, explain_in, overview
from mooring.explain.volume import explain_volume
from mooring.explain.workload import EXPLAINED_WORKLOADS, JOB, WORKLOAD_KINDS, explain_workload, workload_keys

V = TypeVar("V", bound=ApiObject)
R = TypeVar(
    "R",
    results.PodVerdict,
    results.ClaimReport,
    results.NodeReport,
    results.VolumeReport,
    results.GroupReport,
    results.WorkloadReport,
)

#: Names of kinds, as kubectl accepts them.
KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("pvc", "persistentvolumeclaim", "persistentvolumeclaims", "claim"), "PersistentVolumeClaim"),
    **dict.fromkeys(("node", "nodes", "no"), "Node"),
    **dict.fromkeys(("pg", "podgroup", "podgroups"), "PodGroup"),
    **dict.fromkeys(("pv", "persistentvolume", "persistentvolumes", "volume"), "PersistentVolume"),
    **{word: kind.kind for kind in WORKLOAD_KINDS for word in (kind.singular, kind.plural, *kind.short)},
    **dict.fromkeys(("job", "jobs"), JOB),
}
#: How messages name their objects.
NOUNS: Final = {
    "Pod": "pod",
    "PersistentVolumeClaim": "claim",
    "PersistentVolume": "volume",
    "Node": "node",
    "PodGroup": "PodGroup",
}
#: Shell completions of the argument.
COMPLETED: Final[Mapping[str, Kind[ApiObject]]] = {
    "pod": POD,
    "pvc": CLAIM,
    "pv": VOLUME,
    "node": NODE,
    "podgroup": POD_GROUP,
    **{kind.short[0]: kind for kind in WORKLOAD_KINDS},
}
FORMS: Final = f"write {', '.join(f'{word}/NAME' for word in COMPLETED)} or job/NAME"
#: Maximum number of other objects named when one is not found.
LISTED: Final = 10
#: In the server's logs.
NAME: Final = "mooring-explain"


class Question(NamedTuple):
    """An object, a message, or with neither all pending objects."""

    kind: str = ""
    name: str = ""
    message: str = ""


@click.command()
@click.argument(
    "what",
    nargs=-1,
    metavar="[pod/NAME | pvc/NAME | pv/NAME | node/NAME | podgroup/NAME | sts/NAME | deploy/NAME | ... | MESSAGE]",
    shell_complete=complete_objects(COMPLETED),
)
@namespace_option("Namespace of the object.  [default: the context's, or default]")
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="Show all pending pods and claims of all namespaces, one line each."
)
@text_option(
    "--message", "TEXT", "Explain the message of an event, with remedies; a text with spaces does not need this flag."
)
@output_option("text", "wide", "json", "yaml", note="; wide omits nothing")
@source_options
def explain(
    what: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    message: str,
    output: str,
    **source: Unpack[SourceFlags],
) -> None:
    """Explain the state of a pod, claim, volume, node or PodGroup: the deciding nodes, claims, volumes and capacities,
    with figures and remedies. Without a name, all pending pods and claims of the namespace, one line each.

    A StatefulSet, Deployment, ReplicaSet, DaemonSet or Job is explained by its pods, and by the pod that matters most.

    Runs the scheduler's filters on the listed objects, with read-only rights on any Kubernetes cluster, or on files;
    every plugin filters every node. A text with spaces, or --message, is looked up as a message without a cluster.

    Exit codes: 0 when nothing is stuck; 1 when something is stuck; 2 when flags, files or kubeconfig are wrong; 3 when
    the cluster cannot be read; 4 when no object of that name, or no such message, exists.
    """
    question = _question(what, message)
    if all_namespaces and (question.name or question.message or namespace):
        raise InvalidInput("-A shows all pending objects: leave out the name, the message and -n.")
    if question.message:
        answer = messages_answer(question.message)
    else:
        also = WORKLOAD_KINDS if question.kind in EXPLAINED_WORKLOADS else ()
        seen = read(source, (*EXPLAINED_KINDS, *also), component=NAME, namespace=namespace)
        answer = _answered(question, "" if all_namespaces else seen.namespace, seen)
    show_answer(answer, output)
    click.get_current_context().exit(ExitCode.OK if answer.ok else ExitCode.PROBLEM)


def _question(what: Sequence[str], message: str) -> Question:
    if message:
        if what:
            raise InvalidInput("--message cannot be combined with an argument: give one of them.")
        return Question(message=message)
    if not what:
        return Question()
    given = " ".join(what)
    kind, slash, name = given.partition("/")
    # kubectl get -o name prints statefulset.apps/NAME.
    kind = kind.partition(".")[0]
    if len(what) == 2 and what[0].lower() in KINDS and "/" not in what[1]:
        return Question(KINDS[what[0].lower()], what[1])
    if " " in given:
        return Question(message=given)
    if not slash or not name or "/" in name:
        raise InvalidInput(f"{given!r} is not an object: {FORMS}.")
    if kind.lower() not in KINDS:
        raise InvalidInput(f"Kind {kind!r} cannot be explained: {FORMS}.")
    return Question(KINDS[kind.lower()], name)


def _answered(question: Question, namespace: str, seen: ClusterDocuments) -> "Explanation":
    also = WORKLOAD_KINDS if question.kind in EXPLAINED_WORKLOADS else ()
    view = ClusterView(cluster_objects(seen, kinds=also))
    notes = [f"could not be seen and counts as not there: {each}" for each in seen.unseen if not each.is_optional]
    problems = [*view.as_listed[1]]
    if skipped := view.objects.skipped:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
        problems.insert(0, f"left out what no decision looks at: {counted}")
    match question.kind:
        case "Pod":
            answer = pod_answer(_noted(explain_in(view, _found(view, POD, question.name, namespace)), notes))
        case "PersistentVolumeClaim":
            answer = claim_answer(_noted(explain_claim(view, _found(view, CLAIM, question.name, namespace)), notes))
        case "PersistentVolume":
            answer = volume_answer(_noted(explain_volume(view, _found(view, VOLUME, question.name, "")), notes))
        case "Node":
            answer = node_answer(_noted(explain_node(view, _found(view, NODE, question.name, "")), notes))
        case "PodGroup":
            answer = group_answer(_noted(_group_report(view, f"{namespace}/{question.name}"), notes))
        case kind if kind in EXPLAINED_WORKLOADS:
            answer = workload_answer(_noted(_workload_report(view, kind, f"{namespace}/{question.name}"), notes))
        case _:
            answer = overview_answer(tuple(overview(view, namespace=namespace)), notes)
    return answer._replace(problems=problems)


def _noted(report: R, notes: Sequence[str]) -> R:
    return msgspec.structs.replace(report, notes=(*report.notes, *notes))


def _group_report(view: ClusterView, key: str) -> results.GroupReport:
    """Also of a PodGroup that does not exist while pods wait for it."""
    report = explain_group(view, key)
    if report is None:
        _found(view, POD_GROUP, key, "")  # raises ObjectNotFound
    assert report is not None
    return report


def _workload_report(view: ClusterView, kind: str, key: str) -> results.WorkloadReport:
    report = explain_workload(view, kind, key)
    if report is None:
        row = EXPLAINED_WORKLOADS[kind]
        raise _not_found(
            kind, key, workload_keys(view, kind), "" if row is None else view.objects.unlisted.get(row, "")
        )
    return report


def _found(view: ClusterView, kind: Kind[V], name: str, namespace: str) -> V:
    key = f"{namespace}/{name}" if namespace else name
    if (found := view.objects.get(kind, key)) is not None:
        return found
    there = (one.key for one in view.objects.of(kind))
    raise _not_found(NOUNS[kind.kind], key, there, view.objects.unlisted.get(kind, ""))


def _not_found(noun: str, key: str, there: Iterable[str], unlisted: str) -> ObjectNotFound:
    """Names what is there, the likeliest first."""
    others = near_names(key, there)
    note = f" Not all can be seen: {unlisted}." if unlisted else ""
    if not others:
        return ObjectNotFound(f"There is no {noun} {key}, nor any other.{note}")
    return ObjectNotFound(f"There is no {noun} {key}; there is {text.listed_names(others, LISTED)}.{note}")


def near_names(key: str, there: Iterable[str]) -> list[str]:
    """Keys in the order in which they may have been meant: the same name in another namespace, similar names, names
    of the same namespace, all others."""
    namespace, _, name = key.rpartition("/")
    named = {each: each.rpartition("/") for each in there}
    similar = set(get_close_matches(name, {of for _, _, of in named.values()}, n=LISTED, cutoff=0.6))
    likeness = {of: SequenceMatcher(None, of, name).ratio() for of in similar}

    def rank(each: str) -> tuple[float, bool, str]:
        own, _, of = named[each]
        return -likeness.get(of, 0.0), own != namespace, each

    return sorted(named, key=rank)


#: Maximum number of volumes and pods of a node that are named in text.
MAX_LISTED: Final = 10


class Explanation(NamedTuple):
    """One explanation: a sentence, the paragraphs after it, and the same as plain data."""

    ok: bool
    sentence: str
    #: With `True` nothing is left out.
    paragraphs: Callable[[bool], Iterable[str]]
    data: object
    #: What could not be understood or was left out, for standard error.
    problems: Sequence[str] = ()


class MessagePart(results.ExplainStruct, frozen=True):
    """A row of the table of messages, as programs get it."""

    text: str
    reported_by: str = msgspec.field(name="saidBy")
    means: str
    now: str
    page: str


def pod_answer(shown: results.PodVerdict) -> Explanation:
    return Explanation(shown.ok, shown.verdict, lambda wide: text.pod_paragraphs(shown, wide=wide), shown)


def claim_answer(shown: results.ClaimReport) -> Explanation:
    # The first line is the verdict itself, under which the others stand.
    _, *rest = text.claim_lines(shown)
    lines = "\n".join(line.removeprefix("  ") for line in rest)
    paragraphs = (lines, *text.closing_lines((), shown.remedy_texts, shown.not_enough, shown.checks))
    return Explanation(not shown.stuck, shown.verdict, lambda _: paragraphs, shown)


def node_answer(shown: results.NodeReport) -> Explanation:
    return Explanation(shown.ok, shown.verdict, lambda wide: _node(shown, wide=wide), shown)


def volume_answer(shown: results.VolumeReport) -> Explanation:
    return Explanation(not shown.stuck, shown.verdict, lambda wide: _volume(shown, wide=wide), shown)


def group_answer(shown: results.GroupReport) -> Explanation:
    return Explanation(shown.ok, shown.verdict, lambda wide: text.group_paragraphs(shown, wide=wide), shown)


def workload_answer(shown: results.WorkloadReport) -> Explanation:
    return Explanation(shown.ok, shown.verdict, lambda wide: text.workload_paragraphs(shown, wide=wide), shown)


def overview_answer(lines: Sequence[Line], notes: Sequence[str]) -> Explanation:
    stuck = sum(not line.ok for line in lines)
    sentence = f"{stuck} of {len(lines)} that wait are stuck." if lines else "Nothing waits."
    marked = ((line, "waits" if line.ok else "stuck") for line in lines)
    table = (f"{mark} {line.what} -n {line.namespace}: {line.verdict}" for line, mark in marked)
    paragraphs = ("\n".join(table), *text.closing_lines(notes, ()))
    return Explanation(not stuck, sentence, lambda _: paragraphs, {"lines": lines, "notes": notes})


def messages_answer(message: str) -> Explanation:
    """Always ok: the message is known. Raises ObjectNotFound."""
    found = find(message)
    if not found:
        raise ObjectNotFound("No known message matches. All known messages: `mooring docs troubleshooting`.")
    parts = [MessagePart(one.text, one.source, one.meaning, one.action, f"{PAGE}#{one.anchor}") for one in found]
    paragraphs = tuple(
        f"{part.text}\n  {part.means}\n  what to do: {part.now}\n  said by: {part.reported_by}\n"
        f"  see `mooring docs {PAGE}` ({part.page})"
        for part in parts
    )
    sentence = "This is one message." if len(parts) == 1 else f"These are {len(parts)} messages in one."
    return Explanation(True, sentence, lambda _: paragraphs, parts)


def show_answer(answer: Explanation, output: str) -> None:
    for problem in answer.problems:
        click.echo(f"note: {problem}", err=True)
    if terminal.echo_document(answer.data, output):
        return
    # click removes colours where the output is not a terminal; NO_COLOR takes precedence.
    colours = False if os.environ.get("NO_COLOR") else None
    terminal.styled(answer.sentence, fg="green" if answer.ok else "red", bold=True, colours=colours)
    for paragraph in filter(None, answer.paragraphs(output == "wide")):
        click.echo(f"\n{paragraph}", color=colours)


def _node(report: results.NodeReport, *, wide: bool) -> Iterator[str]:
    if report.resources:
        rows = (f"  {use.resource}: {use.requested} of {use.allocatable} requested" for use in report.resources)
        yield "\n".join(["resources:", *rows])
    if report.drivers:
        limits = (f"  {use.driver}: {use.used} of {use.limit}" for use in report.drivers)
        yield "\n".join(["volumes of drivers with a limit:", *limits])
    most = None if wide else MAX_LISTED
    if report.volumes:
        names = text.listed_names(report.volumes, len(report.volumes) if wide else MAX_LISTED)
        yield f"volumes that no other node can reach: {names}"
    if report.capacity_reports:
        rooms = (f"  {room.capacity}: {room.detail}" for room in report.capacity_reports[:most])
        yield "\n".join(["free storage:", *rooms])
    if report.pending:
        pods = list(report.pending.items())[:most]
        said = (f"  {pod}: {'; '.join(one.text for one in reasons) or 'fits'}" for pod, reasons in pods)
        more = len(report.pending) - len(pods)
        yield "\n".join(["waiting pods:", *said, *([f"  and {more} more"] if more else [])])
    yield from text.closing_lines(report.notes, report.remedy_texts)


def _volume(report: results.VolumeReport, *, wide: bool) -> Iterator[str]:
    facts = [report.facts]
    if report.nodes:
        reached = report.reached_from
        names = text.listed_names(reached, len(reached) if wide else MAX_LISTED)
        named = f": {names}" if 0 < len(reached) < report.nodes else ""
        facts.append(f"reached from {len(reached)} of {report.nodes} nodes{named}")
    yield "\n".join(facts)
    if report.users:
        users = (_user(user) for user in report.users[: None if wide else MAX_LISTED])
        yield "\n".join([f"pods that use {report.claim}:", *users])
    if report.attachments:
        yield "\n".join(["attachments:", *(f"  {line}" for line in report.attachments)])
    if report.pending_claims:
        more = sum(report.failed.values()) - sum(bool(taker.criterion) for taker in report.pending_claims)
        counts = ", ".join(f"{count} {name}" for name, count in sorted(report.failed.items(), key=lambda one: -one[1]))
        tail = [f"  and {more} more do not take it; in all: {counts}"] if more > 0 else []
        cleared = ", once it is cleared" if report.state == "Released" else ""
        yield "\n".join([f"claims that wait{cleared}:", *map(_pending_claim, report.pending_claims), *tail])
    yield from text.closing_lines(report.notes, report.remedy_texts)


def _user(user: results.VolumeUser) -> str:
    return f"  {user.pod}: {user.phase}{f' on {user.node}' if user.node else ', without a node'}"


def _pending_claim(pending: results.PendingClaim) -> str:
    detail = f" ({pending.detail})" if pending.detail else ""
    return f"  {pending.claim}: {f'not it: it {pending.reason}' if pending.criterion else 'it does'}{detail}"
