"""Which rights of some rules others lack: what decides whether a writer may grant a role. Pure.

A rule is a product: every verb of it on every resource of every group by every name, and four lists of eighty words are
forty million rights. So rights are not looked at one by one. Words that occur in the same rules held are alike, and a
few dozen rules tell apart only a few sorts of words; what is compared are combinations of sorts, each of which is held
or lacking as a whole. The work is bounded by MAX_STEPS, and what is lacking is spelt out only as far as it is told.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice, product
from math import prod
from operator import and_
from typing import Final, NamedTuple, TypeAlias, TypeVar

from mooring.api.views.access import PolicyRule
from mooring.server.authorization.rules import ALL

#: Combinations of sorts that are compared for one request.
MAX_STEPS: Final = 50_000
#: Single rights that are spelt out.
TOLD: Final = 200

Held: TypeAlias = int
"""A set of the rules held: bit n is the n-th of them."""

#: In the place of names: every name, which a rule without names means.
_EVERY_NAME: Final = (None,)

Word = TypeVar("Word", str, str | None)


class TooWide(ValueError):
    """The rules cannot be compared within the bound."""


class Lacking(NamedTuple):
    """What is not covered: rights one by one, and how many more there are."""

    rights: list[PolicyRule]
    more: int


class _Box(NamedTuple):
    """Every verb on every resource of every group by every name, or on every path."""

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


def lacking(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule], *, told: int = TOLD) -> Lacking:
    """The smallest parts of the wanted rules that none of the rules held includes. Raises TooWide."""
    index = _HeldIndex(held)
    rights: list[PolicyRule] = []
    size = 0
    for rule in wanted:
        boxes = list(index.uncovered(rule))
        size += sum(box.size for box in boxes)
        some = islice((right for box in boxes for right in box.rights()), told - len(rights))
        # Sorts come in any order; people read the verbs in the order in which the rule has them.
        places = {verb: place for place, verb in enumerate(rule.verbs)}
        rights += sorted(some, key=lambda right: places[right.verbs[0]])
    return Lacking(rights, size - len(rights))


def uncovered(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """All of `lacking`, for rules of a readable size. Raises TooWide."""
    rights, more = lacking(held, wanted, told=MAX_STEPS)
    if more:
        raise TooWide(f"{more} rights more than can be listed")
    return rights


class _HeldIndex:
    """The rules held, by the words in them."""

    def __init__(self, held: Sequence[PolicyRule]) -> None:
        self._verbs = _by_word(rule.verbs for rule in held)
        self._groups = _by_word(rule.api_groups for rule in held)
        self._resources = _by_word(rule.resources for rule in held)
        self._names = _by_word(rule.resource_names for rule in held)
        self._urls = _by_word(rule.non_resource_urls for rule in held)
        self._any_name = sum(1 << place for place, rule in enumerate(held) if not rule.resource_names)
        #: Paths below which everything is allowed, without their stars, and how long those are.
        self._below: dict[str, Held] = {}
        for url, rules in self._urls.items():
            if url.endswith(ALL):
                below = url.rstrip(ALL)
                self._below[below] = self._below.get(below, 0) | rules
        self._lengths = sorted({len(below) for below in self._below})
        self._steps = 0

    def uncovered(self, rule: PolicyRule) -> Iterator[_Box]:
        verbs = _sorted_out(rule.verbs, self._with_verb)
        urls = _sorted_out(rule.non_resource_urls, self._with_url)
        for (by_verb, some_verbs), (by_url, some_urls) in product(verbs.items(), urls.items()):
            self._step()
            if not by_verb & by_url:
                yield _Box(some_verbs, urls=some_urls)
        groups = _sorted_out(rule.api_groups, self._with_group)
        resources = _sorted_out(rule.resources, self._with_resource)
        every_name: Sequence[str | None] = rule.resource_names or _EVERY_NAME
        names = _sorted_out(every_name, self._with_name)
        everywhere = _all_of(resources) & _all_of(names)
        for (by_verb, some_verbs), (by_group, some_groups) in product(verbs.items(), groups.items()):
            self._step()
            by_both = by_verb & by_group
            if by_both & everywhere:
                continue  # one rule has them on every resource by every name
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
            raise TooWide("the rules and those held differ in too many ways to be compared; write smaller roles")

    def _with_verb(self, verb: str) -> Held:
        return self._verbs.get(verb, 0) | self._verbs.get(ALL, 0)

    def _with_group(self, group: str) -> Held:
        return self._groups.get(group, 0) | self._groups.get(ALL, 0)

    def _with_resource(self, resource: str) -> Held:
        held = self._resources.get(resource, 0) | self._resources.get(ALL, 0)
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


def _all_of(sorts: Iterable[Held]) -> Held:
    """The rules held that every sort of word occurs in."""
    return reduce(and_, sorts, -1)


def _sorted_out(words: Iterable[Word], held_with: Callable[[Word], Held]) -> Mapping[Held, Sequence[Word]]:
    """The words by the rules held that they occur in."""
    sorts: dict[Held, list[Word]] = {}
    for word in words:
        sorts.setdefault(held_with(word), []).append(word)
    return sorts
