"""JSON merge patch (RFC 7386): members replace, null removes, lists are replaced whole."""

from mooring.api.patches import MAX_DEPTH, Json, copied, room_inside

__all__ = ["apply_merge_patch"]


def apply_merge_patch(doc: Json, patch: Json) -> Json:
    """The patched document; neither argument is changed, and the result shares nothing with them."""
    return _merged(doc, patch, MAX_DEPTH)


def _merged(doc: Json, patch: Json, room: int) -> Json:
    if not isinstance(patch, dict):
        return copied(patch, room)
    inside = room_inside(room)
    before = doc if isinstance(doc, dict) else {}
    result: dict[str, Json] = {}
    for key, member in before.items():
        if key not in patch:
            result[key] = copied(member, inside)
        elif patch[key] is not None:
            result[key] = _merged(member, patch[key], inside)
    for key, change in patch.items():
        if key not in before and change is not None:
            # Merging into nothing also drops the nulls inside a new member.
            result[key] = _merged(None, change, inside)
    return result
