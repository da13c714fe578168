"""Explanations on the screen: text with colours where somebody sees them, JSON and YAML for programs."""

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click
import msgspec

from mooring.cli import terminal
from mooring.explain import words
from mooring.explain.messages.contract import Message
from mooring.explain.messages.lookup import PAGE
from mooring.explain.overview import Line
from mooring.explain.verdicts import ClaimStanding, NodeStanding, Part, PodVerdict, Taker, VolumeStanding, VolumeUser

#: How many volumes and pods of a node are named in text.
NAMED: Final = 10


class Answer(NamedTuple):
    """One explanation: a sentence, what follows it, and the same as plain data."""

    ok: bool
    sentence: str
    paragraphs: tuple[str, ...]
    #: The same with nothing left out.
    wide: tuple[str, ...]
    data: object
    #: What could not be understood or was left out, for standard error.
    problems: Sequence[str] = ()


class MessagePart(Part, frozen=True):
    """A row of the table of messages, as programs get it."""

    text: str
    said_by: str
    means: str
    now: str
    page: str


def pod_answer(verdict: PodVerdict, notes: Sequence[str], problems: Sequence[str]) -> Answer:
    told = msgspec.structs.replace(verdict, notes=(*verdict.notes, *notes))
    wide = tuple(words.paragraphs(told, wide=True))
    return Answer(verdict.ok, verdict.verdict, tuple(words.paragraphs(told)), wide, told, problems)


def claim_answer(standing: ClaimStanding, notes: Sequence[str], problems: Sequence[str]) -> Answer:
    told = msgspec.structs.replace(standing, notes=(*standing.notes, *notes))
    # The first line is the verdict itself, under which the others stand.
    _, *rest = words.standing(told)
    lines = "\n".join(line.removeprefix("  ") for line in rest)
    paragraphs = tuple(part for part in (lines, *words.closing((), told.helps, told.not_enough, told.checks)) if part)
    return Answer(not standing.stuck, standing.verdict, paragraphs, paragraphs, told, problems)


def node_answer(standing: NodeStanding, notes: Sequence[str], problems: Sequence[str]) -> Answer:
    told = msgspec.structs.replace(standing, notes=(*standing.notes, *notes))
    wide = tuple(_node(told, wide=True))
    return Answer(standing.ok, standing.verdict, tuple(_node(told, wide=False)), wide, told, problems)


def volume_answer(standing: VolumeStanding, notes: Sequence[str], problems: Sequence[str]) -> Answer:
    told = msgspec.structs.replace(standing, notes=(*standing.notes, *notes))
    wide = tuple(_volume(told, wide=True))
    return Answer(not standing.stuck, standing.verdict, tuple(_volume(told, wide=False)), wide, told, problems)


def overview_answer(lines: Sequence[Line], notes: Sequence[str], problems: Sequence[str]) -> Answer:
    stuck = sum(not line.ok for line in lines)
    sentence = f"{stuck} of {len(lines)} that wait are stuck." if lines else "Nothing waits."
    table = tuple(f"{_mark(line)} {line.what} -n {line.namespace}: {line.verdict}" for line in lines)
    paragraphs = tuple(part for part in ("\n".join(table), *words.closing(notes, ())) if part)
    return Answer(not stuck, sentence, paragraphs, paragraphs, {"lines": lines, "notes": notes}, problems)


def messages_answer(found: Sequence[Message]) -> Answer:
    """Knowing what a message means is well, whatever it means."""
    parts = [MessagePart(one.text, one.said_by, one.means, one.now, f"{PAGE}#{one.anchor}") for one in found]
    paragraphs = tuple(
        f"{part.text}\n  {part.means}\n  what to do: {part.now}\n  said by: {part.said_by}\n"
        f"  see `mooring docs {PAGE}` ({part.page})"
        for part in parts
    )
    sentence = "This is one message." if len(parts) == 1 else f"These are {len(parts)} messages in one."
    return Answer(True, sentence, paragraphs, paragraphs, parts)


