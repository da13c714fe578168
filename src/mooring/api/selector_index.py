"""Label selectors, found by the labels they could match.

Selectors of affinity terms and disruption budgets nearly always name a value: `app=db`. Filed under such a label, the
hundreds that speak of other apps are never looked at when a pod comes along. It narrows down and decides nothing: who
takes a candidate from here still asks the selector itself.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from mooring.api.label_selector import LabelSelector, Operator, Requirement

K = TypeVar("K", bound=Hashable)

_Label = tuple[str, str]


class SelectorIndex(Generic[K]):
    """Keys of whatever has a selector, filed under one label that all it matches have, or under none."""

    def __init__(self) -> None:
        self._by_label: dict[_Label, dict[K, None]] = {}
        #: Those whose selector asks for no certain value.
        self._unlabelled: dict[K, None] = {}
        self._labels: dict[K, tuple[_Label, ...]] = {}

    def put(self, key: K, selector: LabelSelector) -> None:
        """File a key that is not in yet. A selector that matches nothing is filed nowhere."""
        if selector.never:
            return
        named = [one for one in selector.requirements if one.operator is Operator.IN]
        if not named:
            self._unlabelled[key] = None
            return
        # Under the label that the fewest others are filed under: `tier=backend` would find everybody.
        labels = _labels(min(named, key=self._crowd))
        self._labels[key] = labels
        for label in labels:
            self._by_label.setdefault(label, {})[key] = None

    def remove(self, key: K) -> None:
        """Does nothing for a key that is not in."""
        self._unlabelled.pop(key, None)
        for label in self._labels.pop(key, ()):
            filed = self._by_label[label]
            del filed[key]
            if not filed:
                del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[K]:
        """The keys whose selectors could match these labels, each once."""
        yield from self._unlabelled
        for label in labels.items():
            yield from self._by_label.get(label, ())

    def _crowd(self, requirement: Requirement) -> int:
        return sum(len(self._by_label.get(label, ())) for label in _labels(requirement))


def _labels(requirement: Requirement) -> tuple[_Label, ...]:
    """What a matching object has one of: never two, since a label has one value."""
    return tuple((requirement.key, value) for value in requirement.values)
