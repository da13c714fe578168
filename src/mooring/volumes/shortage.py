"""Text of a capacity shortage: what a pod's claims request and what drivers report per segment.

For events and the CLI; it decides nothing. Reported capacity is public, claims in flight are not: only their sum is
shown.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from mooring.api import quantity
from mooring.volumes.capacity import CapacitySegment
from mooring.volumes.decider import Provisioners, grouped
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.topology import Affinity

#: Segments that are named, those with the most capacity first; the others are counted.
MAX_LISTED_SEGMENTS: Final = 5

#: What the sentences end with.
ACTION: Final = "Free or add storage where the pod can run, or ask for less; mooring capacity shows all segments."

#: What an affinity means that no node can have.
NO_TOPOLOGY: Final = "nowhere"

_UNITS: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def shortage_text(claims: Iterable[ClaimRequirements], provisioners: Provisioners) -> str:
    """One sentence per class whose free storage is looked at; "" where none is."""
    by_class = grouped(filter(provisioners.tracks_capacity, claims), lambda claim: claim.storage_class)
    provisioners.charges.refresh()
    segments = provisioners.capacity.segments()
    told = [
        f"{_asked(alike)} of class {name}; {_free_text([one for one in segments if one.storage_class == name])}."
        for name, alike in by_class.items()
    ]
    return " ".join([*told, ACTION]) if told else ""


def _asked(claims: list[ClaimRequirements]) -> str:
    sizes = ", ".join(f"{claim.claim.name} {readable_size(quantity.to_bytes(claim.claim.request))}" for claim in claims)
    return f"asked for: {sizes}"


def _free_text(segments: list[CapacitySegment]) -> str:
    if not segments:
        return "no driver reports capacity for it"
    best = sorted(segments, key=lambda segment: (-_usable(segment), segment.key))
    named = ", ".join(_figures(segment) for segment in best[:MAX_LISTED_SEGMENTS])
    return f"free: {named}{_others(best)}"


def _others(best: Sequence[CapacitySegment]) -> str:
    """The segments that are not named, told apart from the last of those that are."""
    others = best[MAX_LISTED_SEGMENTS:]
    if not others:
        return ""
    as_much = sum(_usable(segment) == _usable(best[MAX_LISTED_SEGMENTS - 1]) for segment in others)
    parts = [(as_much, "as much"), (len(others) - as_much, "less")]
    told = [f"{count} {'segment' if count == 1 else 'segments'} with {what}" for count, what in parts if count]
    return f" and {' and '.join(told)}"


def _usable(segment: CapacitySegment) -> int:
    """What one volume could have there."""
    return min(segment.unused, segment.limit)


def _figures(segment: CapacitySegment) -> str:
    figures = readable_size(segment.free)
    if segment.charged:
        figures += f" less {readable_size(segment.charged)} in flight"
    if segment.limit != segment.free:
        figures += f", at most {readable_size(segment.limit)} each"
    return f"{topology_text(segment.segment)} ({figures})"


def topology_text(segment: Affinity) -> str:
    """Which nodes a segment or a volume's affinity means, by their labels."""
    if segment is None:
        return "everywhere"
    said = (",".join(map(str, (*term.expressions, *term.fields))) for term in segment.terms)
    return " or ".join(term for term in said if term) or NO_TOPOLOGY


def readable_size(size: int) -> str:
    """In the largest unit that leaves at least one, with a digit behind the point where it needs one."""
    for power, unit in zip(range(len(_UNITS), 0, -1), _UNITS, strict=True):
        if size >= 1024**power:
            whole, rest = divmod(size, 1024**power)
            return f"{whole}{unit}" if not rest else f"{size / 1024**power:.1f}{unit}"
    return str(size)