def show(answer: Answer, output: str) -> None:
    for problem in answer.problems:
        click.echo(f"note: {problem}", err=True)
    match output:
        case "json":
            terminal.echo_json(answer.data)
        case "yaml":
            terminal.echo_yaml(answer.data)
        case _:
            _show_text(answer, answer.wide if output == "wide" else answer.paragraphs)


def _show_text(answer: Answer, paragraphs: Sequence[str]) -> None:
    # click takes colours out where nobody could see them; what people ask for by NO_COLOR comes first.
    colours = False if os.environ.get("NO_COLOR") else None
    terminal.styled(answer.sentence, fg="green" if answer.ok else "red", bold=True, colours=colours)
    for paragraph in paragraphs:
        click.echo(f"\n{paragraph}", color=colours)


def _mark(line: Line) -> str:
    return "waits" if line.ok else "stuck"


def _node(standing: NodeStanding, *, wide: bool) -> Iterator[str]:
    if standing.resources:
        rows = (f"  {use.resource}: {use.requested} of {use.allocatable} requested" for use in standing.resources)
        yield "\n".join(["resources:", *rows])
    if standing.drivers:
        yield "\n".join(
            [
                "volumes of drivers with a limit:",
                *(f"  {use.driver}: {use.used} of {use.limit}" for use in standing.drivers),
            ]
        )
    most = None if wide else NAMED
    if standing.volumes:
        names = words.listed(standing.volumes, len(standing.volumes) if wide else NAMED)
        yield f"volumes that no other node can reach: {names}"
    if standing.rooms:
        yield "\n".join(["free storage:", *(f"  {room.capacity}: {room.detail}" for room in standing.rooms[:most])])
    if standing.pending:
        pods = list(standing.pending.items())[:most]
        said = (
            f"  {pod}: {'; '.join(_said(one.reason, one.detail) for one in all_of) or 'fits'}" for pod, all_of in pods
        )
        more = len(standing.pending) - len(pods)
        yield "\n".join(["waiting pods:", *said, *([f"  and {more} more"] if more else [])])
    yield from words.closing(standing.notes, standing.helps)


def _volume(standing: VolumeStanding, *, wide: bool) -> Iterator[str]:
    facts = [standing.facts]
    if standing.nodes:
        reached = standing.reached_from
        named = f": {words.listed(reached, len(reached) if wide else NAMED)}" if len(reached) < standing.nodes else ""
        facts.append(f"reached from {len(reached)} of {standing.nodes} nodes{named if reached else ''}")
    yield "\n".join(facts)
    if standing.users:
        yield "\n".join(
            [f"pods that use {standing.claim}:", *(_user(user) for user in standing.users[: None if wide else NAMED])]
        )
    if standing.attachments:
        yield "\n".join(["attachments:", *(f"  {line}" for line in standing.attachments)])
    if standing.takers:
        more = sum(standing.failed.values()) - sum(bool(taker.criterion) for taker in standing.takers)
        counts = ", ".join(
            f"{count} {name}" for name, count in sorted(standing.failed.items(), key=lambda one: -one[1])
        )
        tail = [f"  and {more} more do not take it; in all: {counts}"] if more > 0 else []
        cleared = ", once it is cleared" if standing.state == "Released" else ""
        yield "\n".join([f"claims that wait{cleared}:", *(_taker(taker) for taker in standing.takers), *tail])
    yield from words.closing(standing.notes, standing.helps)


def _user(user: VolumeUser) -> str:
    return f"  {user.pod}: {user.phase}{f' on {user.node}' if user.node else ', without a node'}"


def _taker(taker: Taker) -> str:
    detail = f" ({taker.detail})" if taker.detail else ""
    return f"  {taker.claim}: {f'not it: it {taker.reason}' if taker.criterion else 'it does'}{detail}"


def _said(reason: str, detail: str) -> str:
    return f"{reason} ({detail})" if detail else reason
