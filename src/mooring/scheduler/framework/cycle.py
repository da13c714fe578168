"""The scheduling cycle: one pod, one snapshot, one decision. Pure.

Every filter runs on every node: nothing is sampled and no rejection ends the run, so that the run that decides also
explains. The feasible node with the best score wins; ties are broken by the given random source. Queueing and writing
are the component's and the binder's.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from mooring.api.views.pods import Pod
from mooring.scheduler.framework.interface import (
    CycleState,
    Decision,
    Filter,
    FilterResult,
    NodeRejection,
    Plugin,
    PreFilter,
    PreFilterRejection,
    Reserve,
    Score,
    ScoreSummary,
)
from mooring.scheduler.framework.shared_claims import nodes_for_sharing_pods
from mooring.scheduler.plugins.gates import DefaultPreemption
from mooring.scheduler.preemption.nominator import Nominator
from mooring.scheduler.snapshot.resources import Vector
from mooring.volumes.binding import BindingPlan
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, mask_of, union


class Profile:
    """The plugins of one scheduler name, in the order they run and report. Immutable.

    Sorted by extension point once: checking which methods a class has costs more than most plugins.
    """

    def __init__(self, plugins: Iterable[Plugin], *, weights: Mapping[str, int] | None = None) -> None:
        """`weights` replace the score weights of plugins, by plugin name."""
        self.plugins = tuple(plugins)
        self._weights = dict(weights or {})
        self.prefilters = tuple(one for one in self.plugins if isinstance(one, PreFilter))
        self.filters = tuple(one for one in self.plugins if isinstance(one, Filter))
        self.scorers = tuple(one for one in self.plugins if isinstance(one, Score))
        self.reserver = next((one for one in self.plugins if isinstance(one, Reserve)), None)
        self.preemptor = next((one for one in self.plugins if isinstance(one, DefaultPreemption)), None)
        others = tuple(one for one in self.plugins if not getattr(one, "volumes_only", False))
        self._without_volumes = self if len(others) == len(self.plugins) else Profile(others, weights=weights)

    def for_pod(self, pod: Pod) -> "Profile":
        """The profile, without the `volumes_only` plugins if the pod has no volumes."""
        return self if pod.spec.volumes else self._without_volumes

    def weight(self, plugin: Score) -> int:
        return self._weights.get(plugin.name, plugin.weight)

    def with_first_plugins(self, *plugins: Plugin) -> "Profile":
        return Profile((*plugins, *self.plugins), weights=self._weights)


NO_NODES: Final = "no nodes available to schedule pods"
NO_NOMINATED_PODS: Final = Nominator()
NO_PROVISIONING_FAILURES: Final[Mapping[str, int]] = MappingProxyType({})


def run_cycle(
    state: CycleState,
    profile: Profile,
    rng: random.Random,
    *,
    nominator: Nominator = NO_NOMINATED_PODS,
    provisioning_failures: Mapping[str, int] = NO_PROVISIONING_FAILURES,
) -> Decision:
    """Choose a node. The caller passes the same state to `reserve` afterwards. `provisioning_failures` counts by node
    how often provisioning failed for this pod: nodes with fewer are preferred."""
    filtered = filter_nodes(state, profile, nominator)
    if not filtered.nodes:
        return filtered.decision
    node, ranking = choose_node(
        state, profile, filtered.nodes, rng, nominator=nominator, provisioning_failures=provisioning_failures
    )
    return filtered.decision._replace(node=node, ranking=ranking)


class FilteredNodes(NamedTuple):
    """The feasible nodes, and the decision as far as filters go."""

    nodes: NodeSet
    decision: Decision


def filter_nodes(state: CycleState, profile: Profile, nominator: Nominator = NO_NOMINATED_PODS) -> FilteredNodes:
    """Run prefilters and filters."""
    profile = profile.for_pod(state.pod)
    nodes = state.snapshot.nodes
    refusals = tuple(
        PreFilterRejection(plugin.name, reason)
        for plugin in profile.prefilters
        if (reason := plugin.prefilter(state)) is not None
    )
    filtered = run_filters(state, profile, nominator, skipped=[refusal.plugin for refusal in refusals])
    results = (*state.restricted, *filtered)
    decision = Decision(state.pod, "", nodes.bit_count(), refusals, results)
    return FilteredNodes(EMPTY if refusals else nodes & ~_rejected(results), decision)


def choose_node(
    state: CycleState,
    profile: Profile,
    feasible: NodeSet,
    rng: random.Random,
    *,
    nominator: Nominator = NO_NOMINATED_PODS,
    provisioning_failures: Mapping[str, int] = NO_PROVISIONING_FAILURES,
) -> tuple[str, ScoreSummary]:
    """The best of the feasible nodes, of which there is at least one."""
    profile = profile.for_pod(state.pod)
    feasible = _fewest_provisioning_failures(feasible, provisioning_failures, state.snapshot.topology)
    feasible = nodes_for_sharing_pods(state, feasible, lambda other: _feasible_nodes(other, profile, nominator))
    # The nominated node, where pods were preempted for this one, wins if it is feasible by now.
    feasible = state.snapshot.topology.named(nominator.node_of(state.pod)) & feasible or feasible
    names, totals = state.snapshot.names, _score(state, profile, feasible)
    chosen, second = _best_two(totals, feasible, rng)
    runner_up = (names[second], float(totals[second])) if second is not None else ("", 0.0)
    return names[chosen], ScoreSummary(feasible.bit_count(), float(totals[chosen]), *runner_up, state.volume_policy)


def _feasible_nodes(state: CycleState, profile: Profile, nominator: Nominator) -> NodeSet:
    profile = profile.for_pod(state.pod)
    if any(plugin.prefilter(state) is not None for plugin in profile.prefilters):
        return EMPTY
    return state.snapshot.nodes & ~_rejected((*state.restricted, *run_filters(state, profile, nominator)))


def run_filters(
    state: CycleState, profile: Profile, nominator: Nominator, *, skipped: Collection[str] = ()
) -> tuple[FilterResult, ...]:
    """The results of a profile's filters on all nodes: a node must pass with the nominated pods and without them."""
    filters = [one for one in profile.filters if one.name not in skipped]
    results, *more = run_filters_with_nominated_pods(state, filters, nominator)
    if not more:
        return results
    settled = _rejected(results)
    return tuple(
        FilterResult(name, (*first, *(r._replace(nodes=r.nodes & ~settled) for r in second if r.nodes & ~settled)))
        for (name, first), (_, second) in zip(results, *more, strict=True)
    )


