"""JSON merge patch (RFC 7386): members replace, null removes, lists are replaced whole."""

from mooring.api.patches import MAX_DEPTH, Json, copied, room_inside

__all__ = ["apply_merge_patch"]


def apply_merge_patch(doc: Json, patch: Json) -> Json:
    """The patched document; neither argument is changed. What the patch does not touch is the document's own, not a
    copy: most patches touch little of much."""
    return _merged(doc, patch, MAX_DEPTH)


def _merged(doc: Json, patch: Json, room: int) -> Json:
    if not isinstance(patch, dict):
        return copied(patch, room)
    inside = room_inside(room)
    result = dict(doc) if isinstance(doc, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            # Merging into nothing also drops the nulls inside a new member.
            result[key] = _merged(result.get(key), change, inside)
    return result
