"""Topology terms: sets of label pairs, how they are ordered, and how a claim's name spreads volumes over them.

Pure. The unit in which `accessibility` speaks to drivers and `segments` to the scheduler. The order, the rotation and
the hash are external-provisioner's to the bit, so that volumes of a StatefulSet land where they would land with it.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mooring.api.views.storage import TopologyTerm

Term = tuple[tuple[str, str], ...]
"""Label pairs sorted by key; all of them must hold."""

#: FNV-1 with 32 bits: multiply, then xor. (FNV-1a does it the other way round.)
FNV_OFFSET: Final = 2166136261
FNV_PRIME: Final = 16777619
UINT32: Final = 2**32


def term(segments: Mapping[str, str]) -> Term:
    return tuple(sorted(segments.items()))


def within(part: Term, whole: Term) -> bool:
    """Whether all pairs of one term are among the pairs of another."""
    return set(part) <= set(whole)


def ordered(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Each term once: shorter ones first, then by key and value."""
    return tuple(sorted(set(terms), key=lambda each: (len(each), each)))


def flattened(allowed: Sequence[TopologyTerm]) -> tuple[Term, ...]:
    """A class's allowedTopologies as terms with one value per key; an entry without expressions adds nothing."""
    terms: list[Term] = []
    for entry in allowed:
        expressions = entry.match_label_expressions
        if expressions:
            choices = itertools.product(*(expression.values for expression in expressions))
            named = [expression.key for expression in expressions]
            terms += (term(dict(zip(named, chosen, strict=True))) for chosen in choices)
    return tuple(terms)


def rotated(terms: tuple[Term, ...], by: int) -> tuple[Term, ...]:
    start = by % len(terms)
    return terms[start:] + terms[:start]


def offset(claim_name: str) -> int:
    """Where in the order a claim begins: claims of one StatefulSet begin one after the other.

    `data-web-2` and `log-web-2` both hash `web` and add 2, so the volumes of one pod land alike.
    """
    hashed, index = _hashed_part(claim_name)
    return (fnv1_32(hashed) + index) % UINT32


def _hashed_part(claim_name: str) -> tuple[str, int]:
    stem, dash, ordinal = claim_name.rpartition("-")
    if not dash or not ordinal.isascii() or not ordinal.isdigit() or int(ordinal) >= UINT32:
        return claim_name, 0
    return stem.rpartition("-")[2], int(ordinal)


def fnv1_32(text: str) -> int:
    value = FNV_OFFSET
    for byte in text.encode():
        value = (value * FNV_PRIME % UINT32) ^ byte
    return value
