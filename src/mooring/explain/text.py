"""Pod and claim reports as plain text: nodes grouped by reasons, with the volumes behind them. Adds no facts of its
own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mooring.explain import volume_candidates
from mooring.explain.results import (
    Candidate,
    ClaimReport,
    ClaimVerdict,
    DomainLimit,
    GroupReport,
    MemberReport,
    NodeVerdict,
    PodVerdict,
    Reason,
    TemplateReport,
    WorkloadReport,
)
from mooring.volumes.matching import Criterion

#: How many nodes of a group are named, and how many volumes of a claim; the others are counted.
MAX_LISTED_NODES: Final = 5
MAX_LISTED_VOLUMES: Final = 3
MAX_LISTED_CAPACITIES: Final = 2
#: How many members of a group are named; the others are counted.
MAX_LISTED_MEMBERS: Final = 10
#: What volumes fail that nothing was expected of.
_EXPECTED_MISMATCHES: Final = frozenset({Criterion.CLASS.name, Criterion.RESERVED.name, "HELD", "ROLLING_BACK"})


def pod_paragraphs(verdict: PodVerdict, *, wide: bool = False) -> Iterator[str]:
    """What follows the sentence `verdict.verdict`: claims that wait, a paragraph per group of nodes, those that fit
    first, and what would help. `wide` leaves nothing out."""
    for claim in verdict.claims:
        first, *rest = claim_lines(claim)
        # What the sentence has said is not said again.
        if claim.verdict not in verdict.verdict:
            yield "\n".join([first, *rest])
        elif rest:
            yield "\n".join([f"claim {claim.claim}:", *rest])
    if verdict.prefilter:
        yield "\n".join(["on every node:", *(_reason(one) for one in verdict.prefilter)])
    groups: dict[tuple[bool, tuple[tuple[str, str], ...]], list[str]] = {}
    for name, node in verdict.nodes.items():
        alike = tuple((one.plugin, one.reason) for one in node.reasons)
        groups.setdefault((not node.fits, alike), []).append(name)
    for (_, reasons), names in sorted(groups.items(), key=lambda group: (group[0][0], -len(group[1]), group[1])):
        if reasons or not verdict.prefilter:
            yield "\n".join(_group(names, verdict.nodes, wide=wide))
    yield from closing_lines(verdict.notes, verdict.remedy_texts, verdict.not_enough, verdict.checks)


def group_paragraphs(report: GroupReport, *, wide: bool = False) -> Iterator[str]:
    """What follows the sentence of a group: what limits it per domain, its members, and what would help."""
    if report.limits:
        constrained = len(report.limits) > 1 or bool(report.limits[0].domain)
        yield "\n".join(line for limit in report.limits for line in _domain(limit, constrained=constrained))
    if report.lines:
        yield "\n".join(report.lines)
    if report.members:
        most = len(report.members) if wide else MAX_LISTED_MEMBERS
        lines = [line for member in report.members[:most] for line in _member(member)]
        more = len(report.members) - most
        yield "\n".join(["members:", *lines, *([f"  and {more} more"] if more > 0 else [])])
    yield from closing_lines(report.notes, report.remedy_texts, checks=report.checks)


def workload_paragraphs(report: WorkloadReport, *, wide: bool = False) -> Iterator[str]:
    """What follows the sentence of a workload: its pods, its claim templates, and the pod that matters."""
    if report.pods:
        # Those that are not ready come first.
        pods = sorted(report.pods, key=lambda pod: pod.state in ("ready", "succeeded"))
        most = len(pods) if wide else MAX_LISTED_MEMBERS
        lines = [f"  {pod.pod}: {pod.state}{f' on {pod.node}' if pod.node else ''}" for pod in pods[:most]]
        more = len(pods) - most
        yield "\n".join(["pods:", *lines, *([f"  and {more} more"] if more > 0 else [])])
    if report.templates:
        most = MAX_LISTED_MEMBERS if not wide else len(report.pods)
        yield "\n".join(["claim templates:", *(_template(one, most) for one in report.templates)])
    if report.notes:
        yield "\n".join(report.notes)
    if report.explained is not None:
        yield f"{report.explained.pod} (mooring explain pod/{report.explained.pod.partition('/')[2]}):"
        yield from pod_paragraphs(report.explained, wide=wide)


def _template(one: TemplateReport, most: int) -> str:
    parts = [f"{one.bound} bound"]
    if one.waiting:
        parts.append(f"not bound: {listed_names(one.waiting, most)}")
    if one.class_missing:
        parts.append(f"StorageClass {one.storage_class} does not exist")
    if one.kept:
        parts.append(f"kept from a larger size: {listed_names(one.kept, most)}")
    return f"  {one.template}: {', '.join(parts)}"


def _domain(limit: DomainLimit, *, constrained: bool) -> Iterator[str]:
    if constrained:
        yield f"{limit.domain}: {limit.members} of {limit.needed}"
    yield from (f"  {text}" for text in limit.limits)


def _member(member: MemberReport) -> Iterator[str]:
    where = f" on {member.node}" if member.node else ""
    detail = f": {member.detail}" if member.detail else ""
    yield f"  {member.pod}: {member.state}{where}{detail}"
    yield from (f"    {line}" for line in member.volumes)


def claim_lines(claim: ClaimReport) -> Iterator[str]:
    """How far a claim has come."""
    yield f"claim {claim.verdict}"
    yield from (f"  {note}" for note in claim.notes)
    yield from _volumes(claim.candidates, claim.failed, wide=False)


def closing_lines(
    notes: Sequence[str], remedy_texts: Sequence[str], not_enough: Sequence[str] = (), checks: Sequence[str] = ()
) -> Iterator[str]:
    """What else is known, what would help, what would not be enough, and what to look at."""
    if notes:
        yield "\n".join(notes)
    sections = (("what would help:", remedy_texts), ("not enough alone:", not_enough), ("what to check:", checks))
    for heading, texts in sections:
        if texts:
            yield "\n".join([heading, *(f"  - {text}" for text in texts)])


def listed_names(names: Iterable[str], most: int) -> str:
    """The first names, and how many there are besides."""
    known = list(names)
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more} more" if more > 0 else "")


def counted_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _group(names: Sequence[str], nodes: Mapping[str, NodeVerdict], *, wide: bool) -> Iterator[str]:
    most = len(names) if wide else MAX_LISTED_NODES
    first = nodes[names[0]]
    fit = "fits" if first.fits and len(names) == 1 else "fit"
    do = "" if first.fits else "does not " if len(names) == 1 else "do not "
    yield f"{listed_names(names, most)}: {do}{fit}"
    for place in range(len(first.reasons)):
        yield from _details([(name, nodes[name].reasons[place]) for name in names], most)
    shown = names if wide else _different(names, nodes)[:MAX_LISTED_NODES]
    for name in shown if first.volumes else ():
        if len(names) > 1:
            yield f"  volumes{', for example' if len(shown) < len(names) else ''} on {name}:"
        inset = "  " if len(names) > 1 else ""
        yield from (f"{inset}{line}" for claim in nodes[name].volumes for line in _on_node(claim, wide=wide))


def _on_node(claim: ClaimVerdict, *, wide: bool) -> Iterator[str]:
    yield f"  {claim.claim} {_claim(claim)}"
    # Where one would be made, volumes of other classes or other claims are no news.
    if wide or not claim.capacity_reports or not set(claim.failed) <= _EXPECTED_MISMATCHES:
        yield from _volumes(claim.candidates, claim.failed, wide=wide)
    for room in claim.capacity_reports if wide else claim.capacity_reports[:MAX_LISTED_CAPACITIES]:
        yield f"    {room.capacity} {room.detail}" if room.capacity else f"    {room.detail}"


def _details(answers: Sequence[tuple[str, Reason]], most: int) -> Iterator[str]:
    """A reason, with what is behind it on each node; once where that is the same on all."""
    reason = answers[0][1]
    if all(one.detail == reason.detail for _, one in answers):
        yield _reason(reason)
        return
    yield f"  {reason.plugin}: {reason.reason}"
    yield from (f"    {name}: {one.detail}" for name, one in answers[:most])
    if len(answers) > most:
        yield f"    and {len(answers) - most} more"


def _different(names: Sequence[str], nodes: Mapping[str, NodeVerdict]) -> list[str]:
    """One node for each way the claims fare."""
    by_fate: dict[tuple[tuple[str, ...], ...], str] = {}
    for name in names:
        fate = tuple(
            (each.claim, each.state, each.reason, each.detail, *(room.detail for room in each.capacity_reports[:1]))
            for each in nodes[name].volumes
        )
        by_fate.setdefault(fate, name)
    return list(by_fate.values())


def _reason(one: Reason) -> str:
    return f"  {one.plugin}: {one.reason}" + (f": {one.detail}" if one.detail else "")


def _claim(claim: ClaimVerdict) -> str:
    match claim.state:
        case "bound" if claim.reason:
            return f"is bound to {claim.volume}, which {claim.detail}" if claim.detail else f"has lost {claim.volume}"
        case "bound":
            return f"is bound to {claim.volume}"
        case "bind":
            return f"would be bound to {claim.volume}"
        case "provision":
            how = f" ({claim.detail})" if claim.detail else ""
            return f"would be provisioned with class {claim.storage_class}{how}"
        case _ if claim.capacity_reports and not claim.detail:
            return f"cannot be provisioned with class {claim.storage_class}; its driver reports:"
        case _:
            return f"gets no volume of class {claim.storage_class or '(none)'}: {claim.detail or claim.reason}"


def mismatch_counts(failed: Mapping[str, int]) -> str:
    """How many volumes fail what."""
    by_number = sorted(failed.items(), key=lambda each: -each[1])
    return ", ".join(f"{count} {volume_candidates.COUNTED.get(name, name)}" for name, count in by_number)


def _volumes(candidates: Sequence[Candidate], failed: Mapping[str, int], *, wide: bool) -> Iterator[str]:
    most = len(candidates) if wide else MAX_LISTED_VOLUMES
    for candidate in candidates[:most]:
        detail = f" ({candidate.detail})" if candidate.detail else ""
        yield f"    {candidate.volume} {candidate.reason}{detail}"
    more = sum(not candidate.criterion for candidate in candidates) + sum(failed.values()) - min(most, len(candidates))
    if more > 0:
        yield f"    and {more} more volumes do not match; in total: {mismatch_counts(failed)}"
