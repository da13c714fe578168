"""Strategic merge patch: a merge patch with keys for the items of lists.

The keys come from the field table. A list without a key is replaced, as are lists in unknown fields. Besides `null`,
which removes, a patch may contain directives:

    $patch: delete | replace         in a map, or in an item of a keyed list
    $retainKeys: [...]               removes every other key of this map
    $setElementOrder/<list>: [...]   order of the listed items; the others keep their positions between them
    $deleteFromPrimitiveList/<list>  values to remove from a list of scalars

The result contains no directives and no empty list or map with `omitempty`. Messages are kube-apiserver's.
"""

from collections import deque
from typing import Final, TypeAlias

import msgspec

from mooring.api.patches.contract import Json, PatchError, copied
from mooring.api.schema.types import Field, Scalar, Shape, Type, type_of

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ORDER: Final = "$setElementOrder/"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"

Map: TypeAlias = dict[str, Json]
List: TypeAlias = list[Json]


def apply_strategic(original: Map, patch: Map, api_version: str, kind: str) -> Map:
    """The patched object; neither argument is changed, and the result shares nothing with them. Raises PatchError for
    an invalid patch, UnknownKind for a kind that the field table lacks."""
    type_ = type_of(api_version, kind)
    # `copied` bounds the depth, and with it the recursion below.
    return _merged_map(_copy(original), _copy(patch), type_)


def _copy(document: Map) -> Map:
    copy = copied(document)
    assert isinstance(copy, dict)
    return copy


def _merged_map(before: Map, patch: Map, type_: Type | None) -> Map:
    """`before` with `patch` merged in. `type_` is None for types that the table lacks."""
    if _DIRECTIVE in patch:
        return _replaced_map(patch)
    _retain_keys(before, patch)
    orders = _taken(patch, _SET_ORDER)
    deletions = _taken(patch, _DELETE_FROM)
    fields = type_.by_name if type_ else {}
    for key, change in patch.items():
        if change is None and key not in orders:
            before.pop(key, None)
        else:
            field = fields.get(key)
            _put(before, key, field, _merged_value(before.get(key), change, field, orders.pop(key, None)))
    for key, order in orders.items():
        if key in before:
            _put(before, key, fields.get(key), _merged_value(before[key], [], fields.get(key), order))
    for key, gone in deletions.items():
        if key in before:
            _put(before, key, fields.get(key), _without(before[key], gone))
    return before


def _replaced_map(patch: Map) -> Map:
    match patch.pop(_DIRECTIVE):
        case "replace":
            return _cleaned_map(patch)
        case "delete":
            return {}
        case other:
            raise PatchError(f"unknown patch type: {_shown(other)} in map: {_shown(patch)}")


def _retain_keys(before: Map, patch: Map) -> None:
    if _RETAIN_KEYS not in patch:
        return
    kept = patch.pop(_RETAIN_KEYS)
    if not isinstance(kept, list):
        raise PatchError("invalid patch format of retainKeys")
    retained = set(map(_identity, kept))
    for key, change in patch.items():
        if change is not None and key not in retained and not key.startswith((_SET_ORDER, _DELETE_FROM)):
            raise PatchError("invalid patch format of retainKeys")
    for key in before.keys() - retained:
        del before[key]


def _taken(patch: Map, prefix: str) -> dict[str, List]:
    """The directives with this prefix by list name, removed from the patch."""
    found: dict[str, List] = {}
    for directive in [key for key in patch if key.startswith(prefix)]:
        value = patch.pop(directive)
        if not isinstance(value, list):
            raise PatchError(f"invalid patch format: {directive} is not a list")
        found[directive.removeprefix(prefix)] = value
    return found


def _put(into: Map, key: str, field: Field | None, value: Json) -> None:
    """Sets the result of a merge; removes the key for None and for an empty list or map with `omitempty`."""
    is_hidden = field is not None and field.omit_empty and field.shape is not Shape.ONE and not value
    if value is None or is_hidden:
        into.pop(key, None)
    else:
        into[key] = value


def _merged_value(before: Json, change: Json, field: Field | None, order: List | None) -> Json:
    if order is not None:
        if field is None or not field.merges or not isinstance(change, list):
            raise PatchError("invalid patch format of setElementOrder list")
        return _merged_list(before if isinstance(before, list) else [], change, field, order)
    if isinstance(before, dict) and isinstance(change, dict) and not (field and field.replaces):
        # The entries of a map field (labels) have no type.
        inner = field.value if field and field.shape is Shape.ONE else None
        return _merged_map(before, change, inner if isinstance(inner, Type) else None)
    if isinstance(before, list) and isinstance(change, list) and field and field.merges:
        return _merged_list(before, change, field, None)
    return _cleaned(change)


