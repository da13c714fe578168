"""JSON and YAML documents of untrusted clients, with bounds on nesting depth and number of values.

msgspec decodes three megabytes in milliseconds, but they can hold a million lists or lists nested a thousand deep, and
every later step pays for each. Bounds are checked only if the number of brackets and commas says that they could be
exceeded. YAML is built from parser events, without recursion, in time linear in its size plus MAX_ALIASED. It yields
JSON values only: dates and base-60 numbers stay text, keys become text as in kubectl, duplicate keys and what JSON
cannot express are errors.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

#: A decoded object, or part of one.
Body: TypeAlias = dict[str, Any]
#: Nesting depth. Kubernetes' types nest about twenty deep; Python's stack allows some 400.
MAX_DEPTH: Final = 200
#: Values per request; the largest objects of real clusters have some thousands.
MAX_VALUES: Final = 50_000

#: A string, possibly unterminated, or what precedes a value. Possessive, so that nothing is matched twice.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{](?!\s*+[\]}])|,', re.DOTALL)
_QUOTE: Final = ord('"')


class MalformedJson(ValueError):
    """Not JSON, or nested deeper than MAX_DEPTH."""


class TooManyValues(ValueError):
    """The document has more values than allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} values")


def decode_json(raw: bytes, *, max_values: int | None = None) -> object:
    """Raises MalformedJson and TooManyValues."""
    openings = raw.count(b"[") + raw.count(b"{")
    # Each value but the first follows a bracket or a comma, but most commas are inside strings.
    if max_values is not None and openings + raw.count(b",") > max_values:
        _count_values(raw, max_values)
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedJson(str(error)) from error
    if openings > MAX_DEPTH:
        check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Raises MalformedJson. Iterates by level instead of recursing."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise MalformedJson(f"values are nested more than {MAX_DEPTH} deep")


def _count_values(raw: bytes, limit: int) -> None:
    """Counts brackets and commas outside of strings, before anything is decoded."""
    count = 0
    for token in _TOKEN.finditer(raw):
        if raw[token.start()] != _QUOTE:
            count += 1
            if count > limit:
                raise TooManyValues(limit)


#: Characters that all aliases and merge keys of a document may repeat; a value counts `_VALUE_WEIGHT` more.
MAX_ALIASED: Final = 1 << 20
#: libyaml compares each %TAG directive with all previous ones.
MAX_TAG_DIRECTIVES: Final = 32
#: Cached scalars. Most strings of a large dump, such as uids, occur once or twice.
MAX_CACHED_SCALARS: Final = 1 << 16

_VALUE_WEIGHT: Final = 8
#: Characters of a number; Kubernetes has no longer ones.
_MAX_NUMBER: Final = 400
_TAG_DIRECTIVE: Final = re.compile(r"^%TAG", re.MULTILINE)

_CORE: Final = "tag:yaml.org,2002:"
_STRING: Final = f"{_CORE}str"
_TEXTS: Final = frozenset({"!", _STRING, f"{_CORE}timestamp", f"{_CORE}value", f"{_CORE}merge"})
_NUMBERS: Final = frozenset({f"{_CORE}int", f"{_CORE}float"})
_VALUES: Final = frozenset({f"{_CORE}null", f"{_CORE}bool"}) | _NUMBERS
_COLLECTIONS: Final = frozenset({None, "!", f"{_CORE}map", f"{_CORE}seq"})


class MalformedYaml(ValueError):
    """Not YAML, or YAML that JSON cannot express."""


class _Key:
    """Marker instead of a key: no key is waiting for its value, or the merge key is."""


_NONE: Final = _Key()
_MERGE: Final = _Key()


class _Known(NamedTuple):
    """Value of an anchor, and its weight per alias."""

    value: object
    weight: int


class _Level:
    """A collection that is being filled."""

    __slots__ = ("anchor", "key", "mapping", "merged", "sequence", "weight")

    def __init__(self, value: object, anchor: str | None) -> None:
        self.mapping = value if isinstance(value, dict) else None
        self.sequence = value if isinstance(value, list) else None
        self.anchor = anchor
        self.key: object = _NONE
        self.merged: list[object] = []
        self.weight = _VALUE_WEIGHT

    @property
    def value(self) -> object:
        return self.sequence if self.mapping is None else self.mapping

    def take(self, value: object, event: NodeEvent) -> None:
        if self.sequence is not None:
            self.sequence.append(value)
        elif self.mapping is not None and self.key is _NONE:
            merges = isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0] and event.tag is None
            self.key = _MERGE if merges else self._new_key(value, event)
        elif self.key is _MERGE:
            self.merged.append(value)
            self.key = _NONE
        elif self.mapping is not None:
            self.mapping[self.key] = value
            self.key = _NONE

    def _new_key(self, value: object, event: NodeEvent) -> str:
        key = _key(value, event)
        if self.mapping is not None and key in self.mapping:
            raise MalformedYaml(f'key "{key}" is given twice{_at(event)}')
        return key

    def close(self) -> None:
        """Resolve merge keys: keys of the mapping itself win, then the mapping merged first."""
        if not self.merged or self.mapping is None:
            return
        own = dict(self.mapping)
        self.mapping.clear()
        for given in self.merged:
            for one in given if isinstance(given, list) else (given,):
                if not isinstance(one, dict):
                    raise MalformedYaml("a merge key (<<) takes mappings only")
                for key, value in one.items():
                    self.mapping.setdefault(key, value)
        self.mapping.update(own)


