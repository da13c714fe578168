"""The scheduling cycle: one pod, one snapshot, one decision. Pure.

All plugins are asked about all nodes, nothing is sampled and nothing stops at the first no, so that the run that
decides is also the run that explains. Then the feasible nodes are scored and the best one wins; among equals the
given random source chooses. `reserve` makes the promises that a decision rests on. Queueing and writing are others'.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from mooring.api.views.pod import Pod
from mooring.scheduler.columns import Vector
from mooring.scheduler.contract import Cycle, Decision, Filter, Ranking, Refusal, Rejection, Reserve, Said
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.profile import Profile
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes import nodeset
from mooring.volumes.nodeset import EMPTY, NodeSet, to_mask
from mooring.volumes.plan import BindingPlan
from mooring.volumes.topology import TopologyIndex

NO_NODES: Final = "no nodes available to schedule pods"
#: For who asks about a cluster without anybody waiting for a place that was cleared.
NO_NOMINATIONS: Final = Nominations()
#: Of a pod that no node was given back for.
NEVER: Final[Mapping[str, int]] = MappingProxyType({})


class Totals(Mapping[str, float]):
    """Scores by node name, spelled out only when somebody reads them: 5,000 names cost more than the decision."""

    def __init__(self, names: tuple[str, ...], nodes: NodeSet, scores: Vector) -> None:
        self._names = names
        self._nodes = nodes
        self._scores = scores

    def __getitem__(self, name: str) -> float:
        for slot in nodeset.slots(self._nodes):
            if self._names[slot] == name:
                return float(self._scores[slot])
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (self._names[slot] for slot in nodeset.slots(self._nodes))

    def __len__(self) -> int:
        return self._nodes.bit_count()


class Reservation(NamedTuple):
    """What was promised for a pod on a node, by whom, so that it can be taken back."""

    node: str
    promises: tuple[tuple[Reserve, BindingPlan], ...]

    @property
    def plan(self) -> BindingPlan:
        """All of it together, for whoever carries it out."""
        plans = [plan for _, plan in self.promises]
        return BindingPlan(
            self.node,
            static=tuple(binding for plan in plans for binding in plan.static),
            provision=tuple(wish for plan in plans for wish in plan.provision),
        )


def decide(pod: Pod, snapshot: Snapshot, profile: Profile, rng: random.Random) -> Decision:
    """Where the pod goes, or why it goes nowhere."""
    return run(Cycle(pod, snapshot), profile, rng)


def run(
    cycle: Cycle,
    profile: Profile,
    rng: random.Random,
    *,
    nominations: Nominations = NO_NOMINATIONS,
    given_back: Mapping[str, int] = NEVER,
) -> Decision:
    """Decide within a cycle that the caller keeps, to `reserve` in it afterwards.

    `given_back` counts how often provisioners had no volume to offer this pod on a node: such nodes come last.
    """
    profile = profile.concerning(cycle.pod)
    nodes = cycle.snapshot.nodes
    refusals = tuple(
        Refusal(plugin.name, reason) for plugin in profile.prefilters if (reason := plugin.prefilter(cycle)) is not None
    )
    said = (*cycle.narrowed, *ask(cycle, profile, nominations, left_out=[refusal.plugin for refusal in refusals]))
    feasible = nodes & ~_rejected(said)
    if refusals or not feasible:
        return Decision(cycle.pod, "", nodes.bit_count(), refusals, said, {})
    feasible = _least_given_back(feasible, given_back, cycle.snapshot.topology)
    # A node that others had to leave for this pod is taken if it does by now.
    feasible = cycle.snapshot.topology.named(nominations.node_of(cycle.pod)) & feasible or feasible
    totals = _scored(cycle, profile, feasible)
    names = cycle.snapshot.names
    chosen, second = _best_two(totals, feasible, rng)
    runner_up = (names[second], float(totals[second])) if second is not None else ("", 0.0)
    ranking = Ranking(feasible.bit_count(), float(totals[chosen]), *runner_up)
    spelled = Totals(names, feasible, totals)
    return Decision(cycle.pod, names[chosen], nodes.bit_count(), (), said, spelled, ranking)


def ask(
    cycle: Cycle, profile: Profile, nominations: Nominations, *, left_out: Collection[str] = ()
) -> tuple[Said, ...]:
    """What a profile's filters say about all nodes, as the snapshot is now."""
    filters = [one for one in profile.filters if one.name not in left_out]
    said, *more = ask_twice(cycle, filters, nominations)
    if not more:
        return said
    settled = _rejected(said)
    return tuple(
        Said(name, (*with_them, *(r._replace(nodes=r.nodes & ~settled) for r in without if r.nodes & ~settled)))
        for (name, with_them), (_, without) in zip(said, *more, strict=True)
    )


