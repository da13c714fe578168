"""Shapes and sizes: what a volume offers and a claim asks for, apart from where.

Volumes of one class and one shape differ only in size, which is what lets `columns` compare them by the thousand.
Labels are no part of a shape: they differ from volume to volume, and claims rarely ask for them.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.quantity import Quantity, QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.meta import Amount
from mooring.api.views.volume import Volume

REMEMBERED: Final = 8192
"""Distinct spellings of sizes parsed once; a cluster writes few."""


@lru_cache(maxsize=REMEMBERED)
def exact_size(amount: Amount) -> Quantity:
    """A size as an exact number; sizes are compared exactly, so that 800E and 1500m work too."""
    return quantity.parse(amount)


def positive_size(amount: Amount) -> Quantity:
    """The same, of something that nobody can have less than none of. Raises QuantityError."""
    size = exact_size(amount)
    if size < 0:
        raise QuantityError(str(amount), "is negative")
    return size


class Shape(NamedTuple):
    """Everything a claim must find on a volume besides class, size, labels and place."""

    mode: str
    access_modes: frozenset[str]
    attributes_class: str

    def serves(self, wanted: "Shape") -> bool:
        """Whether a volume of this shape does for a claim that wants the other; it may offer more access modes."""
        return (
            self.mode == wanted.mode
            and self.attributes_class == wanted.attributes_class
            and wanted.access_modes <= self.access_modes
        )


def shape_of(thing: Volume | Claim) -> Shape:
    spec = thing.spec
    return Shape(spec.volume_mode, frozenset(spec.access_modes), spec.volume_attributes_class_name)
