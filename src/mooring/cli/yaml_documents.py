"""YAML documents built straight from the parser's events: what kubectl prints, some five times as fast as by PyYAML's
loader, whose C code asks Python what each scalar means.

The values are the loader's own. Equal scalars are worked out once, and dates stay the text that was written. What a
dump never has (explicit tags, merge keys, keys that are no scalars) is `Unusual` and left to the loader. Parsing does
not recurse, nor does this, so that depth is checked on the way, safely for any input.
"""

from collections.abc import Iterator
from typing import Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from mooring.api.yaml_depth import MAX_DEPTH, TooDeep

#: Scalars remembered. Most texts of a large dump, such as uids, come once or twice.
REMEMBERED: Final = 1 << 16

_CORE: Final = "tag:yaml.org,2002:"
#: What a plain scalar may mean here: a text, or another value.
_STRING: Final = f"{_CORE}str"
_TEXTS: Final = frozenset({_STRING, f"{_CORE}timestamp"})
_VALUES: Final = frozenset(f"{_CORE}{name}" for name in ("null", "bool", "int", "float"))


class Unusual(Exception):
    """Valid YAML, perhaps, that is not built here."""


class _NoKey:
    """In the place of a key, while a mapping has none that waits for its value."""


class _Level:
    """A collection that is being filled."""

    __slots__ = ("key", "mapping", "sequence")

    def __init__(self, value: object) -> None:
        self.mapping = value if isinstance(value, dict) else None
        self.sequence = value if isinstance(value, list) else None
        self.key: object = _NoKey

    def take(self, value: object) -> None:
        if self.sequence is not None:
            self.sequence.append(value)
        elif self.mapping is not None and self.key is not _NoKey:
            self.mapping[self.key] = value
            self.key = _NoKey
        elif isinstance(value, dict | list):
            raise Unusual("a key is no scalar")
        else:
            self.key = value


def documents(raw: bytes) -> Iterator[object]:
    """One after the other. Raises Unusual, TooDeep and yaml.YAMLError."""
    scalars = _Scalars()
    anchors: dict[str, object] = {}
    levels: list[_Level] = []
    root: object = None
    for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
        what = type(event)
        if what is ScalarEvent:
            value = scalars.value(event)
        elif what is MappingStartEvent or what is SequenceStartEvent:
            value = {} if what is MappingStartEvent else []
        elif what is AliasEvent:
            value = _known(anchors, event.anchor)
        elif what is MappingEndEvent or what is SequenceEndEvent:
            levels.pop()
            continue
        elif what is DocumentEndEvent:
            yield root
            root = None
            anchors.clear()
            continue
        else:
            continue
        if levels:
            levels[-1].take(value)
        else:
            root = value
        if what is MappingStartEvent or what is SequenceStartEvent:
            if event.tag is not None:
                raise Unusual(event.tag)
            if len(levels) == MAX_DEPTH:
                raise TooDeep
            levels.append(_Level(value))
        if what is not AliasEvent and event.anchor is not None:
            if event.anchor in anchors:
                raise Unusual(f"anchor {event.anchor} comes twice")
            anchors[event.anchor] = value


def _known(anchors: dict[str, object], anchor: str) -> object:
    if anchor not in anchors:
        raise Unusual(f"anchor {anchor} comes later, or never")
    return anchors[anchor]


class _Scalars:
    """What scalars mean."""

    def __init__(self) -> None:
        self._meaning: dict[str, object] = {}
        self._loader = yaml.SafeLoader("")

    def value(self, event: ScalarEvent) -> object:
        if event.tag is not None:
            raise Unusual(event.tag)
        text: str = event.value
        if not event.implicit[0]:
            # SEEN: quoted, or a block.
            return text
        if text in self._meaning:
            return self._meaning[text]
        value = self._resolved(text)
        if len(self._meaning) < REMEMBERED:
            self._meaning[text] = value
        return value

    def _resolved(self, text: str) -> object:
        resolvers = self._loader.yaml_implicit_resolvers
        candidates = (*resolvers.get(text[:1], ()), *resolvers.get(None, ()))
        tag = next((tag for tag, pattern in candidates if pattern.match(text)), _STRING)
        if tag in _TEXTS:
            return text
        if tag not in _VALUES:
            raise Unusual(tag)
        value: object = self._loader.construct_object(yaml.ScalarNode(tag, text))
        return value
