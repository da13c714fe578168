"""What `mooring simulate` prints for people: sections below the verdict, shortened unless all is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mooring.cli.terminal import NONE, segment_text, table
from mooring.explain.results import GroupReport
from mooring.explain.text import group_paragraphs, listed_names
from mooring.whatif.configurations import ConfigurationComparison
from mooring.whatif.fill import FillResult
from mooring.whatif.node_groups import NodeGroupAnswer
from mooring.whatif.node_search import NodePlan
from mooring.whatif.rebalance import RebalancePlan
from mooring.whatif.replay import ReplayResult, SchedulingOutcome, different_pods
from mooring.whatif.results import ClaimOutcome, PendingExplanation, PendingPod, Segment, SimulationResult

#: Rows of a table, names of a line and lines of an explanation that are shown unless all are asked for.
ROWS: Final = 20
NAMES: Final = 5
LINES: Final = 8

Row = Sequence[str]
Outcome = (
    SimulationResult | NodePlan | NodeGroupAnswer | FillResult | ConfigurationComparison | RebalancePlan | ReplayResult
)


def outcome_lines(found: Outcome, *, wide: bool) -> Iterator[str]:
    """What is shown below the verdict."""
    if isinstance(found, SimulationResult):
        yield from lines(found, wide=wide)
    elif isinstance(found, NodePlan):
        if found.alternatives:
            others = (f"{each.count} x {each.template}" for each in found.alternatives)
            yield f"instead: {', '.join(others)}"
        yield from ("", f"with these nodes: {found.result.verdict}")
        yield from lines(found.result, wide=wide)
    elif isinstance(found, NodeGroupAnswer):
        yield from _of_groups(found, wide=wide)
    elif isinstance(found, ConfigurationComparison):
        yield from _compared(found, wide=wide)
    elif isinstance(found, ReplayResult):
        yield from _of_replay(found, wide=wide)
    elif isinstance(found, RebalancePlan):
        yield from _of_moves(found, wide=wide)
    else:
        rows = [(node, str(count)) for node, count in found.nodes.items()]
        sections = {
            "fitting": [*_table(("NODE", "PODS"), rows, None if wide else ROWS)],
            "used up": [
                f"{each.what}: {_names(each.nodes, None if wide else NAMES)} ({each.reason})" for each in found.limits
            ],
            "capacity left": [*_capacity(found.result.capacity, wide=wide)],
        }
        yield from _sections(sections)


def _of_groups(found: NodeGroupAnswer, *, wide: bool) -> Iterator[str]:
    rows = [
        (name, each.template, str(each.count), str(len(each.scheduled)), str(len(each.pending)))
        for name, each in found.groups.items()
    ]
    left = found.groups[found.best].pending if found.best else found.pending
    headings = ("NODE GROUP", "TEMPLATE", "NODES", "SCHEDULED", "PENDING")
    yield from _sections(
        {
            "node groups": [*_table(headings, rows, None)],
            "pending": [*_pending(left, (), None if wide else ROWS)],
        }
    )


def _of_replay(found: ReplayResult, *, wide: bool) -> Iterator[str]:
    both = (found.recorded, found.replayed)
    rows = [
        ("pods", *(str(each.pods) for each in both)),
        ("scheduled", *(str(each.scheduled) for each in both)),
        ("median wait", *(f"{each.median_seconds:.1f} s" for each in both)),
        ("longest wait", *(f"{each.max_seconds:.1f} s" for each in both)),
    ]
    different = [
        (each.pod, f"{each.at:.0f} s", *(_outcome(one) for one in (each.recorded, each.replayed)))
        for each in different_pods(found)
    ]
    yield from _sections(
        {
            "compared": [*_table(("", "RECORDED", "REPLAYED"), rows, None)],
            "different": [*_table(("POD", "AT", "RECORDED", "REPLAYED"), different, None if wide else ROWS)],
            "pending": [*_pending(found.result.pending, found.result.explanations, None if wide else ROWS)],
        }
    )
    for note in (*found.notes, *found.result.notes):
        yield from ("", f"note: {note}")


def _outcome(found: SchedulingOutcome | None) -> str:
    return NONE if found is None or not found.node else f"{found.node} after {found.seconds:.1f} s"


def _of_moves(found: RebalancePlan, *, wide: bool) -> Iterator[str]:
    moves = [(each.pod, each.node, each.to or NONE, each.successor or each.pod) for each in found.moves]
    immovable = [(each.pod, each.node, each.reason) for each in found.immovable]
    yield from _sections(
        {
            "moves": [*_table(("POD", "NODE", "TO", "AS"), moves, None)],
            "steps": [f"{number}. {step}" for number, step in enumerate(found.steps, start=1)],
            "limits": [f"{_names(each.nodes, None if wide else NAMES)}: {each.reason}" for each in found.limits],
            "not moved": [*_table(("POD", "NODE", "REASON"), immovable, None if wide else ROWS)],
        }
    )


def _compared(found: ConfigurationComparison, *, wide: bool) -> Iterator[str]:
    each = found.configurations
    rows = [
        ("scheduled", *(str(one.scheduled) for one in each)),
        ("pending", *(str(one.pending) for one in each)),
        ("nodes used", *(str(one.used_nodes) for one in each)),
        ("nodes empty", *(str(one.empty_nodes) for one in each)),
        ("zone imbalance", *(str(one.zone_imbalance) for one in each)),
    ]
    classes = sorted({free.storage_class for one in each for free in one.free})
    for name in classes:
        left = [next((free for free in one.free if free.storage_class == name), None) for one in each]
        rows.append((f"free of {name}", *(NONE if free is None else free.total for free in left)))
        rows.append((f"largest volume of {name}", *(NONE if free is None else free.largest for free in left)))
    names = tuple(one.configuration for one in each)
    different = [(one.pod, *(node or NONE for node in one.nodes)) for one in found.different]
    yield from _sections(
        {
            "compared": [*_table(("", *names), rows, None)],
            "different nodes": [*_table(("POD", *names), different, None if wide else ROWS)],
        }
    )


def _sections(sections: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Without empty ones."""
    for heading, rows in sections.items():
        if rows:
            yield from ("", f"{heading}:", *(f"  {row}" for row in rows))


