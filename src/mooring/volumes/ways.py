"""The ways in which claims can be served: each by an existing volume of some driver, or by one that is made.

Asked by `decision` where it matters which claims get what: where there is not room for volumes for all of them, or a
node takes no more volumes of a driver. For few claims all ways are listed. Pods with very many are rare; of their ways
those are tried in which the largest or the smallest few differ from the rest. Pure.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Final, NamedTuple

from mooring.volumes.contest import Asked
from mooring.volumes.matching import Needs

MOST: Final = 64
"""Ways that are all listed: six claims with two choices each."""


class Source(NamedTuple):
    """Where a volume comes from."""

    #: Of existing volumes, None for any and "" for such as no driver has to attach.
    driver: str | None
    made: bool = False


#: Whoever makes it.
MADE: Final = Source(None, made=True)


class Way(NamedTuple):
    """Existing volumes for some claims, new ones for the others."""

    given: tuple[Asked, ...]
    made: tuple[Needs, ...]
    #: Of all the volumes.
    drivers: tuple[str, ...]


def of(choices: Sequence[tuple[Needs, Sequence[Source]]], *, most_given_first: bool = False) -> Iterator[Way]:
    """The ways to serve claims from these sources. With `most_given_first` the first makes as few volumes as possible
    and the next ones as many."""
    claims = [claim for claim, _ in choices]
    sources = [list(found) for _, found in choices]
    few = math.prod(map(len, sources)) <= MOST
    listed = list(product(*sources) if few else islice(dict.fromkeys(_extremes(claims, sources)), MOST))
    if most_given_first:
        listed.sort(key=lambda chosen: sum(source.made for source in chosen), reverse=True)
        listed = [*listed[-1:], *listed[:-1]]
    return (_way(claims, chosen) for chosen in listed)


def _way(claims: Sequence[Needs], chosen: Sequence[Source]) -> Way:
    pairs = list(zip(claims, chosen, strict=True))
    return Way(
        tuple(Asked(claim, source.driver) for claim, source in pairs if not source.made),
        tuple(claim for claim, source in pairs if source.made),
        tuple(source.driver for source in chosen if source.driver),
    )


def _extremes(claims: Sequence[Needs], sources: Sequence[Sequence[Source]]) -> Iterator[tuple[Source, ...]]:
    """All claims from one source as far as they can, but for the largest or the smallest few, which take another."""
    order = sorted(range(len(claims)), key=lambda position: claims[position].size)
    known = dict.fromkeys(source for found in sources for source in found)
    for usual, other in product(known, known):
        for number in range(len(order) + 1 if usual != other else 1):
            for few in (order[:number], order[len(order) - number :]):
                wanted = [other if position in few else usual for position in range(len(order))]
                yield tuple(
                    source if source in found else found[0] for source, found in zip(wanted, sources, strict=True)
                )
