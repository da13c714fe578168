"""Volumes' node affinities: compiled once, and which of them a change of a node can touch.

`free_volumes` and `capacity` keep what has equal affinity together and ask an `AffinityFollower` which of these
groups a node's change may have moved, so that a node that joins costs what it concerns and not every volume.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from mooring.api import node_selector
from mooring.api.label_selector import Operator
from mooring.api.node_selector import NODE_NAME_FIELD, NodeSelector
from mooring.api.views.meta import NodeSelectorView
from mooring.api.views.volume import Volume
from mooring.volumes.nodeset import NodeSet
from mooring.volumes.topology import NodeChange, TopologyIndex

REMEMBERED: Final = 16384
"""Distinct affinities compiled once; local volumes have one per node."""
#: Keys and values of one that is remembered, each of 317 bytes at most: 100 MiB in all at the very worst.
REMEMBERED_WORDS: Final = 16

#: None is a volume that every node can reach.
Affinity = NodeSelector | None

#: What an affinity depends on: a label with a value, a label with any value, or which nodes there are.
_Fact = tuple[str, str | None]

_MEMBERSHIP: Final[_Fact] = ("", None)

_POSITIVE: Final = frozenset({Operator.IN, Operator.EXISTS, Operator.GT, Operator.LT})
"""Operators that only a node with the label can fulfil."""


def affinity(volume: Volume) -> Affinity:
    """The selector of the nodes that can reach a volume."""
    required = volume.required_affinity
    if required is None:
        return None
    return _compiled(required) if _is_short(required) else _compiled.__wrapped__(required)


def reaches(node: str, labels: Mapping[str, str], volume: Volume) -> bool:
    """Whether a node with this name and these labels can use a volume."""
    required = affinity(volume)
    return required is None or required.matches(labels, fields={NODE_NAME_FIELD: node})


def _is_short(view: NodeSelectorView) -> bool:
    """Whether it may be remembered: most have one requirement with one value, and one may have a megabyte of them."""
    words = 0
    for term in view.node_selector_terms:
        for one in (*term.match_expressions, *term.match_fields):
            words += 1 + len(one.values)
    return words <= REMEMBERED_WORDS


@lru_cache(maxsize=REMEMBERED)
def _compiled(view: NodeSelectorView) -> NodeSelector:
    return node_selector.from_view(view.node_selector_terms)


class AffinityWatch:
    """The affinities in use, by what they depend on. An affinity counts as often as it was added."""

    def __init__(self) -> None:
        self._uses: dict[Affinity, int] = {}
        self._dependents: defaultdict[_Fact, set[Affinity]] = defaultdict(set)

    def add(self, wanted: Affinity) -> None:
        uses = self._uses.get(wanted, 0)
        self._uses[wanted] = uses + 1
        if not uses:
            for fact in _facts(wanted):
                self._dependents[fact].add(wanted)

    def discard(self, wanted: Affinity) -> None:
        self._uses[wanted] -= 1
        if self._uses[wanted]:
            return
        del self._uses[wanted]
        for fact in _facts(wanted):
            dependents = self._dependents[fact]
            dependents.discard(wanted)
            if not dependents:
                del self._dependents[fact]

    def touched(self, change: NodeChange) -> set[Affinity]:
        """The affinities whose nodes may have changed; never misses one that did."""
        before, after = change.before or {}, change.after or {}
        facts: list[_Fact] = []
        for key in before.keys() | after.keys():
            was, now = before.get(key), after.get(key)
            if was != now:
                facts += ((key, None), (key, was), (key, now))
        if change.before is None or change.after is None:
            facts.append(_MEMBERSHIP)
        found: set[Affinity] = set()
        for fact in facts:
            found |= self._dependents.get(fact, set())
        return found


class AffinityFollower:
    """The affinities in use, and which of them may have got other nodes since somebody last asked."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._watch = AffinityWatch()
        self._touched: set[Affinity] = set()
        topology.follow(self._node_changed)

    def add(self, wanted: Affinity) -> NodeSet:
        """Follow an affinity, once more if it was followed already. Answers with its nodes."""
        self._watch.add(wanted)
        return self.nodes(wanted)

    def discard(self, wanted: Affinity) -> None:
        self._watch.discard(wanted)

    def nodes(self, wanted: Affinity) -> NodeSet:
        return self._topology.matching(wanted)

    def moved(self) -> list[tuple[Affinity, NodeSet]]:
        """The affinities to look at again, with their nodes now; each is named once."""
        if not self._touched:
            return []
        moved = [(touched, self.nodes(touched)) for touched in self._touched]
        self._touched.clear()
        return moved

    def _node_changed(self, change: NodeChange) -> None:
        self._touched |= self._watch.touched(change)


def _facts(wanted: Affinity) -> Iterator[_Fact]:
    if wanted is None:
        yield _MEMBERSHIP
        return
    for term in wanted.terms:
        for expression in term.expressions:
            if expression.operator in (Operator.IN, Operator.NOT_IN):
                yield from ((expression.key, value) for value in expression.values)
            else:
                yield (expression.key, None)
        # A node without any of the labels can fulfil such a term by merely being there.
        if not any(expression.operator in _POSITIVE for expression in term.expressions):
            yield _MEMBERSHIP
