"""Rights of requested rules that held rules do not cover: decides whether a writer may grant a role. Pure.

A rule is a product of verbs, groups, resources and names: four lists of eighty words are forty million rights. So
rights are not compared one by one. Words that occur in the same held rules form a class; combinations of classes are
covered or missing as a whole. MAX_STEPS bounds the work, MAX_LISTED_RIGHTS the result.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import islice, product
from math import prod
from operator import and_
from typing import Final, NamedTuple, TypeAlias, TypeVar

from mooring.api.views.core import PolicyRule
from mooring.server.auth.rbac import ALL

#: Compared combinations of classes per request.
MAX_STEPS: Final = 50_000
MAX_LISTED_RIGHTS: Final = 200

Held: TypeAlias = int
"""A set of held rules: bit n is the n-th of them."""

#: The names of a rule without names: all.
_EVERY_NAME: Final = (None,)

Word = TypeVar("Word", str, str | None)


class RulesTooWide(ValueError):
    """The rules cannot be compared within MAX_STEPS."""


class MissingRights(NamedTuple):
    """Uncovered rights one by one, and the number of unlisted ones."""

    rights: list[PolicyRule]
    more: int


class _Box(NamedTuple):
    """All combinations of verbs, groups, resources and names, or of verbs and paths."""

    verbs: Sequence[str]
    groups: Sequence[str] = ()
    resources: Sequence[str] = ()
    names: Sequence[str | None] = ()
    urls: Sequence[str] = ()

    @property
    def size(self) -> int:
        if self.urls:
            return len(self.verbs) * len(self.urls)
        return prod(map(len, (self.verbs, self.groups, self.resources, self.names)))

    def rights(self) -> Iterator[PolicyRule]:
        for verb in self.verbs:
            for url in self.urls:
                yield PolicyRule((verb,), non_resource_urls=(url,))
            for group, resource, name in product(self.groups, self.resources, self.names):
                yield PolicyRule((verb,), (group,), (resource,), () if name is None else (name,))


def missing_rights(
    held: Sequence[PolicyRule], requested: Iterable[PolicyRule], *, listed: int = MAX_LISTED_RIGHTS
) -> MissingRights:
    """The single rights of the requested rules that no held rule includes. Raises RulesTooWide."""
    index = _HeldIndex(held)
    rights: list[PolicyRule] = []
    size = 0
    for rule in requested:
        boxes = list(index.uncovered(rule))
        size += sum(box.size for box in boxes)
        some = islice((right for box in boxes for right in box.rights()), listed - len(rights))
        # Verbs in the order of the rule.
        order = {verb: position for position, verb in enumerate(rule.verbs)}
        rights += sorted(some, key=lambda right: order[right.verbs[0]])
    return MissingRights(rights, size - len(rights))


def uncovered(held: Sequence[PolicyRule], requested: Iterable[PolicyRule]) -> list[PolicyRule]:
    """All of `missing_rights`, for rules of a readable size. Raises RulesTooWide."""
    rights, more = missing_rights(held, requested, listed=MAX_STEPS)
    if more:
        raise RulesTooWide(f"{more} rights more than can be listed")
    return rights


class _HeldIndex:
    """The held rules, by the words in them."""

    def __init__(self, held: Sequence[PolicyRule]) -> None:
        self._verbs = _by_word(rule.verbs for rule in held)
        self._groups = _by_word(rule.api_groups for rule in held)
        self._resources = _by_word(rule.resources for rule in held)
        self._names = _by_word(rule.resource_names for rule in held)
        self._urls = _by_word(rule.non_resource_urls for rule in held)
        self._any_name = sum(1 << place for place, rule in enumerate(held) if not rule.resource_names)
        #: Prefixes of path patterns, without their stars.
        self._below: dict[str, Held] = {}
        for url, rules in self._urls.items():
            if url.endswith(ALL):
                below = url.rstrip(ALL)
                self._below[below] = self._below.get(below, 0) | rules
        self._lengths = sorted({len(below) for below in self._below})
        self._steps = 0

    def uncovered(self, rule: PolicyRule) -> Iterator[_Box]:
        verbs = _sorted_out(rule.verbs, partial(_with_word, self._verbs))
        urls = _sorted_out(rule.non_resource_urls, self._with_url)
        for (by_verb, some_verbs), (by_url, some_urls) in product(verbs.items(), urls.items()):
            self._step()
            if not by_verb & by_url:
                yield _Box(some_verbs, urls=some_urls)
        groups = _sorted_out(rule.api_groups, partial(_with_word, self._groups))
        resources = _sorted_out(rule.resources, self._with_resource)
        every_name: Sequence[str | None] = rule.resource_names or _EVERY_NAME
        names = _sorted_out(every_name, self._with_name)
        everywhere = _all_of(resources) & _all_of(names)
        for (by_verb, some_verbs), (by_group, some_groups) in product(verbs.items(), groups.items()):
            self._step()
            by_both = by_verb & by_group
            if by_both & everywhere:
                continue  # one held rule covers all resources and names
            if not by_both and rule.resources:
                yield _Box(some_verbs, some_groups, rule.resources, every_name)
                continue
            for (by_resource, some_resources), (by_name, some_names) in product(resources.items(), names.items()):
                self._step()
                if not by_both & by_resource & by_name:
                    yield _Box(some_verbs, some_groups, some_resources, some_names)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise RulesTooWide("the rules and those held differ in too many ways to be compared; write smaller roles")

    def _with_resource(self, resource: str) -> Held:
        held = _with_word(self._resources, resource)
        _, slash, subresource = resource.partition("/")
        return held | self._resources.get(f"{ALL}/{subresource}", 0) if slash else held

    def _with_name(self, name: str | None) -> Held:
        return self._any_name | (0 if name is None else self._names.get(name, 0))

    def _with_url(self, url: str) -> Held:
        held = self._urls.get(url, 0)
        for length in self._lengths:
            if length > len(url):
                break
            self._step()
            held |= self._below.get(url[:length], 0)
        return held


def _by_word(lists: Iterable[Sequence[str]]) -> dict[str, Held]:
    found: dict[str, Held] = {}
    for place, words in enumerate(lists):
        for word in words:
            found[word] = found.get(word, 0) | 1 << place
    return found


def _with_word(by_word: Mapping[str, Held], word: str) -> Held:
    return by_word.get(word, 0) | by_word.get(ALL, 0)


def _all_of(sorts: Iterable[Held]) -> Held:
    """The held rules in which every class occurs."""
    return reduce(and_, sorts, -1)


def _sorted_out(words: Iterable[Word], held_with: Callable[[Word], Held]) -> Mapping[Held, Sequence[Word]]:
    """The words by the held rules in which they occur."""
    sorts: dict[Held, list[Word]] = {}
    for word in words:
        sorts.setdefault(held_with(word), []).append(word)
    return sorts
