"""Node selectors (node affinity of pods and volumes) and the allowed topologies of a StorageClass.

Compiled from read views into frozen, hashable values, so that a caller can keep one node set per selector. An invalid
term matches nothing and explains itself in `problems`; the other terms stay valid.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from mooring.api.selectors import Operator, Requirement, SelectorError
from mooring.api.views.meta import NodeSelectorTermView, SelectorRequirement
from mooring.api.views.storage import TopologyTerm

#: The only node field that matchFields supports.
NODE_NAME_FIELD: Final = "metadata.name"


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False):
    """Conditions that must all hold. A term without any, or with a problem, matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    problems: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], *, fields: Mapping[str, str] | None) -> bool:
        """Whether a node matches; without `fields`, matchFields counts as satisfied."""
        if self.problems or not (self.expressions or self.fields):
            return False
        # Plain loops: called for every node, and a generator would cost as much as the comparison.
        for one in self.expressions:
            if not one.matches(labels):
                return False
        return fields is None or all(one.matches(fields) for one in self.fields)


class _Terms(msgspec.Struct, frozen=True, gc=False):
    terms: tuple[NodeSelectorTerm, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Why terms are invalid; such terms match no node."""
        return tuple(problem for term in self.terms for problem in term.problems)


class NodeSelector(_Terms, frozen=True, gc=False, cache_hash=True):
    """Terms of which one must match; without terms no node matches."""

    @property
    def words(self) -> int:
        """Keys and values in it: what caches of selectors are bounded by."""
        return sum(1 + len(one.values) for term in self.terms for one in (*term.expressions, *term.fields))

    def matches(self, labels: Mapping[str, str], *, fields: Mapping[str, str] | None) -> bool:
        """Whether a node matches. `fields` is `{"metadata.name": name}` for pods, None for volumes: Kubernetes compares
        them with a nameless node and so ignores their matchFields, even when a term has nothing else."""
        for term in self.terms:  # noqa: SIM110  # see NodeSelectorTerm.matches
            if term.matches(labels, fields=fields):
                return True
        return False


class TopologySelector(_Terms, frozen=True, gc=False, cache_hash=True):
    """`allowedTopologies`: terms of which one must match; without terms every node matches."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.terms or any(term.matches(labels, fields=None) for term in self.terms)


def node_selector_from_view(terms: Iterable[NodeSelectorTermView]) -> NodeSelector:
    return NodeSelector(tuple(term_from_view(term, path=f"nodeSelectorTerms[{i}].") for i, term in enumerate(terms)))


def term_from_view(term: NodeSelectorTermView, *, path: str = "") -> NodeSelectorTerm:
    """One term; `path` is its position, for its problems."""
    expressions, wrong = _compiled(
        term.match_expressions,
        f"{path}matchExpressions",
        lambda view: Requirement.checked(view.key, _operator(view.operator, tuple(Operator)), view.values),
    )
    fields, also_wrong = _compiled(term.match_fields, f"{path}matchFields", _field_requirement)
    return NodeSelectorTerm(expressions, fields, wrong + also_wrong)


def topologies_from_view(terms: Iterable[TopologyTerm]) -> TopologySelector:
    """`allowedTopologies` of a StorageClass."""
    return TopologySelector(tuple(_topology_term(term, f"allowedTopologies[{i}].") for i, term in enumerate(terms)))


def _topology_term(term: TopologyTerm, path: str) -> NodeSelectorTerm:
    expressions, wrong = _compiled(
        term.match_label_expressions,
        f"{path}matchLabelExpressions",
        lambda view: Requirement.checked(view.key, Operator.IN, view.values),
    )
    return NodeSelectorTerm(expressions, problems=wrong)


_View = TypeVar("_View")


def _compiled(
    views: Iterable[_View], path: str, compile_one: Callable[[_View], Requirement]
) -> tuple[tuple[Requirement, ...], tuple[str, ...]]:
    """The valid requirements, sorted, and the problems of the others."""
    good: set[Requirement] = set()
    problems: list[str] = []
    for i, view in enumerate(views):
        try:
            good.add(compile_one(view))
        except SelectorError as problem:
            problems.append(f"{path}[{i}].{problem}")
    return tuple(sorted(good)), tuple(problems)


def _field_requirement(view: SelectorRequirement) -> Requirement:
    """matchFields supports less than matchExpressions: one field, In and NotIn, exactly one value."""
    operator = _operator(view.operator, (Operator.IN, Operator.NOT_IN))
    if view.key != NODE_NAME_FIELD:
        raise SelectorError(f'key: Invalid value: "{view.key}": not a valid field selector key')
    if len(view.values) != 1:
        raise SelectorError("values: Required value: must be only one value for node field selectors")
    return Requirement(view.key, operator, view.values)


def _operator(word: str, allowed: tuple[Operator, ...]) -> Operator:
    for operator in allowed:
        if word == operator:
            return operator
    supported = ", ".join(f'"{operator}"' for operator in sorted(allowed))
    raise SelectorError(f'operator: Unsupported value: "{word}": supported values: {supported}')
