"""Inputs of growing size: objects with one long list or map, of text that counts its comparisons."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.schema.types import Field, Scalar, Shape, Type
from support.builders.counting import calls_of

Path = tuple[Field, ...]

#: Maximum depth of fields; deeper ones belong to types seen before.
_LEVELS: Final = 7


class CountedText(str):
    """Text whose comparisons are function calls, so that linear searches are counted."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) if isinstance(other, str) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


def long_fields(type_: Type, seen: set[str]) -> Iterator[Path]:
    """Every list and map of a type, by field path, except in types seen before."""
    waiting: list[tuple[Type, Path]] = [(type_, ())]
    while waiting:
        owner, path = waiting.pop(0)
        if owner.name in seen or len(path) > _LEVELS:
            continue
        seen.add(owner.name)
        for field in owner.by_name.values():
            if field.shape is not Shape.ONE:
                yield (*path, field)
            if isinstance(field.value, Type):
                waiting.append((field.value, (*path, field)))


def named(path: Path) -> str:
    return ".".join(field.name + field.shape.value for field in path)


def grown(path: Path, count: int, *, alike: bool, backwards: bool = False) -> dict[str, Any]:
    """An object with `count` items in the last field of the path, all different or all equal."""
    numbers = range(count - 1, -1, -1) if backwards else range(count)
    texts = [CountedText("a" if alike else f"a{number:06}") for number in numbers]
    last = path[-1]
    if last.shape is Shape.MAP:
        value: Any = {CountedText(f"k{number:06}"): _item(last, text) for number, text in enumerate(texts)}
    else:
        value = [_item(last, text) for text in texts]
    for field in reversed(path):
        if field is not last:
            value = [value] if field.shape is Shape.LIST else {"m": value} if field.shape is Shape.MAP else value
        value = {field.name: value}
    return dict(value)


def _item(field: Field, text: CountedText) -> object:
    if isinstance(field.value, Scalar):
        return _scalar(field.value, text)
    item: dict[str, object] = {}
    for member in field.value.by_name.values():
        if isinstance(member.value, Scalar) and member.shape is Shape.ONE:
            item[member.name] = _scalar(member.value, text)
        elif member.value is Scalar.STRING and member.shape is Shape.LIST:
            item[member.name] = [text]
    return item


def _scalar(scalar: Scalar, text: CountedText) -> object:
    match scalar:
        case Scalar.STRING:
            return text
        case Scalar.BOOL:
            return True
        case Scalar.BYTES:
            return "YQ=="
        case Scalar.INT32 | Scalar.INT64 | Scalar.QUANTITY | Scalar.INT_OR_STRING:
            return 1
        case Scalar.TIME:
            return "2026-01-02T03:04:05Z"
        case Scalar.MICRO_TIME:
            return "2026-01-02T03:04:05.000000Z"
        case Scalar.STRINGS:
            return [text]
        case Scalar.RAW:
            return {"x": str(text)}


def plain(value: Any) -> Any:  # noqa: ANN401
    """The value with ordinary text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, CountedText) else value


def growth(work: Callable[[int], object], count: int) -> tuple[int, int]:
    """Calls for `count` and for twice as many, each after a run that fills caches."""
    work(count)
    return calls_of(lambda: work(count)), calls_of(lambda: work(2 * count))


def is_linear(few: int, many: int) -> bool:
    """Twice the input needs at most slightly more than twice the calls."""
    return many <= 2.3 * few + 200
