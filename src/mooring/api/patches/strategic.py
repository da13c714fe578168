"""Strategic merge patch: a merge patch that knows by which key the items of a list are told apart.

The keys come from the field table, so it works for the kinds in it; a list without one is replaced whole, as are
lists inside fields the table does not know. Besides `null`, which removes, a patch may carry directives:

    $patch: delete | replace         in a map, or in an item of a keyed list
    $retainKeys: [...]               every other key of this map goes
    $setElementOrder/<list>: [...]   the order of the items named; the others keep their places among them
    $deleteFromPrimitiveList/<list>  values to take out of a list of scalars

Directives never end up in the result, and a list or map that ends up empty is left out where `omitempty` says so.
Messages are upstream's. Which answer a client gets for an error is the server's table.
"""

from collections import deque
from typing import Final, TypeAlias

import msgspec

from mooring.api.fields.table import Field, Scalar, Shape, Type, type_of
from mooring.api.patches import Json, copied
from mooring.api.patches.errors import PatchError

__all__ = ["apply_strategic"]

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ORDER: Final = "$setElementOrder/"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"

Map: TypeAlias = dict[str, Json]
List: TypeAlias = list[Json]


def apply_strategic(original: Map, patch: Map, api_version: str, kind: str) -> Map:
    """The patched object; neither argument is changed, and the result shares nothing with them.

    Raises PatchError for a patch that makes no sense, UnknownKind for a kind without a row in the field table.
    """
    type_ = type_of(api_version, kind)
    # The copies are ours to change, and as shallow as `copied` allows: recursion below is bounded.
    return _merged_map(_copy(original), _copy(patch), type_)


def _copy(document: Map) -> Map:
    copy = copied(document)
    assert isinstance(copy, dict)
    return copy


def _merged_map(before: Map, patch: Map, type_: Type | None) -> Map:
    """`before` with `patch` merged in. `type_` is None where the table has nothing to say."""
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
    """The directives with this prefix by the list they are about, removed from the patch."""
    found: dict[str, List] = {}
    for directive in [key for key in patch if key.startswith(prefix)]:
        value = patch.pop(directive)
        if not isinstance(value, list):
            raise PatchError(f"invalid patch format: {directive} is not a list")
        found[directive.removeprefix(prefix)] = value
    return found


def _put(into: Map, key: str, field: Field | None, value: Json) -> None:
    """Stores what a merge gave. Nothing, or an emptied list or map that `omitempty` hides, is left out."""
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
        # The entries of a map field (labels) have no type of their own to follow.
        inner = field.value if field and field.shape is Shape.ONE else None
        return _merged_map(before, change, inner if isinstance(inner, Type) else None)
    if isinstance(before, list) and isinstance(change, list) and field and field.merges:
        return _merged_list(before, change, field, None)
    return _cleaned(change)


def _merged_list(before: List, change: List, field: Field, order: List | None) -> Json:
    """Both lists as one. Items of the patch come in its order, or in `order`, and new ones stand as early as
    that allows; items it does not mention keep their order and their places before what followed them."""
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
    """Carries out `$patch` in items; what remains of the list, and of the patch."""
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


def _arranged(merged: List, wanted: dict[object, int], held: dict[object, int], key: str) -> List:
    """The items with a place in `wanted` in that order, and the others, in theirs, let in among them: each
    before the first wanted item that it preceded in `held`."""
    leading = [item for item in merged if _key_of(item, key) in wanted]
    leading.sort(key=lambda item: wanted[_key_of(item, key)])
    others = deque(item for item in merged if _key_of(item, key) not in wanted)
    result: List = []
    for item in leading:
        limit = held.get(_key_of(item, key), -1)
        while others and held.get(_key_of(others[0], key), limit) < limit:
            result.append(others.popleft())
        result.append(item)
    return [*result, *others]


def _check_order(change: List, order: List, key: str) -> None:
    """The patch must name its items in the order it asks for."""
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
    """Where each item stands first."""
    places: dict[object, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_key_of(item, key), place)
    return places


def _key_of(item: Json, key: str) -> object:
    """What tells the item apart: the value of its merge key, or itself in a list of scalars."""
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
    """A value that is new to the object: without the nulls and directives that have nothing to act on.

    What replaces nothing is still wanted; upstream would lose it.
    """
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
