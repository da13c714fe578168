"""The claims that wait for a volume, by class, shape and size: whom to call when one becomes free.

Pure; kept by `facts`. One claim is called for each volume, the largest it is large enough for; calling all that wait
would have all but one look in vain. Who was called, or is looking, is not called before it has had its turn.
"""

import itertools
from collections import defaultdict

from mooring.api import keys
from mooring.api.label_selector import SelectorError
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.pvcontroller.by_size import BySize
from mooring.volumes.matching import Needs, needs_of
from mooring.volumes.shape import Shape, exact_size, shape_of


class WaitingClaims:
    def __init__(self) -> None:
        self._sizes: BySize[tuple[str, Shape], int] = BySize()
        #: Waiting claims without a selector, and those with one, which have to be asked one by one.
        self._plain: dict[str, Needs] = {}
        self._picky: defaultdict[str, dict[str, Needs]] = defaultdict(dict)
        self._shapes: defaultdict[str, dict[Shape, int]] = defaultdict(dict)
        self._called: set[str] = set()
        self._arrivals = itertools.count()

    def moved(self, before: Claim | None, after: Claim | None) -> None:
        if before is not None:
            self._remove(before)
        if after is not None and after.key not in self._called:
            self._put(after)

    def call(self, volume: Volume) -> Claim | None:
        """The claim that should look at a free volume; it is not called again before `had_turn`."""
        claim = self._fitting(volume)
        if claim is not None:
            self.looks(claim)
        return claim

    def looks(self, claim: Claim) -> None:
        """A claim looks for a volume by itself."""
        self._called.add(claim.key)
        self._remove(claim)

    def had_turn(self, key: str, now: Claim | None) -> None:
        """A claim has looked; `now` is the claim as it is."""
        self._called.discard(key)
        self.moved(now, now)

    def _fitting(self, volume: Volume) -> Claim | None:
        try:
            offered, size = shape_of(volume), exact_size(volume.size)
        except QuantityError:
            return None
        for shape in self._shapes.get(volume.storage_class, ()):
            if offered.serves(shape):
                key = self._sizes.largest_up_to((volume.storage_class, shape), size)
                if key is not None:
                    return self._plain[key].claim
        picky = self._picky.get(volume.storage_class, {}).values()
        return next((needs.claim for needs in picky if needs.why_not(volume) is None), None)

    def _put(self, claim: Claim) -> None:
        if claim.spec.volume_name or keys.BIND_COMPLETED in claim.metadata.annotations:
            return
        try:
            needs = needs_of(claim)
        except (SelectorError, QuantityError):
            # The claim's own turn says what is wrong with it.
            return
        if needs.selects:
            self._picky[needs.storage_class][claim.key] = needs
            return
        self._plain[claim.key] = needs
        self._sizes.add((needs.storage_class, needs.shape), needs.size, claim.key, next(self._arrivals))
        shapes = self._shapes[needs.storage_class]
        shapes[needs.shape] = shapes.get(needs.shape, 0) + 1

    def _remove(self, claim: Claim) -> None:
        self._picky[claim.storage_class].pop(claim.key, None)
        if not self._picky[claim.storage_class]:
            del self._picky[claim.storage_class]
        needs = self._plain.pop(claim.key, None)
        if needs is None:
            return
        self._sizes.discard((needs.storage_class, needs.shape), needs.size, claim.key)
        shapes = self._shapes[needs.storage_class]
        shapes[needs.shape] -= 1
        if not shapes[needs.shape]:
            del shapes[needs.shape]
