"""`mooring explain`: why a pod, a claim, a volume or a node is as it is and what would help, on clusters or files."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeVar, Unpack

import click

from mooring.cli.cluster_source import SourceFlags, UnusableSource, read, source_options
from mooring.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from mooring.api.kinds import Kind
    from mooring.api.views.meta import ApiObject
    from mooring.cli.cluster_source import ClusterDocuments
    from mooring.cli.explain_output import Answer
    from mooring.explain.situation import Situation

V = TypeVar("V", bound="ApiObject")

#: How kubectl lets people write the kinds.
KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("pvc", "persistentvolumeclaim", "persistentvolumeclaims", "claim"), "PersistentVolumeClaim"),
    **dict.fromkeys(("node", "nodes", "no"), "Node"),
    **dict.fromkeys(("pv", "persistentvolume", "persistentvolumes", "volume"), "PersistentVolume"),
}
#: What a shell offers to begin with.
BEGINNINGS: Final = ("pod/", "pvc/", "pv/", "node/")
#: How many others are listed when the wanted one is not there.
LISTED: Final = 10
#: In the server's logs.
NAME: Final = "mooring-explain"


class Unusable(click.ClickException):
    """The question makes no sense: one sentence."""

    exit_code = ExitCode.USAGE


class NotThere(click.ClickException):
    """There is nothing of that name, or no such message: one sentence."""

    exit_code = ExitCode.NOT_FOUND


class Question(NamedTuple):
    """What is asked about: an object of a kind, a message, or, with neither, everything that waits."""

    kind: str = ""
    name: str = ""
    message: str = ""


@click.command(short_help="Say why something waits, and what would help.")
@click.argument(
    "what",
    nargs=-1,
    metavar="[pod/NAME | pvc/NAME | pv/NAME | node/NAME | MESSAGE]",
    shell_complete=lambda _, __, unfinished: [each for each in BEGINNINGS if each.startswith(unfinished)],
)
@click.option("-n", "--namespace", default="", help="Where it is.  [default: the context's, or default]")
@click.option("-A", "--all-namespaces", is_flag=True, help="Everything that waits, wherever it is, a line each.")
@click.option("--message", default="", metavar="TEXT", help="Say what a message of an event means, and what to do.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to show it; wide leaves nothing out.",
)
@source_options
def explain(
    what: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    message: str,
    output: str,
    **source: Unpack[SourceFlags],
) -> None:
    """Say why a pod, a claim, a volume or a node is as it is: which node, which claim, which volume or capacity, which
    figure, and what would help. Without a name, everything that waits in the namespace, a line each.

    Runs the scheduler's own decision on what it lists, on any Kubernetes and with read-only rights, or on files; every
    plugin is asked about every node. A text with spaces, or --message, is looked up instead, and no cluster is asked.

    Exit codes: 0 when all is well, or will be by itself; 1 when something is stuck; 2 when flags, files or kubeconfig
    are wrong; 3 when the cluster cannot be asked; 4 when there is nothing of that name, or no such message.
    """
    question = _question(what, message)
    if all_namespaces and (question.name or question.message or namespace):
        raise Unusable("-A shows everything that waits: leave the name, the message and -n out.")
    if question.message:
        answer = _meaning(question.message)
    else:
        from mooring.explain.cluster_objects import SEEN

        seen = read(source, SEEN, component=NAME, namespace=namespace)
        answer = _answered(question, "" if all_namespaces else seen.namespace, seen)
    from mooring.cli.explain_output import show

    show(answer, output)
    click.get_current_context().exit(ExitCode.OK if answer.ok else ExitCode.PROBLEM)


def _question(what: Sequence[str], message: str) -> Question:
    if message:
        if what:
            raise Unusable("A message and something else were asked about: ask for one of them.")
        return Question(message=message)
    if not what:
        return Question()
    said = " ".join(what)
    kind, slash, name = said.partition("/")
    if len(what) == 2 and what[0].lower() in KINDS and "/" not in what[1]:
        return Question(KINDS[what[0].lower()], what[1])
    if " " in said:
        return Question(message=said)
    if not slash or not name or "/" in name:
        raise Unusable(f"{said!r} does not say what to explain: write pod/NAME, pvc/NAME, pv/NAME or node/NAME.")
    if kind.lower() not in KINDS:
        raise Unusable(
            f"Pods, claims, volumes and nodes can be explained, and {kind!r} is none of these: write pod/NAME."
        )
    return Question(KINDS[kind.lower()], name)


def _meaning(message: str) -> "Answer":
    from mooring.cli.explain_output import messages_answer
    from mooring.explain.messages.lookup import find

    found = find(message)
    if not found:
        raise NotThere("No known message matches. All known messages: `mooring docs troubleshooting`.")
    return messages_answer(found)


def _answered(question: Question, namespace: str, seen: "ClusterDocuments") -> "Answer":
    from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
    from mooring.cli import explain_output as answers
    from mooring.explain.claim import explain_claim
    from mooring.explain.node import explain_node
    from mooring.explain.overview import overview
    from mooring.explain.pod import explain_in
    from mooring.explain.volume import explain_volume

    situation = _situation(seen)
    notes = [f"could not be seen and counts as not there: {each}" for each in seen.unseen]
    problems = [*_left_out(situation), *situation.as_listed[1]]
    match question.kind:
        case "Pod":
            pod = _found(situation, POD, question.name, namespace)
            return answers.pod_answer(explain_in(situation, pod).verdict, notes, problems)
        case "PersistentVolumeClaim":
            claim = _found(situation, CLAIM, question.name, namespace)
            return answers.claim_answer(explain_claim(situation, claim), notes, problems)
        case "PersistentVolume":
            volume = _found(situation, VOLUME, question.name, "")
            return answers.volume_answer(explain_volume(situation, volume), notes, problems)
        case "Node":
            node = _found(situation, NODE, question.name, "")
            return answers.node_answer(explain_node(situation, node), notes, problems)
    return answers.overview_answer(tuple(overview(situation, namespace=namespace)), notes, problems)


def _situation(seen: "ClusterDocuments") -> "Situation":
    from mooring.explain.cluster_objects import ClusterObjects, MalformedObject
    from mooring.explain.situation import Situation

    objects = ClusterObjects(now=seen.looked_at, unseen={each.kind: each.why for each in seen.unseen})
    for origin, document in seen.documents:
        try:
            objects.add(document)
        except MalformedObject as error:
            raise UnusableSource(f"{origin}: {error}.") from error
    return Situation(objects)


def _left_out(situation: "Situation") -> list[str]:
    if not situation.objects.skipped:
        return []
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(situation.objects.skipped.items()))
    return [f"left out what no decision looks at: {counted}"]


def _found(situation: "Situation", kind: "Kind[V]", name: str, namespace: str) -> "V":
    found = situation.objects.get(kind, f"{namespace}/{name}" if namespace else name)
    if found is None:
        _refuse_missing(situation, kind, name, namespace)
    return found


def _refuse_missing(situation: "Situation", kind: "Kind[ApiObject]", name: str, namespace: str) -> NoReturn:
    word = {"Pod": "pod", "PersistentVolumeClaim": "claim", "PersistentVolume": "volume"}.get(kind.kind, "node")
    key = f"{namespace}/{name}" if namespace else name
    there = sorted(one.key for one in situation.objects.of(kind))
    unseen = f" Not all can be seen: {situation.objects.unseen[kind]}." if kind in situation.objects.unseen else ""
    if not there:
        raise NotThere(f"There is no {word} {key}, nor any other.{unseen}")
    more = f" and {len(there) - LISTED} more" if len(there) > LISTED else ""
    raise NotThere(f"There is no {word} {key}; there is {', '.join(there[:LISTED])}{more}.{unseen}")