def single_yaml_document(raw: bytes, *, max_values: int | None = None) -> object:
    """The only document, None if the input is empty. Raises MalformedYaml and TooManyValues."""
    found: list[object] = []
    for document in yaml_documents(raw, max_values=max_values):
        if found:
            raise MalformedYaml("expected a single document, but found another")
        found.append(document)
    return found[0] if found else None


def yaml_documents(raw: bytes, *, max_values: int | None = None) -> Iterator[object]:
    """All documents, of at most `max_values` values in total. Raises MalformedYaml and TooManyValues."""
    try:
        text = raw.decode("utf-8-sig")
        if len(_TAG_DIRECTIVE.findall(text)) > MAX_TAG_DIRECTIVES:
            raise MalformedYaml(f"more than {MAX_TAG_DIRECTIVES} %TAG directives")
        yield from _documents(yaml.parse(text, Loader=yaml.CSafeLoader), max_values)
    except UnicodeDecodeError as error:
        raise MalformedYaml(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except yaml.YAMLError as error:
        raise MalformedYaml(" ".join(str(error).split())) from error


def _documents(events: Iterator[Any], max_values: int | None) -> Iterator[object]:
    scalars = _Scalars()
    anchors: dict[str, _Known | None] = {}
    levels: list[_Level] = []
    root: object = None
    aliased = values = 0
    for event in events:
        what = type(event)
        if what is ScalarEvent:
            value = scalars.value(event)
            weight = _VALUE_WEIGHT + len(event.value)
            if event.anchor is not None:
                _declare(anchors, event, _Known(value, weight))
        elif what is MappingStartEvent or what is SequenceStartEvent:
            value, weight = {} if what is MappingStartEvent else [], 0
            if event.tag not in _COLLECTIONS:
                raise MalformedYaml(f"a value with the tag {event.tag} has no form in JSON{_at(event)}")
            if len(levels) == MAX_DEPTH:
                raise MalformedYaml(f"values are nested more than {MAX_DEPTH} deep")
            if event.anchor is not None:
                _declare(anchors, event, None)
        elif what is AliasEvent:
            value, weight = _known(anchors, event)
            aliased += weight
            if aliased > MAX_ALIASED:
                raise MalformedYaml("aliases make the document too large")
        elif what is MappingEndEvent or what is SequenceEndEvent:
            level = levels.pop()
            level.close()
            if level.anchor is not None:
                anchors[level.anchor] = _Known(level.value, level.weight)
            if levels:
                levels[-1].weight += level.weight
            continue
        elif what is DocumentEndEvent:
            yield root
            root = None
            anchors.clear()
            continue
        else:
            continue
        values += 1
        if max_values is not None and values > max_values:
            raise TooManyValues(max_values)
        if levels:
            levels[-1].take(value, event)
            levels[-1].weight += weight
        else:
            root = value
        if what is MappingStartEvent or what is SequenceStartEvent:
            levels.append(_Level(value, event.anchor))


def _declare(anchors: dict[str, _Known | None], event: NodeEvent, known: _Known | None) -> None:
    name = event.anchor or ""
    if name in anchors:
        raise MalformedYaml(f"anchor {name} is given twice{_at(event)}")
    anchors[name] = known


def _known(anchors: dict[str, _Known | None], event: AliasEvent) -> _Known:
    name = event.anchor or ""
    if name not in anchors:
        raise MalformedYaml(f"found undefined alias {name}{_at(event)}")
    if (known := anchors[name]) is None:
        raise MalformedYaml(f"the value called {name} contains itself{_at(event)}")
    return known


def _key(value: object, event: NodeEvent) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise MalformedYaml(f"a key is neither text nor a number{_at(event)}; quote it")


def _at(event: NodeEvent) -> str:
    return f", in line {event.start_mark.line + 1}" if event.start_mark else ""


class _Scalars:
    """Values of YAML scalars, cached by text."""

    def __init__(self) -> None:
        self._meaning: dict[str, object] = {}
        self._loader = yaml.SafeLoader("")

    def value(self, event: ScalarEvent) -> object:
        text: str = event.value
        if event.tag is not None:
            return self._meant(event.tag, text)
        if not event.implicit[0]:
            return text  # quoted, or a block
        if text in self._meaning:
            return self._meaning[text]
        value = self._resolved(text)
        if len(self._meaning) < MAX_CACHED_SCALARS:
            self._meaning[text] = value
        return value

    def _resolved(self, text: str) -> object:
        if len(text) > _MAX_NUMBER:
            return text
        resolvers = self._loader.yaml_implicit_resolvers
        candidates = (*resolvers.get(text[:1], ()), *resolvers.get(None, ()))
        return self._meant(next((tag for tag, pattern in candidates if pattern.match(text)), _STRING), text)

    def _meant(self, tag: str, text: str) -> object:
        if tag in _TEXTS or (tag in _NUMBERS and ":" in text):
            return text  # also base 60: `22:22` in a manifest does not mean 1342
        if tag not in _VALUES:
            raise MalformedYaml(f"a value with the tag {tag} has no form in JSON")
        if len(text) > _MAX_NUMBER:
            raise MalformedYaml("a number is too long")
        try:
            value: object = self._loader.construct_object(yaml.ScalarNode(tag, text))
        except (ValueError, KeyError, IndexError) as error:
            raise MalformedYaml(f'"{text}" is not what its tag {tag} says') from error
        if isinstance(value, float) and value - value != 0:
            raise MalformedYaml(f"{text} has no form in JSON")
        return value
