"""Label and field selectors of one request, compiled: whether a stored object is selected.

A request without selectors decodes nothing; with selectors, only the fields that can be selected are decoded.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from mooring.api import selectors
from mooring.api.errors import BadRequest
from mooring.api.selectors import FieldSelectorError, Operator, Requirement, SelectorError

FieldReader = Callable[[Any], str]


@dataclass(frozen=True)
class SelectableFields:
    """The fields a field selector may name, those of kube-apiserver 1.37, in the form in which objects are stored."""

    #: Struct of the fields that selectors read; decoding it skips the rest of the object.
    view: Any
    readers: Mapping[str, FieldReader]
    #: Error for any other field; kube-apiserver has another text for kinds without fields of their own.
    unknown_field_error: str = "field label not supported: {0}"


#: Types by path, as the stored object has them.
_METADATA: Final[Mapping[str, Any]] = {
    "metadata.name": str,
    "metadata.namespace": str,
    "metadata.labels": dict[str, str],
}


def selectable(
    fields: Mapping[str, Any], others: Mapping[str, FieldReader] | None = None, *, namespaced: bool = True
) -> SelectableFields:
    """`fields` are the types by path, `others` the readers of fields with another name or value than in the object."""
    names = ("metadata.name", "metadata.namespace") if namespaced else ("metadata.name",)
    readers = {path: _reader(path) for path in (*names, *fields)}
    return SelectableFields(_struct({**_METADATA, **fields}), {**readers, **(others or {})})


def _struct(types: Mapping[str, Any]) -> Any:  # noqa: ANN401  # a class with these fields
    """Fields that an object does not have are empty."""
    inner: dict[str, dict[str, Any]] = defaultdict(dict)
    fields: dict[str, Any] = {}
    for path, type_ in types.items():
        name, _, below = path.partition(".")
        if below:
            inner[name][below] = type_
        else:
            fields[name] = type_
    fields |= {name: _struct(below) for name, below in inner.items()}
    rows = [(name, type_, type_()) for name, type_ in fields.items()]
    return msgspec.defstruct("view", rows, frozen=True, gc=False)


def _reader(path: str) -> FieldReader:
    get = attrgetter(path)
    return lambda view: _text(get(view))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


METADATA_FIELDS: Final = replace(
    selectable({}),
    unknown_field_error='"{0}" is not a known field selector: only "metadata.name", "metadata.namespace"',
)

#: Up to this many values are compared one by one.
_FEW_VALUES: Final = 16


class Selection:
    """Raises BadRequest for invalid selectors and for fields that the kind does not support."""

    def __init__(self, selectable: SelectableFields, *, labels: str, fields: str) -> None:
        try:
            self._labels = tuple(map(_condition, selectors.parse_label_selector(labels).requirements))
            self._fields = selectors.parse_field_selector(fields)
        except (SelectorError, FieldSelectorError) as problem:
            raise BadRequest(str(problem)) from problem
        for term in self._fields.terms:
            if term.path not in selectable.readers:
                raise BadRequest(selectable.unknown_field_error.format(term.path))
        self._readers = selectable.readers
        self._decode = _decoder(selectable.view)
        self.is_everything = not self._labels and not self._fields.terms

    def admits(self, value: bytes) -> bool:
        """Whether the object with these bytes, with or without resourceVersion, is selected."""
        if self.is_everything:
            return True
        seen = self._decode(value)
        if not all(holds(seen.metadata.labels) for holds in self._labels):
            return False
        return self._fields.matches(lambda path: self._readers[path](seen))


def _condition(requirement: Requirement) -> Callable[[Mapping[str, str]], bool]:
    """A requirement as a function, with a set for many values."""
    if requirement.operator not in (Operator.IN, Operator.NOT_IN) or len(requirement.values) <= _FEW_VALUES:
        return requirement.matches
    key, values, is_in = requirement.key, frozenset(requirement.values), requirement.operator is Operator.IN
    return lambda labels: (labels.get(key) in values) is is_in


@cache
def _decoder(view: Any) -> Callable[[bytes], Any]:  # noqa: ANN401  # a class with selectable fields
    return msgspec.json.Decoder(view).decode
