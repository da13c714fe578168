"""An explanation for people: nodes grouped by what speaks against them, with the volumes behind it. Plain text."""

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.explain.verdicts import ClaimVerdict, NodeVerdict, PodVerdict, Reason

#: How many nodes of a group are named, and how many volumes of a claim; the others are counted.
NODES_NAMED: Final = 5
VOLUMES_NAMED: Final = 3


def paragraphs(verdict: PodVerdict) -> Iterator[str]:
    """What follows the sentence `verdict.verdict`: a paragraph per group of nodes, those that fit first."""
    if verdict.prefilter:
        yield "\n".join(["on every node:", *_reasons(verdict.prefilter)])
    groups: dict[tuple[bool, tuple[Reason, ...]], list[str]] = {}
    for name, node in verdict.nodes.items():
        groups.setdefault((not node.fits, node.reasons), []).append(name)
    for (_, reasons), names in sorted(groups.items(), key=lambda group: (group[0][0], -len(group[1]), group[1])):
        if reasons or not verdict.prefilter:
            yield "\n".join(_group(names, verdict.nodes[names[0]]))


def _group(names: Sequence[str], first: NodeVerdict) -> Iterator[str]:
    yield f"{_listed(names, NODES_NAMED)}: {_fits(names, first)}"
    yield from _reasons(first.reasons)
    if first.volumes and len(names) > 1:
        yield f"  volumes, for example on {names[0]}:"
    for claim in first.volumes:
        yield f"  {claim.claim} {_claim(claim)}"
        for candidate in claim.candidates[:VOLUMES_NAMED]:
            yield f"    {candidate.volume} {candidate.reason}"
        needed = sum(not candidate.criterion for candidate in claim.candidates)
        more = needed + sum(claim.failed.values()) - VOLUMES_NAMED
        if more > 0:
            yield f"    and {more} more volumes do not do"


def _fits(names: Sequence[str], node: NodeVerdict) -> str:
    if node.fits:
        return "fits" if len(names) == 1 else "fit"
    return "does not fit" if len(names) == 1 else "do not fit"


def _reasons(reasons: Sequence[Reason]) -> Iterator[str]:
    return (f"  {one.plugin}: {one.reason}" for one in reasons)


def _claim(claim: ClaimVerdict) -> str:
    match claim.state:
        case "bound" if claim.reason:
            return f"is bound to {claim.volume}: {claim.reason}"
        case "bound":
            return f"is bound to {claim.volume}"
        case "bind":
            return f"would be bound to {claim.volume}"
        case "provision":
            return f"would have a volume of class {claim.storage_class} made for it"
        case _:
            return f"gets no volume of class {claim.storage_class or '(none)'}: {claim.reason}"


def _listed(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
