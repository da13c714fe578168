"""Keys that occur twice in one JSON object: the last one counts, and whoever wrote both should hear of it.

The decoder takes the last silently. Looking again with a decoder that notices costs ten times as much, so it is done
only where the bytes may hold more keys than were decoded. Most clients write JSON without blanks, as our encoder does:
where nothing was lost, encoding again gives as many bytes, and as many colons behind quotes.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.fields.unknown import REPORTED_AT_MOST, SHOWN_AT_MOST

_KEY: Final = b'":'
#: A colon apart from its key would not be counted; and where no quote is followed by a blank, there is none.
_APART: Final = re.compile(rb'"\s+:')
#: The same field may come many times; so many are looked at for those that are told.
_LOOKED_AT: Final = 10 * REPORTED_AT_MOST
_BLANKS: Final = (b'" ', b'"\n', b'"\t', b'"\r')


def duplicate_fields(raw: bytes, decoded: object) -> tuple[str, ...]:
    """The paths of fields that occur more than once, as upstream spells them: `spec.containers[0].name`. As many as
    upstream reports, and each as long as a reader can use."""
    again = msgspec.json.encode(decoded)
    if raw == again:
        return ()
    if raw.count(_KEY) == again.count(_KEY) and (len(raw) == len(again) or _is_countable(raw)):
        return ()
    written = json.loads(raw, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    paths = (_shown(path) for path in _paths(written, None))
    return tuple(islice(dict.fromkeys(islice(paths, _LOOKED_AT)), REPORTED_AT_MOST))


def _is_countable(raw: bytes) -> bool:
    """Whether colons behind quotes are keys, each spelt as another encoder would spell it, and nothing else."""
    return b"\\u" not in raw and not (any(blank in raw for blank in _BLANKS) and _APART.search(raw))


class _Pairs:
    """A JSON object as it was written."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


class _Path(NamedTuple):
    """A step, and what leads to it: told as text only where it is reported."""

    above: "_Path | None"
    step: str | int


def _paths(value: object, path: _Path | None) -> Iterator[_Path]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, list | _Pairs):
                yield from _paths(item, _Path(path, index))
    elif isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value.pairs:
            if key in seen:
                yield _Path(path, key)
            seen.add(key)
            if isinstance(item, list | _Pairs):
                yield from _paths(item, _Path(path, key))


def _shown(path: _Path) -> str:
    steps: list[str] = []
    at: _Path | None = path
    while at is not None:
        steps.append(f"[{at.step}]" if isinstance(at.step, int) else f".{at.step[:SHOWN_AT_MOST]}")
        at = at.above
    text = "".join(reversed(steps)).removeprefix(".")
    return text if len(text) <= SHOWN_AT_MOST else f"{text[:SHOWN_AT_MOST]}…"
