"""Which volume goes to which claim on one node: distinct volumes, as many claims as possible, little waste.

Below `volume_index`, which supplies the candidates. Numbers in, positions out; it knows neither nodes nor objects.
An answer is better when more claims are served, then when less size is wasted, then when it gives smaller volumes
(by size, then name) to earlier claims. Taking the smallest volume that does, claim by claim, is the first of all
answers in that last order, so wherever Kubernetes' own greedy choice is as good as any, it is the answer.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

_NOBODY: Final = -1

MANY: Final = 48
"""Claims of a pod up to which waste is minimised; the exact arithmetic takes hundredths of a second then. Of more, as
many are served as possible, the largest first with the smallest volume that does."""


class Sized(NamedTuple):
    """A volume as far as choosing goes; sorts by size, then by name."""

    size: int
    name: str


def all_served(candidates: Sequence[Sequence[Sized]]) -> bool:
    """Whether every claim can have a volume of its own among its candidates."""
    return None not in _most(candidates, range(len(candidates)))


def assign(requests: Sequence[int], candidates: Sequence[Sequence[Sized]]) -> list[Sized | None]:
    """The best assignment: for each claim its volume, or None. `candidates` are in ascending order per claim."""
    first_choices = [volumes[0] if volumes else None for volumes in candidates]
    chosen = [volume for volume in first_choices if volume is not None]
    if len(set(chosen)) == len(chosen):
        return first_choices
    if len(requests) > MANY:
        return _most(candidates, sorted(range(len(requests)), key=lambda claim: -requests[claim]))
    volumes = sorted({volume for of_claim in candidates for volume in of_claim})
    costs = _costs(requests, candidates, volumes)
    return [volumes[column] if column < len(volumes) else None for column in _cheapest(costs)]


def _most(candidates: Sequence[Sequence[Sized]], order: Iterable[int]) -> list[Sized | None]:
    """As many claims served as possible. Each in turn takes its first volume that is left, or has the holder of one
    move elsewhere where that is possible."""
    chosen: list[Sized | None] = [None] * len(candidates)
    holder: dict[Sized, int] = {}
    for claim in order:
        volume = next((one for one in candidates[claim] if one not in holder), None)
        wanted_by = {} if volume is not None else _chain(claim, candidates, holder)
        if volume is None:
            volume = next((one for one in wanted_by if one not in holder), None)
        taker = claim
        while volume is not None:
            taker = wanted_by.get(volume, claim)
            left, chosen[taker], holder[volume] = chosen[taker], volume, taker
            volume = left
    return chosen


def _chain(claim: int, candidates: Sequence[Sequence[Sized]], holder: Mapping[Sized, int]) -> dict[Sized, int]:
    """Volumes by the claim that would take them if their holders moved on, nearest first, up to one nobody holds."""
    wanted_by: dict[Sized, int] = {}
    waiting = deque([claim])
    while waiting:
        wanting = waiting.popleft()
        for volume in candidates[wanting]:
            if volume not in wanted_by:
                wanted_by[volume] = wanting
                if volume not in holder:
                    return wanted_by
                waiting.append(holder[volume])
    return {}


def _costs(requests: Sequence[int], candidates: Sequence[Sequence[Sized]], volumes: Sequence[Sized]) -> list[list[int]]:
    """A row per claim, a column per volume and per claim that may go without.

    The three parts of "better" become digits of one exact integer: a claim left out outweighs any waste, and any
    waste outweighs the place of the volumes in their order, where an earlier claim outweighs all later ones.
    """
    claims = len(requests)
    base = len(volumes) + 1
    waste_unit = base**claims
    most = volumes[-1].size - min(requests)
    left_out = (claims * most + 1) * waste_unit
    forbidden = (claims + 1) * left_out
    rows: list[list[int]] = []
    for claim, request in enumerate(requests):
        allowed = set(candidates[claim])
        weight = base ** (claims - 1 - claim)
        row = [
            (volume.size - request) * waste_unit + place * weight if volume in allowed else forbidden
            for place, volume in enumerate(volumes)
        ]
        row += [left_out + len(volumes) * weight] * claims
        rows.append(row)
    return rows


def _cheapest(costs: Sequence[Sequence[int]]) -> list[int]:
    """The column of each row in the assignment of least total cost; there are more columns than rows.

    Shortest augmenting paths with potentials: rows are added one by one, each along the cheapest chain of moves.
    """
    columns = len(costs[0])
    row_potential = [0] * len(costs)
    column_potential = [0] * columns
    holder = [_NOBODY] * columns
    for start in range(len(costs)):
        came_from = [_NOBODY] * columns
        reach = [costs[start][c] - row_potential[start] - column_potential[c] for c in range(columns)]
        unsettled = set(range(columns))
        distance, target = min((reach[c], c) for c in unsettled)
        while holder[target] != _NOBODY:
            unsettled.remove(target)
            row = holder[target]
            for c in unsettled:
                length = distance + costs[row][c] - row_potential[row] - column_potential[c]
                if length < reach[c]:
                    reach[c], came_from[c] = length, target
            distance, target = min((reach[c], c) for c in unsettled)
        # Potentials keep every reduced cost at zero or above, and at zero along the chosen pairs.
        row_potential[start] += distance
        for c in set(range(columns)) - unsettled:
            row_potential[holder[c]] += distance - reach[c]
            column_potential[c] -= distance - reach[c]
        while came_from[target] != _NOBODY:
            holder[target] = holder[came_from[target]]
            target = came_from[target]
        holder[target] = start
    chosen = {row: column for column, row in enumerate(holder)}
    return [chosen[row] for row in range(len(costs))]
