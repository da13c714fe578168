"""Where nodes are: their slots, their labels, and which of them a selector matches.

Owned by whoever watches nodes (a scheduler) and shared with `state.VolumeState`. Labels are kept inverted, so a
selector is answered by set algebra and never by walking nodes; the answers equal `NodeSelector.matches` on every
node. It holds nothing else of a node: no capacity, no taints, no readiness.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mooring.api.label_selector import Operator, Requirement
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm, TopologySelector
from mooring.volumes import nodeset
from mooring.volumes.nodeset import EMPTY, NodeSet

REMEMBERED: Final = 4096
#: Keys and values of the selectors whose answers are kept, each of 317 bytes at most.
REMEMBERED_WORDS: Final = 1 << 16
"""Answers kept between two changes: far more selectors than a cluster's pods differ in, and 3 MB at 5,000 nodes."""


class NodeChange(NamedTuple):
    """A node came, went or was relabelled: its labels before and after, None while it was not there."""

    name: str
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None


@dataclass(slots=True)
class _Labelled:
    """The nodes that have one label key, and those among them by value."""

    nodes: NodeSet = EMPTY
    by_value: dict[str, NodeSet] = field(default_factory=dict)


class TopologyIndex:
    """Slots and labels of all nodes.

    A node keeps its slot while it lives; the lowest free slot is given to the next one. `version` moves only when a
    node comes, goes or changes its labels, so that answers may be kept as long as it stands.
    """

    def __init__(self) -> None:
        self.version = 0
        self._all: NodeSet = EMPTY
        self._slots: dict[str, int] = {}
        self._names: list[str] = []
        self._vacant: list[int] = []
        self._labels: dict[str, dict[str, str]] = {}
        self._labelled: dict[str, _Labelled] = {}
        self._answers: dict[NodeSelector, NodeSet] = {}
        #: Keys and values in them.
        self._answered_words = 0
        self._followers: list[Callable[[NodeChange], None]] = []

    @property
    def all(self) -> NodeSet:
        return self._all

    @property
    def width(self) -> int:
        """All slots are below this; columns over slots need this many places."""
        return len(self._names)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, name: str) -> bool:
        return name in self._slots

    def slot(self, name: str) -> int:
        """The slot of a node; KeyError when there is no such node."""
        return self._slots[name]

    def name(self, slot: int) -> str:
        """The node in an occupied slot."""
        return self._names[slot]

    def names(self, nodes: NodeSet) -> Iterator[str]:
        """The names in a set, by slot."""
        return (self._names[slot] for slot in nodeset.slots(nodes))

    def named(self, name: str) -> NodeSet:
        """The set of the node with this name; empty when there is none."""
        slot = self._slots.get(name)
        return EMPTY if slot is None else 1 << slot

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a node; KeyError when there is no such node."""
        return self._labels[name]

    def by_value(self, key: str) -> Mapping[str, NodeSet]:
        """The nodes that have a label, by its value."""
        labelled = self._labelled.get(key)
        return {} if labelled is None else dict(labelled.by_value)

    def follow(self, follower: Callable[[NodeChange], None]) -> None:
        """Tell `follower` of every change from now on, right after it took effect."""
        self._followers.append(follower)

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        """A node is there with these labels. Nothing happens when that was known."""
        before = self._labels.get(name)
        if before == labels:
            return
        bit = 1 << (self._occupy(name) if before is None else self._slots[name])
        after = dict(labels)
        for key, value in (before or {}).items():
            if after.get(key) != value:
                self._unlabel(key, value, bit)
        for key, value in after.items():
            labelled = self._labelled.setdefault(key, _Labelled())
            labelled.nodes |= bit
            labelled.by_value[value] = labelled.by_value.get(value, EMPTY) | bit
        self._all |= bit
        self._labels[name] = after
        self._moved(NodeChange(name, before, after))

    def remove(self, name: str) -> None:
        """A node is gone, and its slot is free for another one. Nothing happens when that was known."""
        before = self._labels.pop(name, None)
        if before is None:
            return
        slot = self._slots.pop(name)
        for key, value in before.items():
            self._unlabel(key, value, 1 << slot)
        self._all &= ~(1 << slot)
        self._names[slot] = ""
        heapq.heappush(self._vacant, slot)
        self._moved(NodeChange(name, before, None))

    def matching(self, selector: NodeSelector | None) -> NodeSet:
        """The nodes a selector matches; None matches all, a selector without terms none."""
        if selector is None:
            return self._all
        answer = self._answers.get(selector)
        if answer is None:
            answer = EMPTY
            for term in selector.terms:
                answer |= self._matching_term(term)
            if len(self._answers) >= REMEMBERED or self._answered_words + selector.words > REMEMBERED_WORDS:
                self._answers.clear()
                self._answered_words = 0
            self._answers[selector] = answer
            self._answered_words += selector.words
        return answer

    def allowed(self, topologies: TopologySelector) -> NodeSet:
        """The nodes a StorageClass's `allowedTopologies` admit; without terms, all."""
        return self.matching(NodeSelector(topologies.terms)) if topologies.terms else self._all

    def _matching_term(self, term: NodeSelectorTerm) -> NodeSet:
        if term.problems or not (term.expressions or term.fields):
            return EMPTY
        nodes = self._all
        for expression in term.expressions:
            nodes &= self._fulfilling(expression)
        for requirement in term.fields:
            nodes &= self._named_by(requirement)
        return nodes

    def _fulfilling(self, requirement: Requirement) -> NodeSet:
        labelled = self._labelled.get(requirement.key) or _Labelled()
        match requirement.operator:
            case Operator.IN:
                return _any_of(labelled, requirement)
            case Operator.NOT_IN:
                return self._all & ~_any_of(labelled, requirement)
            case Operator.EXISTS:
                return labelled.nodes
            case Operator.DOES_NOT_EXIST:
                return self._all & ~labelled.nodes
            case Operator.GT | Operator.LT:
                nodes = EMPTY
                for value, holders in labelled.by_value.items():
                    if requirement.matches({requirement.key: value}):
                        nodes |= holders
                return nodes

    def _named_by(self, requirement: Requirement) -> NodeSet:
        """metadata.name is the only field of a node that a selector can name, with In or NotIn."""
        nodes = EMPTY
        for name in requirement.values:
            nodes |= self.named(name)
        return nodes if requirement.operator is Operator.IN else self._all & ~nodes

    def _occupy(self, name: str) -> int:
        if self._vacant:
            slot = heapq.heappop(self._vacant)
            self._names[slot] = name
        else:
            slot = len(self._names)
            self._names.append(name)
        self._slots[name] = slot
        return slot

    def _unlabel(self, key: str, value: str, bit: NodeSet) -> None:
        labelled = self._labelled[key]
        labelled.nodes &= ~bit
        labelled.by_value[value] &= ~bit
        if not labelled.by_value[value]:
            del labelled.by_value[value]
        if not labelled.nodes:
            del self._labelled[key]

    def _moved(self, change: NodeChange) -> None:
        self.version += 1
        self._answers.clear()
        self._answered_words = 0
        for follower in self._followers:
            follower(change)


def _any_of(labelled: _Labelled, requirement: Requirement) -> NodeSet:
    nodes = EMPTY
    for value in requirement.values:
        nodes |= labelled.by_value.get(value, EMPTY)
    return nodes
