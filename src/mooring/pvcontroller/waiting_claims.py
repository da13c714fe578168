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
from mooring.pvcontroller.by_shape import ByShape, Place
from mooring.volumes.matching import Needs, needs_of
from mooring.volumes.shape import exact_size, shape_of


class WaitingClaims:
    def __init__(self) -> None:
        self._filed: ByShape[int] = ByShape()
        self._claims: dict[str, Claim] = {}
        #: By class, claims that ask for labels: they have to be asked one by one.
        self._picky: defaultdict[str, dict[str, Needs]] = defaultdict(dict)
        self._called: set[str] = set()
        self._arrivals = itertools.count()

    def __contains__(self, key: str) -> bool:
        """Whether the claim of this key waits and could be called."""
        return key in self._claims

    def moved(self, before: Claim | None, after: Claim | None) -> None:
        """A claim was `before` and is `after`."""
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
        for shape, sizes in self._filed.shapes(volume.storage_class).items():
            key = sizes.largest_up_to(size) if offered.serves(shape) else None
            if key is not None:
                return self._claims[key]
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
        self._claims[claim.key] = claim
        if needs.selects:
            self._picky[needs.storage_class][claim.key] = needs
        else:
            place = Place(needs.storage_class, needs.shape, needs.size)
            self._filed.put(claim.key, place, next(self._arrivals))

    def _remove(self, claim: Claim) -> None:
        self._filed.discard(claim.key)
        self._claims.pop(claim.key, None)
        picky = self._picky.get(claim.storage_class, {})
        if picky.pop(claim.key, None) is not None and not picky:
            del self._picky[claim.storage_class]
