"""What `mooring simulate` shows people after its verdict: tables and paragraphs. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.sim.whatif.outcome import ClaimOutcome, Explanation, Outcome, Pending, Segment

NONE: Final = "-"
#: Rows of a table, names of a line and lines of an explanation that are shown unless all are asked for.
ROWS: Final = 20
NAMES: Final = 5
LINES: Final = 8

Row = Sequence[str]


def lines(outcome: Outcome, *, wide: bool) -> Iterator[str]:
    """Nothing is said about what there is nothing of."""
    most = None if wide else ROWS
    if outcome.placements:
        yield from ("", "placed:")
        rows = [(each.pod, each.node, each.before or NONE, _volumes(each.claims)) for each in outcome.placements]
        yield from _table(("POD", "NODE", "BEFORE", "VOLUMES"), rows, most)
    if outcome.pending:
        yield from ("", "pending:")
        yield from _pending(outcome.pending, outcome.explanations, most)
    if outcome.shortfalls:
        yield from ("", "not made:")
        for short in outcome.shortfalls:
            yield f"  {short.workload} wants {short.wanted} pods and has {short.pods}: {short.reason}"
    if outcome.blocked:
        yield from ("", "not leaving:")
        for blocked in outcome.blocked:
            yield f"  {blocked.pod} stays on {blocked.node}: {blocked.reason}"
    if outcome.lost:
        yield from ("", "lost:")
        for lost in outcome.lost:
            yield f"  {lost.pod} was on {lost.node}: {lost.reason}"
    if outcome.capacity:
        yield from ("", "room left:")
        shown = [each for each in outcome.capacity if wide or each.before != each.after]
        if shown:
            yield from _table(("CLASS", "SEGMENT", "NODES", "BEFORE", "AFTER"), [_room(each) for each in shown], most)
        if len(shown) < len(outcome.capacity):
            yield f"  as before in {_segments(len(outcome.capacity) - len(shown), more=bool(shown))}"
    differences = [*_differences(outcome, wide=wide)]
    if differences:
        yield from ("", "different from now:")
        yield from differences
    for note in outcome.notes:
        yield from ("", f"note: {note}")


def _volumes(claims: Sequence[ClaimOutcome]) -> str:
    return ", ".join(f"{_name(each.claim)}: {_volume(each)}" for each in claims) or NONE


def _volume(claim: ClaimOutcome) -> str:
    if claim.made:
        return f"new, {claim.size} of {claim.storage_class}"
    return claim.volume or "none yet"


def _pending(pending: Sequence[Pending], explained: Sequence[Explanation], most: int | None) -> Iterator[str]:
    by_pod = {each.pod: each for each in explained}
    said: dict[str, list[Pending]] = {}
    for each in pending:
        said.setdefault(each.reason, []).append(each)
    for alike in [*said.values()][:most]:
        first = next((each for each in alike if each.pod in by_pod), alike[0])
        already = " (as before)" if all(each.already for each in alike) else ""
        yield f"  {_names([each.pod for each in alike], None if most is None else NAMES)}{already}: {first.reason}"
        if first.pod in by_pod:
            yield from _explanation(by_pod[first.pod], wide=most is None)
    if most is not None and len(said) > most:
        yield f"  and {sum(map(len, [*said.values()][most:]))} more for other reasons; -o wide shows all"


def _explanation(explained: Explanation, *, wide: bool) -> Iterator[str]:
    said = [line for paragraph in explained.paragraphs for line in paragraph.splitlines()]
    shown = said if wide else said[:LINES]
    yield from (f"      {line}" for line in shown)
    if len(shown) < len(said):
        yield "      …"
    if explained.helps:
        yield "      what would help:"
    yield from (f"        - {each}" for each in explained.helps)


def _room(each: Segment) -> Row:
    segment = ",".join(f"{key}={value}" for key, value in sorted(each.segment.items())) or "(all nodes)"
    return each.storage_class, segment, str(each.nodes), each.before or NONE, each.after or NONE


def _segments(count: int, *, more: bool) -> str:
    return f"{count}{' more' if more else ''} segment{'' if count == 1 else 's'}"


def _differences(outcome: Outcome, *, wide: bool) -> Iterator[str]:
    most = None if wide else NAMES
    changed = outcome.difference
    for what, names in (
        ("nodes added", changed.nodes_added),
        ("nodes removed", changed.nodes_removed),
        ("nodes drained", changed.nodes_drained),
        ("pods new", changed.pods_added),
        ("pods moved", changed.pods_moved),
        ("pods gone", changed.pods_removed),
        ("claims bound", [each.partition(":")[0] for each in changed.claims_bound]),
        ("volumes gone", changed.volumes_removed),
    ):
        if names:
            yield f"  {what}: {len(names)} ({_names(names, most)})"
    if changed.volumes_made:
        # Their names say nothing to anybody yet.
        yield f"  volumes made: {len(changed.volumes_made)}"


def _names(names: Sequence[str], most: int | None) -> str:
    more = 0 if most is None else len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _table(headings: Row, rows: Sequence[Row], most: int | None) -> Iterator[str]:
    shown = [headings, *rows[:most]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(headings))]
    for row in shown:
        yield "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if most is not None and len(rows) > most:
        yield f"  and {len(rows) - most} more; -o wide shows all"


def _name(key: str) -> str:
    return key.rpartition("/")[2]
