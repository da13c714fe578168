"""The field table: every type Kubernetes requests carry, with names, numbers, types and merge keys of its fields.

`tools/generate_fields` writes `table.json`, this module reads it, once and at first use (about 1 ms), and compiles
a type when it is first asked for. In the file a field is a row

    [JSON name, protobuf number, type, flags, patch strategy, merge key, ownership]

with empty cells at the end left off. The type is a `Scalar` or the name of another type, behind `[]` for a list and
`{}` for a map with string keys; flags are `i` inline, `o` omitempty, `p` pointer; ownership (`atomic`, `set` or
`map:KEY,KEY=DEFAULT`) stands only where it does not follow from the cells before it. Types never contain themselves,
so walking an object along its type is bounded. Callers are the other readers of this folder, strategic merge and
server-side apply.
"""

import enum
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

#: Kinds that every group version has, such as DeleteOptions, stand under this name in the file.
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
    """Values without fields of their own. From QUANTITY on they are messages in protobuf, not in JSON."""

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
    """What server-side apply lets several managers own side by side within one field."""

    #: Nothing: whoever sets it owns the whole value.
    ATOMIC = "atomic"
    #: The fields of a struct, the entries of a map.
    GRANULAR = "granular"
    #: The values of a list without duplicates.
    SET = "set"
    #: The items of a list, told apart by keys, and the fields of each.
    MAP = "map"


class ItemKey(msgspec.Struct, frozen=True, gc=False):
    """One of the fields that tell the items of a list apart."""

    name: str
    #: What an item that leaves it out means; None where it may not be left out.
    default: str | None = None


class Field(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One field of a type."""

    #: Name in JSON; empty for an inline field, whose own fields stand beside its siblings there.
    name: str
    #: Number in protobuf; 0 for apiVersion and kind, which travel in the envelope.
    number: int
    shape: Shape
    #: What the field holds, or what each item of its list or map is.
    value: "Scalar | Type"
    inline: bool
    omit_empty: bool
    #: A zero value that is present means something: `storageClassName: ""` is not an absent one.
    pointer: bool
    #: As in upstream's tag: "", "merge", "replace", "retainKeys" or "merge,retainKeys".
    strategy: str
    #: What identifies an item of a merged list; empty for lists of scalars.
    merge_key: str
    ownership: Ownership
    #: For `Ownership.MAP`, in the order of their names.
    item_keys: tuple[ItemKey, ...]

    @property
    def struct(self) -> "Type | None":
        """The type of the objects in it; None for scalars."""
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


def kinds_known() -> list[tuple[str, str]]:
    """Every (apiVersion, kind) of the table, sorted; kinds of every group version are not among them."""
    kinds = _document().kinds
    return sorted((version, kind) for version in kinds.keys() - {_EVERY_GROUP} for kind in kinds[version])


@cache
def type_named(name: str) -> Type:
    """The type called `name` in the table; raises KeyError. Compiles what it contains on the way."""
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
        return Ownership(how), [_item_key(key) for key in keys.split(",") if key]
    if shape is Shape.LIST:
        if "merge" not in row.strategy:
            return Ownership.ATOMIC, []
        return (Ownership.MAP, [ItemKey(row.merge_key)]) if row.merge_key else (Ownership.SET, [])
    is_container = shape is Shape.MAP or isinstance(value, Type)
    return (Ownership.GRANULAR if is_container else Ownership.ATOMIC), []


def _item_key(text: str) -> ItemKey:
    name, _, default = text.partition("=")
    return ItemKey(name, default or None)