def lines(result: SimulationResult, *, wide: bool) -> Iterator[str]:
    """Without sections that would be empty."""
    most = None if wide else ROWS
    placed = [(each.pod, each.node, each.before or NONE, _volumes(each.claims)) for each in result.placements]
    sections = {
        "placed": [*_table(("POD", "NODE", "BEFORE", "VOLUMES"), placed, most)],
        "pending": [*_pending(result.pending, result.explanations, most)],
        "groups": [*_groups(result.groups, wide=wide)],
        "not made": [
            f"{one.workload} wants {one.desired} pods and has {one.pods}: {one.reason}" for one in result.shortfalls
        ],
        "not leaving": [f"{one.pod} stays on {one.node}: {one.reason}" for one in result.blocked],
        "lost": [f"{one.pod} was on {one.node}: {one.reason}" for one in result.lost],
        "capacity left": [*_capacity(result.capacity, wide=wide)],
        "different from now": [*_differences(result, wide=wide)],
    }
    yield from _sections(sections)
    for note in result.notes:
        yield from ("", f"note: {note}")


def _volumes(claims: Sequence[ClaimOutcome]) -> str:
    made = {each.claim: f"new, {each.size} of {each.storage_class}" for each in claims if each.made}
    given = (f"{each.claim.rpartition('/')[2]}: {made.get(each.claim) or each.volume or 'none yet'}" for each in claims)
    return ", ".join(given) or NONE


def _pending(pending: Sequence[PendingPod], explained: Sequence[PendingExplanation], most: int | None) -> Iterator[str]:
    by_pod = {each.pod: each for each in explained}
    said: dict[str, list[PendingPod]] = {}
    for each in pending:
        said.setdefault(each.reason, []).append(each)
    for alike in [*said.values()][:most]:
        first = next((each for each in alike if each.pod in by_pod), alike[0])
        already = " (as before)" if all(each.already for each in alike) else ""
        yield f"{_names([each.pod for each in alike], None if most is None else NAMES)}{already}: {first.reason}"
        if first.pod in by_pod:
            yield from (f"    {line}" for line in _explanation(by_pod[first.pod], wide=most is None))
    if most is not None and len(said) > most:
        yield f"and {sum(map(len, [*said.values()][most:]))} more for other reasons; -o wide shows all"


def _groups(groups: Sequence[GroupReport], *, wide: bool) -> Iterator[str]:
    for report in groups:
        yield report.verdict
        told = [line for paragraph in group_paragraphs(report, wide=wide) for line in paragraph.splitlines()]
        yield from (f"    {line}" for line in told)


def _explanation(explained: PendingExplanation, *, wide: bool) -> Iterator[str]:
    said = [line for paragraph in explained.paragraphs for line in paragraph.splitlines()]
    shown = said if wide else said[:LINES]
    yield from shown
    if len(shown) < len(said):
        yield "…"
    if explained.remedy_texts:
        yield "what would help:"
    yield from (f"  - {each}" for each in explained.remedy_texts)


def _capacity(capacity: Sequence[Segment], *, wide: bool) -> Iterator[str]:
    shown = [each for each in capacity if wide or each.before != each.after]
    rows = [
        (each.storage_class, segment_text(each.segment), str(each.nodes), each.before or NONE, each.after or NONE)
        for each in shown
    ]
    yield from _table(("CLASS", "SEGMENT", "NODES", "BEFORE", "AFTER"), rows, None if wide else ROWS)
    if unchanged := len(capacity) - len(shown):
        yield f"as before in {unchanged}{' more' if shown else ''} segment{'' if unchanged == 1 else 's'}"


def _differences(result: SimulationResult, *, wide: bool) -> Iterator[str]:
    most = None if wide else NAMES
    changed = result.difference
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
            yield f"{what}: {len(names)} ({_names(names, most)})"
    if changed.volumes_made:
        # Their names are generated: the number says all.
        yield f"volumes provisioned: {len(changed.volumes_made)}"


def _names(names: Sequence[str], most: int | None) -> str:
    return listed_names(names, len(names) if most is None else most)


def _table(headings: Row, rows: Sequence[Row], most: int | None) -> Iterator[str]:
    if rows:
        yield from table([headings, *rows[:most]])
    if most is not None and len(rows) > most:
        yield f"and {len(rows) - most} more; -o wide shows all"