def ask_twice(cycle: Cycle, filters: Sequence[Filter], nominations: Nominations) -> tuple[tuple[Said, ...], ...]:
    """What filters say while pods that were promised a node count as being there, and what they say without them.

    They may never come: a node must do without them as well. Where nobody was promised one, once is enough.
    """
    with nominations.counted(cycle.snapshot, cycle.pod) as some:
        said = _said(cycle, filters)
    return (said, _said(cycle, filters)) if some else (said,)


def _said(cycle: Cycle, filters: Sequence[Filter]) -> tuple[Said, ...]:
    nodes = cycle.snapshot.nodes
    return tuple(Said(plugin.name, tuple(_within(nodes, plugin.filter(cycle)))) for plugin in filters)


def _rejected(said: Iterable[Said]) -> NodeSet:
    nodes = EMPTY
    for _, rejections in said:
        for rejection in rejections:
            nodes |= rejection.nodes
    return nodes


def reserve(cycle: Cycle, profile: Profile, node: str) -> Reservation:
    """Promise the node to the pod, in the cycle that chose it. What is raised leaves no promise behind: OutOfSync, or
    the bug of a plugin."""
    promises: list[tuple[Reserve, BindingPlan]] = []
    try:
        for plugin in profile.concerning(cycle.pod).reservers:
            promises.append((plugin, plugin.reserve(cycle, node)))  # noqa: PERF401  what was promised must be known
    except Exception:
        unreserve(cycle.snapshot, Reservation(node, tuple(promises)))
        raise
    return Reservation(node, tuple(promises))


def unreserve(snapshot: Snapshot, reservation: Reservation) -> None:
    """Take all promises back, the last first. Idempotent."""
    for plugin, plan in reversed(reservation.promises):
        plugin.unreserve(snapshot, plan)


def failure_message(decision: Decision) -> str:
    """Why a pod was not placed, in kube-scheduler's words.

    Each node counts for the first plugin that rejected it, with all that this plugin said; reasons are sorted as
    texts, with their counts in front.
    """
    if not decision.considered:
        return NO_NODES
    available = f"0/{decision.considered} nodes are available:"
    if decision.refusals:
        return f"{available} {decision.refusals[0].reason}."
    counted: Counter[str] = Counter()
    settled = EMPTY
    for _, rejections in decision.said:
        rejected = EMPTY
        for rejection in rejections:
            counted[rejection.reason] += (rejection.nodes & ~settled).bit_count()
            rejected |= rejection.nodes
        settled |= rejected
    reasons = sorted(f"{count} {reason}" for reason, count in counted.items() if count)
    return f"{available} {', '.join(reasons)}."


def _within(nodes: NodeSet, rejections: Iterable[Rejection]) -> Iterator[Rejection]:
    """Without rejections of nobody, which would make a plugin look like it said no."""
    for rejection in rejections:
        if rejection.nodes & nodes:
            yield rejection._replace(nodes=rejection.nodes & nodes)


def _least_given_back(feasible: NodeSet, given_back: Mapping[str, int], topology: TopologyIndex) -> NodeSet:
    """Without nodes that were given back more often than others: scores alone would choose the same one for ever."""
    tried = {name: nodes for name in given_back if (nodes := topology.named(name) & feasible)}
    left = feasible & ~sum(tried.values())
    if left:
        return left
    fewest = min(given_back[name] for name in tried)
    return sum(nodes for name, nodes in tried.items() if given_back[name] == fewest)


def _scored(cycle: Cycle, profile: Profile, feasible: NodeSet) -> Vector:
    totals = np.zeros(cycle.snapshot.resources.width)
    if feasible & (feasible - 1):
        for plugin in profile.scorers:
            scores = plugin.score(cycle, feasible)
            if scores is not None:
                totals += profile.weight(plugin) * scores
    # A single feasible node needs no comparison.
    return totals


def _best_two(totals: Vector, feasible: NodeSet, rng: random.Random) -> tuple[int, int | None]:
    """The slot of the best node, drawn among equals, and that of the next best, if there is another."""
    among = to_mask(feasible, len(totals))
    best = np.flatnonzero(among & (totals == totals[among].max()))
    drawn = rng.randrange(len(best))
    chosen = int(best[drawn])
    if len(best) > 1:
        return chosen, int(best[drawn - 1])
    among[chosen] = False
    second = int(np.where(among, totals, -np.inf).argmax())
    return chosen, second if among[second] else None
