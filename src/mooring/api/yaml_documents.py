"""YAML documents as the JSON values they stand for, built from the parser's events: the one loader for request bodies,
dumps, manifests and kubeconfigs.

YAML's surprises are taken out: dates and base-60 numbers stay the text that was written, a key given twice is an error,
keys are text (numbers and booleans become theirs, as kubectl has it), and what JSON cannot express is refused. So is
what costs more than it weighs: values nested beyond MAX_DEPTH, a value that contains itself, and aliases and merge keys
(`<<`) that add up to more than MAX_ALIASED. The work is linear in the bytes read plus that bound, and nothing recurses.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from mooring.api.json_documents import MAX_DEPTH, TooManyValues

#: What all aliases of a document may repeat, in characters; a value counts as `_VALUE_WEIGHT` more.
MAX_ALIASED: Final = 1 << 20
#: libyaml compares each %TAG directive with all before it.
MAX_TAG_DIRECTIVES: Final = 32
#: Scalars remembered. Most texts of a large dump, such as uids, come once or twice.
REMEMBERED: Final = 1 << 16

_VALUE_WEIGHT: Final = 8
#: No number that Kubernetes can hold is longer.
_MAX_NUMBER: Final = 400
_TAG_DIRECTIVE: Final = re.compile(r"^%TAG", re.MULTILINE)

_CORE: Final = "tag:yaml.org,2002:"
_STRING: Final = f"{_CORE}str"
_TEXTS: Final = frozenset({"!", _STRING, f"{_CORE}timestamp", f"{_CORE}value", f"{_CORE}merge"})
_NUMBERS: Final = frozenset({f"{_CORE}int", f"{_CORE}float"})
_VALUES: Final = frozenset({f"{_CORE}null", f"{_CORE}bool"}) | _NUMBERS
_COLLECTIONS: Final = frozenset({None, "!", f"{_CORE}map", f"{_CORE}seq"})


class MalformedYaml(ValueError):
    """Not YAML that JSON could express; the text says why."""


class _Key:
    """In the place of a key: none waits for its value, or the merge key does."""


_NONE: Final = _Key()
_MERGE: Final = _Key()


class _Known(NamedTuple):
    """What an anchor stands for, and what it weighs where it is repeated."""

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
            self.key = _MERGE if _is_merge(event) else self._new_key(value, event)
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
        """Take in what merge keys name; what the mapping says itself counts, then what was named first."""
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


def single_document(raw: bytes, *, max_values: int | None = None) -> object:
    """The only document there is, None where there is none. Raises MalformedYaml and TooManyValues."""
    found: list[object] = []
    for document in documents(raw, max_values=max_values):
        if found:
            raise MalformedYaml("expected a single document, but found another")
        found.append(document)
    return found[0] if found else None


def documents(raw: bytes, *, max_values: int | None = None) -> Iterator[object]:
    """One after the other, of at most `max_values` values in all. Raises MalformedYaml and TooManyValues."""
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


def _is_merge(event: NodeEvent) -> bool:
    return isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0] and event.tag is None


def _key(value: object, event: NodeEvent) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise MalformedYaml(f"a key is neither text nor a number{_at(event)}; quote it")


def _at(event: Event) -> str:
    return f", in line {event.start_mark.line + 1}" if event.start_mark else ""


class _Scalars:
    """What scalars mean. Equal ones are worked out once."""

    def __init__(self) -> None:
        self._meaning: dict[str, object] = {}
        self._loader = yaml.SafeLoader("")

    def value(self, event: ScalarEvent) -> object:
        text: str = event.value
        if event.tag is not None:
            return self._meant(event.tag, text)
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
        if len(text) > _MAX_NUMBER:
            return text
        resolvers = self._loader.yaml_implicit_resolvers
        candidates = (*resolvers.get(text[:1], ()), *resolvers.get(None, ()))
        return self._meant(next((tag for tag, pattern in candidates if pattern.match(text)), _STRING), text)

    def _meant(self, tag: str, text: str) -> object:
        if tag in _TEXTS or (tag in _NUMBERS and ":" in text):
            return text  # also base 60: who writes `22:22` in a manifest does not mean 1342
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
