"""A pod's affinity to other pods, compiled: frozen, hashable terms that replicas of a workload share.

From the read view to values that `pod_index` can count by. What the terms mean for a node is decided in
`plugins.inter_pod_affinity`; node affinity is another matter and lives in `plugins.node_affinity`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api import label_selector
from mooring.api.label_selector import LabelSelector, Operator, Requirement
from mooring.api.views.meta import LabelSelectorView
from mooring.api.views.pod import Pod, PodAffinityTerm


class PodSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Which pods a term speaks of: some labels, in some namespaces."""

    labels: LabelSelector
    namespaces: frozenset[str]
    #: Further namespaces, by their labels; NOTHING where the term names none.
    more_namespaces: LabelSelector = label_selector.NOTHING
    #: Whether pods on their way out count: for who wants to be near or far they do, for who counts heads they do not.
    leaving: bool = True

    @property
    def words(self) -> int:
        """Keys, values and names in it: what caches of selectors are bounded by."""
        return self.labels.words + self.more_namespaces.words + len(self.namespaces)

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        return self.matches_labels(pod.namespace, pod.metadata.labels, namespace_labels)

    def matches_labels(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if namespace not in self.namespaces and not self.more_namespaces.matches(namespace_labels):
            return False
        return self.labels.matches(labels)

    @property
    def reads_namespaces(self) -> bool:
        """Whether relabelling a namespace can change the answer."""
        return bool(self.more_namespaces.requirements)


class Term(NamedTuple):
    """Near (or far from) those pods, where near means the same value of the node label `topology_key`."""

    topology_key: str
    pods: PodSelector


class WeightedTerm(NamedTuple):
    """A preference: positive weights attract, negative ones repel."""

    term: Term
    weight: int

    @property
    def pods(self) -> PodSelector:
        return self.term.pods


class PodTerms(NamedTuple):
    """All that a pod says about where other pods should be."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()


NO_TERMS: Final = PodTerms()


def terms_of(pod: Pod) -> PodTerms:
    """Raises SelectorError for a selector that cannot be understood."""
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
    return PodTerms(
        () if near is None else _terms(pod, near.required_during_scheduling_ignored_during_execution),
        () if far is None else _terms(pod, far.required_during_scheduling_ignored_during_execution),
        tuple(preferred),
    )


def _terms(pod: Pod, terms: Iterable[PodAffinityTerm]) -> tuple[Term, ...]:
    return tuple(_term(pod, term) for term in terms)


def _term(pod: Pod, term: PodAffinityTerm) -> Term:
    own_namespace = not term.namespaces and term.namespace_selector is None
    return Term(
        term.topology_key,
        PodSelector(
            _labels(pod, term),
            frozenset({pod.namespace} if own_namespace else term.namespaces),
            selector_of(term.namespace_selector),
        ),
    )


def _labels(pod: Pod, term: PodAffinityTerm) -> LabelSelector:
    selector = selector_of(term.label_selector)
    return with_own_labels(selector, pod, term.match_label_keys, term.mismatch_label_keys)


def with_own_labels(
    selector: LabelSelector, pod: Pod, match_keys: Iterable[str], mismatch_keys: Iterable[str] = ()
) -> LabelSelector:
    """The selector with the pod's own values of matchLabelKeys and mismatchLabelKeys worked in.

    Current API servers have done so when the pod was created; doing it again changes nothing.
    """
    if selector.never:
        return selector
    own = pod.metadata.labels
    added = {Requirement.checked(k, Operator.IN, (own[k],)) for k in match_keys if k in own}
    added |= {Requirement.checked(k, Operator.NOT_IN, (own[k],)) for k in mismatch_keys if k in own}
    return LabelSelector(tuple(sorted(added.union(selector.requirements)))) if added else selector


def selector_of(view: LabelSelectorView | None) -> LabelSelector:
    """An absent selector selects nothing, an empty one everything."""
    if view is None:
        return label_selector.NOTHING
    return label_selector.from_view(view.match_labels, view.match_expressions)
