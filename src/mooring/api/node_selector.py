"""Node selectors (node affinity of pods and volumes) and the topologies a StorageClass allows.

Compiled from read views into frozen, hashable values: equal selectors are equal objects, so a caller
can intern them and keep one node set per selector. A term that cannot be understood matches nothing
and says why in `problems`; it never hides the terms beside it. Not here: caching, node sets, and
weights of preferred terms.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from mooring.api.label_selector import ExpressionView, Operator, Requirement, SelectorError

__all__ = [
    "NodeSelector",
    "NodeSelectorTerm",
    "TermView",
    "TopologyExpressionView",
    "TopologySelector",
    "TopologyTermView",
    "from_view",
    "term_from_view",
    "topologies_from_view",
]

NODE_NAME_FIELD: Final = "metadata.name"
"""The only field of a node that matchFields may name."""


class TermView(Protocol):
    """A NodeSelectorTerm as a read view has it."""

    @property
    def match_expressions(self) -> Iterable[ExpressionView]: ...
    @property
    def match_fields(self) -> Iterable[ExpressionView]: ...


class TopologyExpressionView(Protocol):
    """A TopologySelectorLabelRequirement as a read view has it."""

    @property
    def key(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


class TopologyTermView(Protocol):
    """A TopologySelectorTerm as a read view has it."""

    @property
    def match_label_expressions(self) -> Iterable[TopologyExpressionView]: ...


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False):
    """Conditions that must all hold. A term without any, or with a problem, matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    problems: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], *, fields: Mapping[str, str] | None) -> bool:
        """Whether a node fits; without `fields`, matchFields counts as fulfilled."""
        if self.problems or not (self.expressions or self.fields):
            return False
        # Plain loops: asked for every node, and generators would cost as much as the comparison.
        for one in self.expressions:
            if not one.matches(labels):
                return False
        return fields is None or all(one.matches(fields) for one in self.fields)


class NodeSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Terms of which one must hold; without terms no node fits."""

    terms: tuple[NodeSelectorTerm, ...] = ()

    @property
    def words(self) -> int:
        """Keys and values in it: what caches of selectors are bounded by."""
        return sum(1 + len(one.values) for term in self.terms for one in (*term.expressions, *term.fields))

    def matches(self, labels: Mapping[str, str], *, fields: Mapping[str, str] | None) -> bool:
        """Whether a node fits.

        `fields` is `{"metadata.name": name}` for pods. Kubernetes compares volumes with a nameless
        node and so ignores their matchFields, even when a term has nothing else: `fields=None`.
        """
        for term in self.terms:  # noqa: SIM110  # see NodeSelectorTerm.matches
            if term.matches(labels, fields=fields):
                return True
        return False

    @property
    def problems(self) -> tuple[str, ...]:
        """Why terms could not be understood; of interest when no term matched."""
        return tuple(problem for term in self.terms for problem in term.problems)


class TopologySelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """`allowedTopologies`: terms of which one must hold; without terms every node is allowed."""

    terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.terms or any(term.matches(labels, fields=None) for term in self.terms)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why terms could not be understood; such terms allow no node."""
        return tuple(problem for term in self.terms for problem in term.problems)


def from_view(terms: Iterable[TermView]) -> NodeSelector:
    """The selector that a NodeSelector's `nodeSelectorTerms` spell."""
    return NodeSelector(tuple(term_from_view(term, path=f"nodeSelectorTerms[{i}].") for i, term in enumerate(terms)))


def term_from_view(term: TermView, *, path: str = "") -> NodeSelectorTerm:
    """One term; `path` is where it stands, for the texts of its problems."""
    expressions, wrong = _compiled(term.match_expressions, f"{path}matchExpressions", _label_requirement)
    fields, also_wrong = _compiled(term.match_fields, f"{path}matchFields", _field_requirement)
    return NodeSelectorTerm(expressions, fields, wrong + also_wrong)


def topologies_from_view(terms: Iterable[TopologyTermView]) -> TopologySelector:
    """The selector that a StorageClass's `allowedTopologies` spell; none at all allows every node."""
    return TopologySelector(tuple(_topology_term(term, f"allowedTopologies[{i}].") for i, term in enumerate(terms)))


def _topology_term(term: TopologyTermView, path: str) -> NodeSelectorTerm:
    views = term.match_label_expressions
    expressions, wrong = _compiled(views, f"{path}matchLabelExpressions", _topology_requirement)
    return NodeSelectorTerm(expressions, problems=wrong)


_View = TypeVar("_View")


def _compiled(
    views: Iterable[_View], path: str, compile_one: Callable[[_View], Requirement]
) -> tuple[tuple[Requirement, ...], tuple[str, ...]]:
    """The requirements in order, and what is wrong with the views that made none."""
    good: set[Requirement] = set()
    problems: list[str] = []
    for i, view in enumerate(views):
        try:
            good.add(compile_one(view))
        except SelectorError as problem:
            problems.append(f"{path}[{i}].{problem}")
    return tuple(sorted(good)), tuple(problems)


def _label_requirement(view: ExpressionView) -> Requirement:
    return Requirement.checked(view.key, _operator(view.operator, tuple(Operator)), view.values)


def _topology_requirement(view: TopologyExpressionView) -> Requirement:
    return Requirement.checked(view.key, Operator.IN, view.values)


def _field_requirement(view: ExpressionView) -> Requirement:
    """matchFields knows less than matchExpressions: one field, In and NotIn, exactly one value."""
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