def _merged_list(before: List, change: List, field: Field, order: List | None) -> Json:
    """Both lists merged. Items of the patch are in its order, or in `order`, new ones as early as that allows; other
    items keep their order and stay before the items that followed them."""
    key = field.merge_key
    if order:
        _check_order(change, order, key)
    if isinstance(field.value, Scalar):
        merged: List = list(dict.fromkeys(_identity(item) for item in [*before, *change]))
        named = change
    else:
        before, named = _after_item_directives(before, change, key)
        merged = _merged_items(before, named, key, field.value)
    if order is not None:
        named = order
    return _arranged(merged, _places(named, key), _places(before, key), key)


def _after_item_directives(before: List, change: List, key: str) -> tuple[List, List]:
    """Applies `$patch` directives of items; returns the remaining list and patch."""
    plain: List = []
    deleted: set[object] = set()
    replaces = False
    for item in change:
        if not isinstance(item, dict) or _DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[_DIRECTIVE]:
            case "delete":
                deleted.add(_key_of(item, key))
            case "replace":
                replaces = True
            case other:
                raise PatchError(f"unknown patch type: {_shown(other)} in map: {_shown(item)}")
    if deleted:
        before = [other for other in before if _key_of(other, key) not in deleted]
    return ([], plain) if replaces else (before, plain)


def _merged_items(before: List, patch: List, key: str, type_: Type) -> List:
    merged = list(before)
    places = _places(before, key)
    for item in patch:
        identity = _key_of(item, key)
        place = places.setdefault(identity, len(merged))
        if place == len(merged):
            merged.append(_cleaned(item))
            continue
        known = merged[place]
        assert isinstance(known, dict)
        assert isinstance(item, dict)
        merged[place] = _merged_map(known, item, type_)
    return merged


def _arranged(merged: List, desired: dict[object, int], held: dict[object, int], key: str) -> List:
    """The items of `desired` in its order, with the others in theirs between them: each before the first desired item
    that it preceded in `held`."""
    leading = [item for item in merged if _key_of(item, key) in desired]
    leading.sort(key=lambda item: desired[_key_of(item, key)])
    others = deque(item for item in merged if _key_of(item, key) not in desired)
    result: List = []
    for item in leading:
        limit = held.get(_key_of(item, key), -1)
        while others and held.get(_key_of(others[0], key), limit) < limit:
            result.append(others.popleft())
        result.append(item)
    return [*result, *others]


def _check_order(change: List, order: List, key: str) -> None:
    """The items of the patch must be in the order that it requests."""
    asked = iter([_key_of(item, key) for item in order])
    for item in change:
        if isinstance(item, dict) and _DIRECTIVE in item:
            continue
        if _key_of(item, key) not in asked:  # consumes `asked` up to the item
            raise PatchError(
                f"The order in patch list:\n{_shown(change)}\n doesn't match $setElementOrder list:\n{_shown(order)}\n"
            )


def _without(value: Json, gone: List) -> Json:
    if not isinstance(value, list):
        raise PatchError("invalid patch format of primitive list")
    identities = {_identity(item) for item in gone}
    return [item for item in value if _identity(item) not in identities]


def _places(items: List, key: str) -> dict[object, int]:
    """The first index of each item."""
    places: dict[object, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_key_of(item, key), place)
    return places


def _key_of(item: Json, key: str) -> object:
    """The value of the item's merge key, or the item itself in a list of scalars."""
    if not key:
        return _identity(item)
    if not isinstance(item, dict):
        raise PatchError(f"expected a map, but received {_shown(item)}")
    if key not in item:
        raise PatchError(f"map: {_shown(item)} does not contain declared merge key: {key}")
    return _identity(item[key])


def _identity(value: Json) -> str | int | float | bool | None:
    if isinstance(value, dict | list):
        raise PatchError(f"expected a scalar, but received {_shown(value)}")
    return value


def _cleaned(value: Json) -> Json:
    """A new value, without nulls and directives. A `$patch: replace` of an absent value is kept; kube-apiserver would
    lose it."""
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            return None
        return _replaced_map(value) if _DIRECTIVE in value else _cleaned_map(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value if not (isinstance(item, dict) and _DIRECTIVE in item)]
    return value


def _cleaned_map(value: Map) -> Map:
    cleaned: Map = {}
    for key, member in value.items():
        if key == _RETAIN_KEYS or key.startswith((_SET_ORDER, _DELETE_FROM)):
            continue
        if (kept := _cleaned(member)) is not None:
            cleaned[key] = kept
    return cleaned


def _shown(value: Json) -> str:
    return msgspec.json.encode(value).decode()
