"""Why there is no room, in figures: what a pod's claims ask for, and what drivers report where.

For events and for people; it decides nothing. Figures of segments may be seen by every reader; the claims in flight
there may not, so only their sum is told.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from mooring.api import quantity
from mooring.volumes.affinity import Affinity
from mooring.volumes.capacity import Room
from mooring.volumes.matching import Needs
from mooring.volumes.provisioning import Provisioners

#: Segments that are named, those with the most room first; the others are counted.
NAMED: Final = 5

#: What the sentences end with.
ACTION: Final = "Free or add storage where the pod can run, or ask for less; mooring capacity shows all segments."

#: What an affinity means that no node can have.
NOWHERE: Final = "nowhere"

_UNITS: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def shortage(claims: Iterable[Needs], provisioners: Provisioners) -> str:
    """One sentence per class whose free storage is looked at; "" where none is."""
    by_class: dict[str, list[Needs]] = {}
    for claim in claims:
        if provisioners.tracks_capacity(claim):
            by_class.setdefault(claim.storage_class, []).append(claim)
    provisioners.charges.refresh()
    rooms = provisioners.capacity.rooms()
    told = [
        f"{_asked(alike)} of class {name}; {_told([room for room in rooms if room.storage_class == name])}."
        for name, alike in by_class.items()
    ]
    return " ".join([*told, ACTION]) if told else ""


def _asked(claims: list[Needs]) -> str:
    sizes = ", ".join(f"{claim.claim.name} {readable(quantity.to_bytes(claim.claim.request))}" for claim in claims)
    return f"asked for: {sizes}"


def _told(rooms: list[Room]) -> str:
    if not rooms:
        return "no driver reports capacity for it"
    best = sorted(rooms, key=lambda room: (-_usable(room), room.key))
    named = ", ".join(_figures(room) for room in best[:NAMED])
    return f"free: {named}{_others(best)}"


def _others(best: Sequence[Room]) -> str:
    """The segments that are not named, told apart from the last of those that are."""
    others = best[NAMED:]
    if not others:
        return ""
    as_much = sum(_usable(room) == _usable(best[NAMED - 1]) for room in others)
    parts = [(as_much, "as much"), (len(others) - as_much, "less")]
    told = [f"{count} {'segment' if count == 1 else 'segments'} with {what}" for count, what in parts if count]
    return f" and {' and '.join(told)}"


def _usable(room: Room) -> int:
    """What one volume could have there."""
    return min(room.unused, room.limit)


def _figures(room: Room) -> str:
    figures = readable(room.free)
    if room.charged:
        figures += f" less {readable(room.charged)} in flight"
    if room.limit != room.free:
        figures += f", at most {readable(room.limit)} each"
    return f"{where(room.segment)} ({figures})"


def where(segment: Affinity) -> str:
    """Which nodes a segment or a volume's affinity means, by their labels."""
    if segment is None:
        return "everywhere"
    said = (",".join(map(str, (*term.expressions, *term.fields))) for term in segment.terms)
    return " or ".join(term for term in said if term) or NOWHERE


def readable(size: int) -> str:
    """In the largest unit that leaves at least one, with a digit behind the point where it needs one."""
    for power, unit in zip(range(len(_UNITS), 0, -1), _UNITS, strict=True):
        if size >= 1024**power:
            whole, rest = divmod(size, 1024**power)
            return f"{whole}{unit}" if not rest else f"{size / 1024**power:.1f}{unit}"
    return str(size)
