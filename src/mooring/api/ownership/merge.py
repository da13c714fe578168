"""Laying what a manager applies over what is there, and taking out what it no longer applies.

Both walk the object along its type. Lists whose items are told apart are merged item by item: the applied ones in
their order, those already there kept in their places among them. Results share containers with the arguments where
nothing changed, so callers must not change them in place.
"""

from collections import Counter, deque
from collections.abc import Iterator

from mooring.api.fields.table import Field, Ownership, Shape, Type
from mooring.api.ownership.paths import Path, Paths, elements_of, item_element, named
from mooring.api.patches import Json


def merged(live: Json, applied: Json, type_: Type | None) -> Json:
    """`applied` over `live`. Raises UnkeyedItem."""
    if not isinstance(live, dict) or not isinstance(applied, dict):
        return applied
    result = dict(live)
    for name, value in applied.items():
        field = type_.by_name.get(name) if type_ else None
        result[name] = _merged_field(live.get(name), value, field)
    return result


def _merged_field(live: Json, applied: Json, field: Field | None) -> Json:
    if live is None or field is None or field.ownership is Ownership.ATOMIC:
        return applied
    if isinstance(live, list) and isinstance(applied, list):
        return list(_merged_items(live, applied, field))
    if field.shape is Shape.MAP and isinstance(live, dict) and isinstance(applied, dict):
        return live | {name: merged(live.get(name), entry, field.struct) for name, entry in applied.items()}
    return merged(live, applied, field.struct)


def _merged_items(live: list[Json], applied: list[Json], field: Field) -> Iterator[Json]:
    """What is applied names each item once. Live items of one name give way to it together, none of them merged."""
    elements = elements_of(live, field)
    if elements is None:
        yield from applied
        return
    times = Counter(elements)
    there = {element: item for element, item in zip(elements, live, strict=True) if times[element] == 1}
    wanted = {item_element(item, field): item for item in applied}
    waiting = deque(zip(elements, live, strict=True))
    placed: set[str] = set()
    for element, item in wanted.items():
        # Items that only the live list has stay in front of what they stood in front of.
        while waiting and (waiting[0][0] not in wanted or waiting[0][0] in placed):
            other, kept = waiting.popleft()
            if other not in wanted:
                yield kept
        if waiting and waiting[0][0] == element:
            waiting.popleft()
        placed.add(element)
        known = there.get(element)
        yield item if known is None or field.ownership is Ownership.SET else merged(known, item, field.struct)
    yield from (kept for other, kept in waiting if other not in wanted)


def without(obj: Json, paths: Paths, type_: Type | None) -> Json:
    """`obj` without what the paths name. A container that this empties goes too, where `omitempty` hides it."""
    below = _by_first(paths)
    return _without_in_struct(obj, below, type_) if below else obj


def _without_in_struct(obj: Json, below: dict[str, Paths], type_: Type | None) -> Json:
    if not isinstance(obj, dict):
        return obj
    result: dict[str, Json] = {}
    for name, value in obj.items():
        paths = below.get(named(name))
        field = type_.by_name.get(name) if type_ else None
        kept = value if paths is None else _without_in_field(value, paths, field)
        is_hidden = paths is not None and not kept and (field is None or field.omit_empty)
        if () not in (paths or ()) and not is_hidden:
            result[name] = kept
    return result


def _without_in_field(value: Json, paths: Paths, field: Field | None) -> Json:
    below = _by_first(paths)
    if field is None or not below:
        return value
    if isinstance(value, list):
        elements = elements_of(value, field)
        if elements is None:
            return value
        return [
            kept
            for element, item in zip(elements, value, strict=True)
            if (kept := _without_in_item(item, below.get(element), field)) is not None
        ]
    if field.shape is Shape.MAP and isinstance(value, dict):
        return {
            name: _without_in_struct(entry, _by_first(below.get(named(name), frozenset())), field.struct)
            for name, entry in value.items()
            if () not in below.get(named(name), frozenset())
        }
    return _without_in_struct(value, below, field.struct)


def _without_in_item(item: Json, paths: Paths | None, field: Field) -> Json:
    if paths is None:
        return item
    return None if () in paths else _without_in_struct(item, _by_first(paths), field.struct)


def _by_first(paths: Paths) -> dict[str, Paths]:
    """What the paths say below each first element; the empty path says "this itself"."""
    found: dict[str, set[Path]] = {}
    for path in paths:
        if path:
            found.setdefault(path[0], set()).add(path[1:])
    return {element: frozenset(rests) for element, rests in found.items()}
