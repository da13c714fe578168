"""The field table: all types of Kubernetes requests, with names, numbers, types and merge keys of their fields.

`tools/generate_fields` writes `table.json`; it is read at first use, and a type is compiled when first requested. In
the file a field is a row

    [JSON name, protobuf number, type, flags, patch strategy, merge key, ownership]

without empty cells at the end. The type is a `Scalar` or the name of another type, after `[]` for a list and `{}` for
a map with string keys; flags are `i` inline, `o` omitempty, `p` pointer; ownership (`atomic`, `set` or
`map:KEY,KEY=DEFAULT`) is given if it does not follow from the other cells. Types never contain themselves, so walking
an object along its type is bounded.
"""

import enum
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

#: Name in the file of kinds that every group version has, such as DeleteOptions.
_EVERY_GROUP: Final = "*"


class UnknownKind(LookupError):
    """The table has no such kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f'no kind "{kind}" is registered for version "{api_version}"')
        self.api_version = api_version
        self.kind = kind


class Shape(enum.Enum):
    ONE = ""
    LIST = "[]"
    MAP = "{}"


class Scalar(enum.Enum):
    """Values without fields. From QUANTITY on they are messages in protobuf."""

    BOOL = "bool"
    BYTES = "bytes"  # base64 in JSON
    INT32 = "int32"
    INT64 = "int64"
    STRING = "string"
    QUANTITY = "quantity"
    TIME = "time"
    MICRO_TIME = "microTime"
    INT_OR_STRING = "intOrString"
    RAW = "raw"  # any JSON (RawExtension, FieldsV1)
    STRINGS = "strings"  # a named list of strings (ExtraValue)


class Ownership(enum.Enum):
    """What several managers can own within one field."""

    #: Nothing: one manager owns the whole value.
    ATOMIC = "atomic"
    #: The fields of a struct, the entries of a map.
    GRANULAR = "granular"
    #: The values of a list without duplicates.
    SET = "set"
    #: The items of a list, identified by keys, and their fields.
    MAP = "map"


class ItemKey(msgspec.Struct, frozen=True, gc=False):
    """A field that identifies the items of a list."""

    name: str
    #: Value of an item without the field; None if it is required.
    default: str | None = None


class Field(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One field of a type."""

    #: Name in JSON; empty for an inline field, whose fields are next to its siblings.
    name: str
    #: Number in protobuf; 0 for apiVersion and kind, which are in the envelope.
    number: int
    shape: Shape
    #: Type of the value, or of each item of a list or map.
    value: "Scalar | Type"
    inline: bool
    omit_empty: bool
    #: A zero value differs from an absent one, as in `storageClassName: ""`.
    pointer: bool
    #: `patchStrategy` tag: "", "merge", "replace", "retainKeys" or "merge,retainKeys".
    strategy: str
    #: `patchMergeKey` tag; empty for lists of scalars.
    merge_key: str
    ownership: Ownership
    #: For `Ownership.MAP`, in the order of their names.
    item_keys: tuple[ItemKey, ...]

    @property
    def struct(self) -> "Type | None":
        """The type of objects in the field; None for scalars."""
        return self.value if isinstance(self.value, Type) else None

    @property
    def merges(self) -> bool:
        """Whether a strategic patch merges this list instead of replacing it."""
        return "merge" in self.strategy

    @property
    def replaces(self) -> bool:
        """Whether a strategic patch replaces this map instead of merging it."""
        return self.strategy == "replace"


class Type(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One struct of the API, `core/v1.Pod`. Types are compared by identity."""

    name: str
    #: As declared, in the order of their numbers.
    fields: tuple[Field, ...]
    #: As they appear in JSON: the fields of inline structs are among them, the inline field itself is not.
    by_name: Mapping[str, Field]
    #: As they appear in protobuf, where an inline struct is a message like any other.
    by_number: Mapping[int, Field]


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    name: str
    number: int
    type: str
    flags: str = ""
    strategy: str = ""
    merge_key: str = ""
    ownership: str = ""


class _Document(msgspec.Struct, frozen=True):
    version: str
    kinds: dict[str, dict[str, str]]
    types: dict[str, tuple[_Row, ...]]


def type_of(api_version: str, kind: str) -> Type:
    """The type behind `apiVersion` and `kind`; raises UnknownKind."""
    kinds = _document().kinds
    name = kinds.get(api_version, {}).get(kind) or kinds[_EVERY_GROUP].get(kind)
    if name is None:
        raise UnknownKind(api_version, kind)
    return type_named(name)


@cache
def type_named(name: str) -> Type:
    """The type `name` of the table, compiled with the types it contains. Raises KeyError."""
    fields = tuple(_field(row) for row in _document().types[name])
    by_name: dict[str, Field] = {}
    for field in fields:
        if field.inline and isinstance(field.value, Type):
            by_name |= field.value.by_name
        else:
            by_name[field.name] = field
    by_number = {field.number: field for field in fields if field.number}
    return Type(name=name, fields=fields, by_name=by_name, by_number=by_number)


@cache
def _document() -> _Document:
    path = Path(__file__).with_name("table.json")
    return msgspec.json.decode(path.read_bytes(), type=_Document)


def _field(row: _Row) -> Field:
    shape = Shape(row.type[:2]) if row.type.startswith(("[]", "{}")) else Shape.ONE
    written = row.type.removeprefix(shape.value)
    value = type_named(written) if "." in written else Scalar(written)  # names of types have a dot
    ownership, item_keys = _ownership(row, shape, value)
    return Field(
        name=row.name,
        number=row.number,
        shape=shape,
        value=value,
        inline="i" in row.flags,
        omit_empty="o" in row.flags,
        pointer="p" in row.flags,
        strategy=row.strategy,
        merge_key=row.merge_key,
        ownership=ownership,
        item_keys=tuple(sorted(item_keys, key=lambda key: key.name)),
    )


def _ownership(row: _Row, shape: Shape, value: "Scalar | Type") -> tuple[Ownership, list[ItemKey]]:
    how, _, keys = row.ownership.partition(":")
    if how:
        named = [key.partition("=") for key in keys.split(",") if key]
        return Ownership(how), [ItemKey(name, default or None) for name, _, default in named]
    if shape is Shape.LIST:
        if "merge" not in row.strategy:
            return Ownership.ATOMIC, []
        return (Ownership.MAP, [ItemKey(row.merge_key)]) if row.merge_key else (Ownership.SET, [])
    is_container = shape is Shape.MAP or isinstance(value, Type)
    return (Ownership.GRANULAR if is_container else Ownership.ATOMIC), []
