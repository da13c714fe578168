"""Label and field selectors of one request, compiled: does this stored object belong to the answer?

A request without selectors never decodes anything. With selectors, an object is decoded as far as they look.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from mooring.api import field_selector, label_selector
from mooring.api.errors import BadRequest
from mooring.api.field_selector import FieldSelectorError
from mooring.api.kinds import Kind
from mooring.api.label_selector import SelectorError
from mooring.server.selectable import Selected, selectable


class Selection:
    """Raises BadRequest for selectors that cannot be understood, or name a field the kind does not offer."""

    def __init__(self, kind: Kind[Any], *, labels: str, fields: str) -> None:
        try:
            self._labels = label_selector.parse(labels)
            self._fields = field_selector.parse(fields)
        except (SelectorError, FieldSelectorError) as problem:
            raise BadRequest(str(problem)) from problem
        offered = selectable(kind)
        for term in self._fields.terms:
            if term.path not in offered.readers:
                raise BadRequest(offered.refusal.format(term.path))
        self._readers = offered.readers
        self._decode = _decoder(offered.view)
        self.is_everything = not self._labels.requirements and not self._fields.terms

    def admits(self, value: bytes) -> bool:
        """Whether the object with these bytes, stamped or not, is selected."""
        if self.is_everything:
            return True
        seen = self._decode(value)
        if not self._labels.matches(seen.metadata.labels):
            return False
        return self._fields.matches(lambda path: self._readers[path](seen))


@cache
def _decoder(view: type[Selected]) -> Callable[[bytes], Selected]:
    return msgspec.json.Decoder(view).decode
