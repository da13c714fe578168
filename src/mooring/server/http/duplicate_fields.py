"""Keys that occur twice in one JSON object: the last one counts, and whoever wrote both should hear of it.

The decoder takes the last silently. Looking again with a decoder that notices costs ten times as much, so it is done
only where the bytes may hold more keys than were decoded. Most clients write JSON without blanks, as our encoder does:
where nothing was lost, encoding again gives as many bytes, and as many colons behind quotes.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_KEY: Final = b'":'
#: A colon apart from its key would not be counted; and where no quote is followed by a blank, there is none.
_APART: Final = re.compile(rb'"\s+:')
_BLANKS: Final = (b'" ', b'"\n', b'"\t', b'"\r')


def duplicate_fields(raw: bytes, decoded: object) -> tuple[str, ...]:
    """The paths of fields that occur more than once, as upstream spells them: `spec.containers[0].name`."""
    again = msgspec.json.encode(decoded)
    if raw == again:
        return ()
    if raw.count(_KEY) == again.count(_KEY) and (len(raw) == len(again) or _is_countable(raw)):
        return ()
    try:
        written = json.loads(raw, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
        return tuple(dict.fromkeys(_paths(written, "")))
    except RecursionError:
        # Nested far beyond any type there is; what the fields are called no longer matters.
        return ()


def _is_countable(raw: bytes) -> bool:
    """Whether colons behind quotes are keys, each spelt as another encoder would spell it, and nothing else."""
    return b"\\u" not in raw and not (any(blank in raw for blank in _BLANKS) and _APART.search(raw))


class _Pairs:
    """A JSON object as it was written."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}[{index}]")
    elif isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value.pairs:
            below = f"{path}.{key}" if path else key
            if key in seen:
                yield below
            seen.add(key)
            yield from _paths(item, below)