def run_filters_with_nominated_pods(
    state: CycleState, filters: Sequence[Filter], nominator: Nominator
) -> tuple[tuple[FilterResult, ...], ...]:
    """The results with the nominated pods on their nodes and, if there are any, also without them."""
    with nominator.with_nominated_pods(state.snapshot, state.pod) as any_nominated:
        results = _run(state, filters)
    return (results, _run(state, filters)) if any_nominated else (results,)


def _run(state: CycleState, filters: Sequence[Filter]) -> tuple[FilterResult, ...]:
    nodes = state.snapshot.nodes
    return tuple(FilterResult(plugin.name, tuple(_within(nodes, plugin.filter(state)))) for plugin in filters)


def _within(nodes: NodeSet, rejections: Iterable[NodeRejection]) -> Iterator[NodeRejection]:
    """Without empty rejections, by which the plugin would count as rejecting."""
    for rejection in rejections:
        if rejection.nodes & nodes:
            yield rejection._replace(nodes=rejection.nodes & nodes)


def _rejected(results: Iterable[FilterResult]) -> NodeSet:
    return union(rejection.nodes for _, rejections in results for rejection in rejections)


def _fewest_provisioning_failures(feasible: NodeSet, failures: Mapping[str, int], topology: TopologyIndex) -> NodeSet:
    """Scores alone would choose a node where provisioning fails again and again."""
    failed = {name: nodes for name in failures if (nodes := topology.named(name) & feasible)}
    left = feasible & ~sum(failed.values())
    if left:
        return left
    fewest = min(failures[name] for name in failed)
    return sum(nodes for name, nodes in failed.items() if failures[name] == fewest)


def _score(state: CycleState, profile: Profile, feasible: NodeSet) -> Vector:
    totals = np.zeros(state.snapshot.resources.width)
    # Scores only compare: a single feasible node needs none.
    if feasible & (feasible - 1):
        for plugin in profile.scorers:
            scores = plugin.score(state, feasible)
            if scores is not None:
                totals += profile.weight(plugin) * scores
    return totals


def _best_two(totals: Vector, feasible: NodeSet, rng: random.Random) -> tuple[int, int | None]:
    """The slot of the best node, drawn among equals, and of the runner-up, if there is one."""
    among = np.where(mask_of(feasible, len(totals)), totals, -np.inf)
    best = np.flatnonzero(among == among.max())
    drawn = rng.randrange(len(best))
    chosen = int(best[drawn])
    if len(best) > 1:
        return chosen, int(best[drawn - 1])
    among[chosen] = -np.inf
    second = int(among.argmax())
    return chosen, second if among[second] > -np.inf else None


def reserve(state: CycleState, profile: Profile, node: str) -> BindingPlan:
    """Reserve volumes on the chosen node; `VolumeState.restore` undoes it. OutOfSync leaves nothing reserved."""
    reserver = profile.for_pod(state.pod).reserver
    return BindingPlan(node) if reserver is None else reserver.reserve(state, node)


def fit_error(decision: Decision) -> str:
    """kube-scheduler's FitError message: a node counts for the first plugin that rejected it, with all its reasons."""
    if not decision.evaluated_nodes:
        return NO_NODES
    available = f"0/{decision.evaluated_nodes} nodes are available:"
    if decision.refusals:
        return f"{available} {decision.refusals[0].reason}."
    counted: Counter[str] = Counter()
    settled = EMPTY
    for result in decision.filter_results:
        for rejection in result.rejections:
            counted[rejection.reason] += (rejection.nodes & ~settled).bit_count()
        settled |= result.nodes
    reasons = sorted(f"{count} {reason}" for reason, count in counted.items() if count)
    return f"{available} {', '.join(reasons)}."
