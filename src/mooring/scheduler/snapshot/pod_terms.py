"""A pod's affinity terms, required nodes and default spread selectors, compiled to hashable values. Pure.

Replicas of a workload share equal values, by which `pod_index` counts. What they mean for a node is the plugins'.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api import node_selectors, selectors
from mooring.api.node_selectors import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm
from mooring.api.selectors import LabelSelector, Operator, Requirement, SelectorError
from mooring.api.views.core import Node, ReplicationController, Service
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod, PodAffinityTerm
from mooring.api.views.workloads import ReplicaSet, StatefulSet
from mooring.volumes.topology import NodeSet, TopologyIndex


class PodSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The pods that a term selects, by labels and namespaces."""

    labels: LabelSelector
    namespaces: frozenset[str]
    #: namespaceSelector; NOTHING if the term has none.
    more_namespaces: LabelSelector = selectors.NOTHING
    #: Whether terminating pods count: for affinity they do, for topology spread they do not.
    terminating: bool = True

    @property
    def words(self) -> int:
        """The number of keys, values and names, by which caches are bounded."""
        return self.labels.words + self.more_namespaces.words + len(self.namespaces)

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        return self.matches_labels(pod.namespace, pod.metadata.labels, namespace_labels)

    def matches_labels(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if namespace not in self.namespaces and not self.more_namespaces.matches(namespace_labels):
            return False
        return self.labels.matches(labels)

    @property
    def reads_namespaces(self) -> bool:
        """Whether namespace labels matter."""
        return bool(self.more_namespaces.requirements)


class Term(NamedTuple):
    """A (anti-)affinity term: nodes with an equal value of the label `topology_key` are near."""

    topology_key: str
    pods: PodSelector


class WeightedTerm(NamedTuple):
    """A preferred term: positive weights attract, negative ones repel."""

    term: Term
    weight: int

    @property
    def pods(self) -> PodSelector:
        return self.term.pods

    @property
    def topology_key(self) -> str:
        return self.term.topology_key


class PodTerms(NamedTuple):
    """All pod affinity and anti-affinity terms of a pod."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()


NO_TERMS: Final = PodTerms()


def terms_of(pod: Pod) -> PodTerms:
    """Raises SelectorError."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    preferred: list[WeightedTerm] = []
    for side, sign in ((near, 1), (far, -1)):
        if side is not None:
            preferred += [
                WeightedTerm(_term(pod, weighted.pod_affinity_term), sign * weighted.weight)
                for weighted in side.preferred_during_scheduling_ignored_during_execution
            ]
    required_near = () if near is None else near.required_during_scheduling_ignored_during_execution
    required_far = () if far is None else far.required_during_scheduling_ignored_during_execution
    return PodTerms(
        tuple(_term(pod, term) for term in required_near),
        tuple(_term(pod, term) for term in required_far),
        tuple(preferred),
    )


def _term(pod: Pod, term: PodAffinityTerm) -> Term:
    selector = selectors.label_selector_from_view(term.label_selector)
    labels = with_own_labels(selector, pod, term.match_label_keys, term.mismatch_label_keys)
    own_namespace = not term.namespaces and term.namespace_selector is None
    namespaces = frozenset({pod.namespace} if own_namespace else term.namespaces)
    more_namespaces = selectors.label_selector_from_view(term.namespace_selector)
    return Term(term.topology_key, PodSelector(labels, namespaces, more_namespaces))


def with_own_labels(
    selector: LabelSelector, pod: Pod, match_keys: Iterable[str], mismatch_keys: Iterable[str] = ()
) -> LabelSelector:
    """The selector with the pod's values of matchLabelKeys and mismatchLabelKeys added. Idempotent: current API servers
    do so at creation."""
    if selector.never:
        return selector
    own = pod.metadata.labels
    added = {Requirement.checked(k, Operator.IN, (own[k],)) for k in match_keys if k in own}
    added |= {Requirement.checked(k, Operator.NOT_IN, (own[k],)) for k in mismatch_keys if k in own}
    return LabelSelector(tuple(sorted(added.union(selector.requirements)))) if added else selector


class RequiredNodes(NamedTuple):
    """nodeSelector and required node affinity: selectors that must all match."""

    selectors: tuple[NodeSelector, ...]
    #: The node affinity, if there is one.
    affinity: NodeSelector | None = None

    def matching(self, topology: TopologyIndex) -> NodeSet:
        nodes = topology.all
        for selector in self.selectors:
            nodes &= topology.matching(selector)
        return nodes

    def matches(self, node: Node) -> bool:
        fields = {NODE_NAME_FIELD: node.name}
        return all(selector.matches(node.metadata.labels, fields=fields) for selector in self.selectors)

    @property
    def names(self) -> frozenset[str] | None:
        """The node names in matchFields, if every term has some (none if they contradict themselves); else None."""
        found: frozenset[str] | None = None
        for term in () if self.affinity is None else self.affinity.terms:
            names = _named(term)
            if names is None:
                return None
            found = names if found is None else found | names
        return found


def _named(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The node names in a term's matchFields; None without any."""
    names: frozenset[str] | None = None
    for one in term.fields:
        if one.key == NODE_NAME_FIELD and one.operator is Operator.IN:
            names = frozenset(one.values) if names is None else names & frozenset(one.values)
    return names


def required_of(pod: Pod) -> RequiredNodes:
    """Raises SelectorError for an invalid nodeSelector."""
    selectors: list[NodeSelector] = []
    if pod.spec.node_selector:
        labels = (Requirement.checked(key, Operator.IN, (v,)) for key, v in pod.spec.node_selector.items())
        selectors.append(NodeSelector((NodeSelectorTerm(tuple(sorted(labels))),)))
    affinity = pod.spec.affinity
    node_affinity = None if affinity is None else affinity.node_affinity
    if node_affinity is not None:
        required = node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            selector = node_selectors.node_selector_from_view(required.node_selector_terms)
            return RequiredNodes((*selectors, selector), selector)
    return RequiredNodes(tuple(selectors))


Controller = StatefulSet | ReplicaSet | ReplicationController

#: apiVersion and kind in owner references.
_OWNER_TYPES: Final[Mapping[type[ApiObject], tuple[str, str]]] = {
    StatefulSet: ("apps/v1", "StatefulSet"),
    ReplicaSet: ("apps/v1", "ReplicaSet"),
    ReplicationController: ("v1", "ReplicationController"),
}


class DefaultSpreadSelectors:
    """Selectors of the Services and controllers of pods, for kube-scheduler's default topology spread."""

    def __init__(self) -> None:
        self._services: defaultdict[str, dict[str, LabelSelector]] = defaultdict(dict)
        self._controllers: dict[tuple[str, str, str], LabelSelector] = {}

    def observe_service(self, before: Service | None, after: Service | None) -> None:
        if before is not None:
            self._services[before.namespace].pop(before.name, None)
        if after is not None and after.spec.selector:
            self._services[after.namespace][after.name] = _exact(after.spec.selector)

    def observe_controller(self, before: Controller | None, after: Controller | None) -> None:
        """An invalid selector is ignored."""
        if before is not None:
            self._controllers.pop((*_OWNER_TYPES[type(before)], before.key), None)
        if after is not None:
            self._controllers[(*_OWNER_TYPES[type(after)], after.key)] = _selector(after)

    def of(self, pod: Pod) -> LabelSelector | None:
        """The selector of the pods that belong together with this one; None if there is none."""
        requirements: set[Requirement] = set()
        for selector in self._services.get(pod.namespace, {}).values():
            if selector.matches(pod.metadata.labels):
                requirements.update(selector.requirements)
        owner = pod.controller
        if owner is not None:
            key = (owner.api_version, owner.kind, f"{pod.namespace}/{owner.name}")
            requirements.update(self._controllers.get(key, selectors.ALL_LABELS).requirements)
        return LabelSelector(tuple(sorted(requirements))) if requirements else None


def _selector(controller: Controller) -> LabelSelector:
    """Without requirements if the controller has no selector, or an invalid one."""
    if isinstance(controller, ReplicationController):
        return _exact(controller.spec.selector or {})
    try:
        return selectors.label_selector_from_view(controller.spec.selector)
    except SelectorError:
        return selectors.NOTHING


def _exact(labels: Mapping[str, str]) -> LabelSelector:
    return LabelSelector(tuple(sorted(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())))
