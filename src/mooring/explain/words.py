"""An explanation for people: nodes grouped by what speaks against them, with the volumes behind it. Plain text.

Everything in it stands in the verdicts too; which of it is said, and in which order, is decided here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mooring.explain import mismatches
from mooring.explain.verdicts import Candidate, ClaimStanding, ClaimVerdict, NodeVerdict, PodVerdict, Reason
from mooring.volumes.matching import Criterion

#: How many nodes of a group are named, and how many volumes of a claim; the others are counted.
NODES_NAMED: Final = 5
VOLUMES_NAMED: Final = 3
ROOMS_NAMED: Final = 2
#: What volumes fail that nothing was expected of.
_NO_NEWS: Final = frozenset({Criterion.CLASS.name, Criterion.RESERVED.name, "HELD", "ROLLING_BACK"})


def paragraphs(verdict: PodVerdict, *, wide: bool = False) -> Iterator[str]:
    """What follows the sentence `verdict.verdict`: claims that wait, a paragraph per group of nodes, those that fit
    first, and what would help. `wide` leaves nothing out."""
    for claim in verdict.claims:
        first, *rest = standing(claim)
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
    yield from closing(verdict.notes, verdict.helps, verdict.not_enough, verdict.checks)


def standing(claim: ClaimStanding) -> Iterator[str]:
    """How far a claim has come."""
    yield f"claim {claim.verdict}"
    yield from (f"  {note}" for note in claim.notes)
    yield from _volumes(claim.candidates, claim.failed, wide=False)


def closing(
    notes: Sequence[str], helps: Sequence[str], not_enough: Sequence[str] = (), checks: Sequence[str] = ()
) -> Iterator[str]:
    """What else is known, what would help, what would not be enough, and what to look at."""
    if notes:
        yield "\n".join(notes)
    for heading, texts in (
        ("what would help:", helps),
        ("not enough alone:", not_enough),
        ("what to look at:", checks),
    ):
        if texts:
            yield "\n".join([heading, *(f"  - {text}" for text in texts)])


def listed(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _group(names: Sequence[str], nodes: Mapping[str, NodeVerdict], *, wide: bool) -> Iterator[str]:
    most = len(names) if wide else NODES_NAMED
    first = nodes[names[0]]
    yield f"{listed(names, most)}: {_fits(names, first)}"
    for place in range(len(first.reasons)):
        yield from _details([(name, nodes[name].reasons[place]) for name in names], most)
    shown = names if wide else _different(names, nodes)[:NODES_NAMED]
    for name in shown if first.volumes else ():
        if len(names) > 1:
            yield f"  volumes{', for example' if len(shown) < len(names) else ''} on {name}:"
        inset = "  " if len(names) > 1 else ""
        yield from (f"{inset}{line}" for claim in nodes[name].volumes for line in _on_node(claim, wide=wide))


def _on_node(claim: ClaimVerdict, *, wide: bool) -> Iterator[str]:
    yield f"  {claim.claim} {_claim(claim)}"
    # Where one would be made, volumes of other classes or other claims are no news.
    if wide or not claim.rooms or not set(claim.failed) <= _NO_NEWS:
        yield from _volumes(claim.candidates, claim.failed, wide=wide)
    for room in claim.rooms if wide else claim.rooms[:ROOMS_NAMED]:
        yield f"    {room.capacity} {room.detail}" if room.capacity else f"    {room.detail}"


def _details(said: Sequence[tuple[str, Reason]], most: int) -> Iterator[str]:
    """A reason, with what is behind it on each node; once where that is the same on all."""
    reason = said[0][1]
    if all(one.detail == reason.detail for _, one in said):
        yield _reason(reason)
        return
    yield f"  {reason.plugin}: {reason.reason}"
    yield from (f"    {name}: {one.detail}" for name, one in said[:most])
    if len(said) > most:
        yield f"    and {len(said) - most} more"


def _different(names: Sequence[str], nodes: Mapping[str, NodeVerdict]) -> list[str]:
    """One node for each way the claims fare."""
    by_fate: dict[tuple[tuple[str, ...], ...], str] = {}
    for name in names:
        fate = tuple(
            (claim.claim, claim.state, claim.reason, claim.detail, *(room.detail for room in claim.rooms[:1]))
            for claim in nodes[name].volumes
        )
        by_fate.setdefault(fate, name)
    return list(by_fate.values())


def _fits(names: Sequence[str], node: NodeVerdict) -> str:
    if node.fits:
        return "fits" if len(names) == 1 else "fit"
    return "does not fit" if len(names) == 1 else "do not fit"


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
            return f"would have a volume of class {claim.storage_class} made for it{how}"
        case _ if claim.rooms and not claim.detail:
            return f"gets no volume of class {claim.storage_class}, for what its driver reports:"
        case _:
            return f"gets no volume of class {claim.storage_class or '(none)'}: {claim.detail or claim.reason}"


def counted(failed: Mapping[str, int]) -> str:
    """How many volumes fail what."""
    by_number = sorted(failed.items(), key=lambda each: -each[1])
    return ", ".join(f"{count} {mismatches.COUNTED.get(name, name)}" for name, count in by_number)


def _volumes(candidates: Sequence[Candidate], failed: Mapping[str, int], *, wide: bool) -> Iterator[str]:
    most = len(candidates) if wide else VOLUMES_NAMED
    for candidate in candidates[:most]:
        detail = f" ({candidate.detail})" if candidate.detail else ""
        yield f"    {candidate.volume} {candidate.reason}{detail}"
    more = sum(not candidate.criterion for candidate in candidates) + sum(failed.values()) - min(most, len(candidates))
    if more > 0:
        yield f"    and {more} more volumes do not do; in all: {counted(failed)}"
