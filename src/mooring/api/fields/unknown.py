"""Which fields of an object its kind does not have, for `fieldValidation` Strict and Warn.

Walks the object along its type and names strays by upstream's paths (`spec.containers[0].foo`), in the order of
the document. It does not look at values: a wrong JSON type is the business of `mismatches`, and what stands where
an object should be is passed over here.
"""

from collections.abc import Mapping
from typing import Any, Final

from mooring.api.fields.table import Scalar, Shape, Type, type_of

#: Upstream's decoder stops collecting strict errors at this many; the answer has to stay a readable size.
REPORTED_AT_MOST: Final = 100
#: Characters of a path that are told.
SHOWN_AT_MOST: Final = 512


def unknown_fields(api_version: str, kind: str, obj: Mapping[str, Any]) -> list[str]:
    """Paths of the fields that `kind` does not have; raises UnknownKind for a kind not in the table."""
    strays: list[str] = []
    _collect(type_of(api_version, kind), obj, "", strays)
    return strays


def _collect(type_: Type, obj: Mapping[str, Any], prefix: str, strays: list[str]) -> None:
    by_name = type_.by_name
    for key, value in obj.items():
        if len(strays) >= REPORTED_AT_MOST:
            return
        field = by_name.get(key)
        if field is None:
            strays.append(_clipped(prefix + key[:SHOWN_AT_MOST]))
        elif isinstance(child := field.value, Scalar) or not value:
            continue
        elif field.shape is Shape.ONE:
            if isinstance(value, dict):
                _collect(child, value, f"{prefix}{key}.", strays)
        elif field.shape is Shape.LIST:
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, dict):
                        _collect(child, item, f"{prefix}{key}[{index}].", strays)
        elif isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, dict):
                    _collect(child, item, _clipped(f"{prefix}{key}.{name[:SHOWN_AT_MOST]}."), strays)


def _clipped(path: str) -> str:
    return path if len(path) <= SHOWN_AT_MOST else f"{path[:SHOWN_AT_MOST]}…"
