"""The claims that wait for a volume, each asked whether this one does for it: the matcher's word, turned round.

Below `volume`. Only existing volumes are looked at here; whether one could be made for a claim is `standings`' matter.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME
from mooring.api.label_selector import SelectorError
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.explain import candidates
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.verdicts import Taker
from mooring.volumes.matching import Needs, needs_of
from mooring.volumes.pod_claims import is_delayed

#: How many claims are told of; the others are counted.
NAMED: Final = 10
#: Of a claim whose size or selector makes no sense.
SENSELESS: Final = "SENSELESS"


class Asked(NamedTuple):
    """The claims that wait, those the volume does for first, and how many fail which criterion."""

    takers: tuple[Taker, ...]
    failed: dict[str, int]
    #: How many the volume does for.
    served: int

    @property
    def waiting(self) -> int:
        return self.served + sum(self.failed.values())


def asked(volume: Volume, objects: ClusterObjects) -> Asked:
    """All claims that wait for a volume."""
    waiting = sorted((claim for claim in objects.of(CLAIM) if waits(claim)), key=lambda claim: claim.key)
    judged = [(claim, judge(claim, volume)) for claim in waiting]
    judged.sort(key=lambda each: bool(each[1].criterion))
    failed = Counter(taker.criterion for _, taker in judged if taker.criterion)
    takers = tuple(taker if taker.criterion else _coming(claim, volume, objects) for claim, taker in judged[:NAMED])
    return Asked(takers, dict(failed), len(judged) - failed.total())


def waits(claim: Claim) -> bool:
    """Whether a claim is still to get its volume, and asks for none by name."""
    return not (claim.deleting or claim.spec.volume_name or claim.status.phase in ("Bound", "Lost"))


def judge(claim: Claim, volume: Volume) -> Taker:
    """What the volume is to the claim, wherever it is to be used."""
    needs = _needs(claim)
    if isinstance(needs, str):
        return Taker(claim.key, SENSELESS, "cannot be understood", needs)
    [found] = candidates.anywhere(needs, (volume,)).candidates
    if not found.criterion:
        return Taker(claim.key)
    return Taker(claim.key, found.criterion, found.reason, found.detail)


def _coming(claim: Claim, volume: Volume, objects: ClusterObjects) -> Taker:
    """Of a claim the volume does for: what else it waits for, and which volume would be taken before."""
    classes = {each.name: each for each in objects.of(STORAGE_CLASS)}
    delayed = is_delayed(claim, classes)
    parts = ["once a pod that uses it is placed where the volume can be reached"] if delayed is True else []
    better = _smaller(claim, volume, objects.of(VOLUME))
    parts += [f"{better}, which is smaller, does as well and is taken before"] if better else []
    return Taker(claim.key, detail="; ".join(parts))


def _smaller(claim: Claim, volume: Volume, others: Iterable[Volume]) -> str:
    """The smallest volume that does for the claim, where it is smaller and anybody may have it there; "" otherwise."""
    needs = _needs(claim)
    if isinstance(needs, str) or volume.required_affinity is not None:
        # SEEN: where volumes are on nodes, the smallest of the chosen node is taken, and that is not known yet.
        return ""
    size = _size(volume)
    found = [each for each in others if each.required_affinity is None and _size(each) < size and _does(needs, each)]
    return min(found, key=lambda each: (_size(each), each.name)).name if found else ""


def _does(needs: Needs, volume: Volume) -> bool:
    return not candidates.anywhere(needs, (volume,)).candidates[0].criterion


def _size(volume: Volume) -> float:
    try:
        return float(quantity.to_bytes(volume.size))
    except QuantityError:
        return float("inf")


def _needs(claim: Claim) -> Needs | str:
    try:
        return needs_of(claim)
    except (SelectorError, QuantityError) as problem:
        return str(problem)
