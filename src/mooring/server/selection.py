"""Label and field selectors of one request, compiled: does this stored object belong to the answer?

A request without selectors never decodes anything. With selectors, an object is decoded as far as they look.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from mooring.api import field_selector, label_selector
from mooring.api.errors import BadRequest
from mooring.api.field_selector import FieldSelectorError
from mooring.api.kinds import Kind
from mooring.api.label_selector import Operator, Requirement, SelectorError
from mooring.server.selectable import Selected, selectable

#: As many values of a requirement as are looked at one by one.
_FEW_VALUES: Final = 16


class Selection:
    """Raises BadRequest for selectors that cannot be understood, or name a field the kind does not offer."""

    def __init__(self, kind: Kind[Any], *, labels: str, fields: str) -> None:
        try:
            self._labels = tuple(map(_condition, label_selector.parse(labels).requirements))
            self._fields = field_selector.parse(fields)
        except (SelectorError, FieldSelectorError) as problem:
            raise BadRequest(str(problem)) from problem
        offered = selectable(kind)
        for term in self._fields.terms:
            if term.path not in offered.readers:
                raise BadRequest(offered.refusal.format(term.path))
        self._readers = offered.readers
        self._decode = _decoder(offered.view)
        self.is_everything = not self._labels and not self._fields.terms

    def admits(self, value: bytes) -> bool:
        """Whether the object with these bytes, stamped or not, is selected."""
        if self.is_everything:
            return True
        seen = self._decode(value)
        if not all(holds(seen.metadata.labels) for holds in self._labels):
            return False
        return self._fields.matches(lambda path: self._readers[path](seen))


def _condition(requirement: Requirement) -> Callable[[Mapping[str, str]], bool]:
    """A requirement as one function, which finds a value among thousands at once."""
    if requirement.operator not in (Operator.IN, Operator.NOT_IN) or len(requirement.values) <= _FEW_VALUES:
        return requirement.matches
    key, values, wanted = requirement.key, frozenset(requirement.values), requirement.operator is Operator.IN
    return lambda labels: (labels.get(key) in values) is wanted


@cache
def _decoder(view: type[Selected]) -> Callable[[bytes], Selected]:
    return msgspec.json.Decoder(view).decode
