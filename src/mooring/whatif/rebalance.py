"""Which few moves free a place for a pending pod. Pure.

A plan evicts pods from one node, on which the pending pod runs then. The search works on the state that a simulated run
without moves ends in: for each node, the fewest pods without which the scheduler's own decision accepts the node. Pods
that cannot move are left out, each with its reason. A plan counts only after a simulated run with its moves, in which
the pod and the successor of every moved pod run.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.pod_requirements import PODS, requests_of
from mooring.api.quantity import QuantityError
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DisruptionBudget
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.inspection import PodDecision, decide
from mooring.explain.node_details import offered_and_taken
from mooring.explain.remedies import data_loss
from mooring.explain.remedies.changes import ClusterChange, DeletePods, RaiseCapacity
from mooring.explain.remedies.verification import Trials
from mooring.explain.text import counted_noun, listed_names
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import RejectionCode
from mooring.scheduler.preemption.nominator import DisruptionBudgets
from mooring.scheduler.snapshot.snapshot import RemovedPods
from mooring.volumes.topology import affinity_of
from mooring.whatif.drivers import pools_of
from mooring.whatif.inventory import BadQuestion
from mooring.whatif.question import Moves, belongs_to_node
from mooring.whatif.results import NO_CONTROLLER, SimulationResult, SimulationStruct

#: Moves of a plan unless told otherwise, and at most.
DEFAULT_MOVES: Final = 3
MAX_MOVES: Final = 10
#: Nodes whose pods are tried, those that need fewest moves first; decisions for all of them; plans that are simulated.
MAX_TRIED_NODES: Final = 32
MAX_DECISIONS: Final = 1000
MAX_SIMULATED_PLANS: Final = 6
#: Pods of a node that turn out to have no other place, before the node is given up.
MAX_STUCK_PODS: Final = 3
#: Names listed in a sentence.
MAX_LISTED: Final = 3
#: Cluster Autoscaler's annotation of pods that must stay; "false" forbids.
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"

#: What other pods cause, so that moving some of them can help.
_CAUSED_BY_PODS: Final = frozenset(
    {
        RejectionCode.RESOURCE,
        RejectionCode.POD_COUNT,
        RejectionCode.HOST_PORTS,
        RejectionCode.DISK_IN_USE,
        RejectionCode.CLAIM_IN_USE,
        RejectionCode.VOLUME_LIMIT,
        RejectionCode.STORAGE_CAPACITY,
        RejectionCode.SPREADING,
        RejectionCode.POD_ANTI_AFFINITY,
        RejectionCode.EXISTING_POD_ANTI_AFFINITY,
    }
)


class Move(SimulationStruct, frozen=True):
    """A pod to evict; `to` is where its successor ran in the simulation, which has another name unless a StatefulSet
    makes it."""

    pod: str
    node: str
    to: str = ""
    successor: str = ""


class MoveLimit(SimulationStruct, frozen=True):
    """What keeps moves on these nodes from helping."""

    reason: str
    nodes: tuple[str, ...]


class ImmovablePod(SimulationStruct, frozen=True):
    pod: str
    node: str
    reason: str


class RebalancePlan(SimulationStruct, frozen=True, omit_defaults=False):
    verdict: str
    #: Whether the pod runs, with these moves or without any.
    ok: bool
    pod: str
    #: Where the pod runs after the moves; "" without a plan.
    node: str
    moves: tuple[Move, ...]
    #: What to do, in order.
    steps: tuple[str, ...]
    #: Without a plan: what bounds it; what other pods cause first, then most nodes first.
    limits: tuple[MoveLimit, ...]
    #: Pods on nodes that were tried, which no plan may name.
    immovable: tuple[ImmovablePod, ...]
    #: Number of simulated runs.
    runs: int
    #: With the moves; without a plan, without moves.
    result: SimulationResult


class SimulatedState(NamedTuple):
    """What a simulated run ends in."""

    result: SimulationResult
    objects: ClusterObjects
    budgets: Sequence[DisruptionBudget]
    #: The profile of a schedulerName.
    profile: Callable[[str], Profile]


#: Simulates the question with these moves; None for none.
SimulateMoves = Callable[[Moves | None], SimulatedState]


def plan_moves(key: str, simulate: SimulateMoves, *, most: int = DEFAULT_MOVES) -> RebalancePlan:
    """A plan of at most so many moves that lets the pod with this key run. Raises BadQuestion."""
    begin = simulate(None)
    pod = begin.objects.get(POD, key)
    if pod is None:
        raise BadQuestion(f"pod {key} to rebalance for not found")
    if pod.spec.node_name:
        verdict = f"{key} needs no moves: it runs on {pod.spec.node_name}."
        return RebalancePlan(verdict, True, key, pod.spec.node_name, (), (), (), (), 1, begin.result)
    search = _MoveSearch(begin, pod, most)
    proposals = search.proposals()
    failed: list[MoveLimit] = []
    for number, moves in enumerate(proposals[:MAX_SIMULATED_PLANS], start=2):
        after = simulate(moves)
        failure = _failure(key, begin.result, after)
        if not failure:
            return _plan(key, moves, begin, after, search, runs=number)
        failed.append(MoveLimit(f"without {listed_names(moves.pods, MAX_LISTED)}: {failure}", (moves.node,)))
    if skipped := proposals[MAX_SIMULATED_PLANS:]:
        failed.append(MoveLimit("not simulated: other plans failed", tuple(each.node for each in skipped)))
    limits = search.limits(failed)
    runs = 1 + min(len(proposals), MAX_SIMULATED_PLANS)
    bounds = f": {limits[0].reason} ({listed_names(limits[0].nodes, MAX_LISTED)})" if limits else ""
    verdict = f"No plan with at most {counted_noun(most, 'move')} lets {key} run{bounds}."
    return RebalancePlan(verdict, False, key, "", (), (), limits, search.immovable, runs, begin.result)


def _failure(key: str, begin: SimulationResult, after: SimulatedState) -> str:
    """Why the moves are no plan; "" if the pod runs and everything else runs as before."""
    result = after.result
    pod = after.objects.get(POD, key)
    waiting = {each.pod: each.reason for each in result.pending}
    if pod is None or not pod.spec.node_name or key in waiting:
        return f"{key} stays pending: {waiting.get(key, 'it was not created')}"
    before = {each.pod for each in begin.pending}
    for other, reason in waiting.items():
        if other not in before:
            return f"{other} would be pending: {reason}"
    for kept in result.blocked:
        return f"{kept.pod} stays on {kept.node}: {kept.reason}"
    for lost in result.lost:
        return f"{lost.pod} would be lost: {lost.reason}"
    missing = {each.workload: each.desired - each.pods for each in begin.shortfalls}
    for short in result.shortfalls:
        if short.desired - short.pods > missing.get(short.workload, 0):
            return f"{short.workload} would have {counted_noun(short.pods, 'pod')} of {short.desired}: {short.reason}"
    return ""


def _plan(
    key: str, moves: Moves, begin: SimulatedState, after: SimulatedState, search: "_MoveSearch", *, runs: int
) -> RebalancePlan:
    made = tuple(_moves(moves, begin.objects, after))
    pod = after.objects.get(POD, key)
    node = "" if pod is None else pod.spec.node_name
    gone = listed_names([each.pod for each in made], MAX_LISTED)
    verdict = f"{key} runs on {node} after {counted_noun(len(made), 'move')}: {gone}."
    return RebalancePlan(verdict, True, key, node, made, tuple(_steps(moves)), (), search.immovable, runs, after.result)


def _moves(moves: Moves, begin: ClusterObjects, after: SimulatedState) -> Iterator[Move]:
    """Each with its successor: the pod of its name, else a new one of the same controller."""
    new = [pod for each in after.result.placements if (pod := after.objects.get(POD, each.pod)) is not None]
    for key in moves.pods:
        moved = begin.get(POD, key)
        owner = None if moved is None else moved.controller
        alike = (one for one in new if owner is not None and one.controller is not None)
        of_owner = [one for one in alike if owner is not None and one.controller and one.controller.uid == owner.uid]
        found = next((one for one in of_owner if one.key == key), next(iter(of_owner), None))
        if found is None:
            yield Move(key, moves.node)
            continue
        new.remove(found)
        yield Move(key, moves.node, found.spec.node_name, "" if found.key == key else found.key)


def _steps(moves: Moves) -> Iterator[str]:
    yield f"kubectl cordon {moves.node}"
    yield from map(data_loss.reschedule, moves.pods)
    yield "wait until their successors run on other nodes"
    yield f"kubectl uncordon {moves.node}"


class _MoveSearch:
    def __init__(self, state: SimulatedState, pod: Pod, most: int) -> None:
        self._state = state
        self._pod = pod
        self._most = most
        self._objects = state.objects
        self._snapshot, _ = state.objects.snapshot()
        self._profile = state.profile(pod.spec.scheduler_name)
        self._trials = Trials(state.objects, pod, self._snapshot, self._profile)
        self._trials.left = MAX_DECISIONS
        self._topology = self._snapshot.topology
        self._pools = pools_of(state.objects)
        self._new = {each.pod for each in state.result.placements}
        self._budgets = DisruptionBudgets()
        for budget in state.budgets:
            self._budgets.observe(None, budget)
        self._reasons: dict[str, str] = {}
        self._limits: dict[str, list[str]] = {}
        #: Reasons that no move changes: of less interest than what bounds the moves.
        self._lasting: set[str] = set()
        self._tried: list[str] = []
        try:
            self._requested = {**requests_of(pod).amounts, PODS: 1}
        except QuantityError as error:
            raise BadQuestion(f"pod {pod.key}: {error}") from error

    def limits(self, failed: Sequence[MoveLimit]) -> tuple[MoveLimit, ...]:
        """What bounds the plans, with why simulated ones failed; what other pods cause first."""
        found = [*failed, *(MoveLimit(reason, tuple(nodes)) for reason, nodes in self._limits.items())]
        return tuple(sorted(found, key=lambda each: (each.reason in self._lasting, -len(each.nodes), each.reason)))

    @property
    def immovable(self) -> tuple[ImmovablePod, ...]:
        there = ((node, pod) for node in self._tried[:MAX_TRIED_NODES] for pod in self._snapshot.pods_on(node))
        found = [ImmovablePod(pod.key, node, why) for node, pod in there if (why := self._reasons.get(pod.key, ""))]
        return tuple(sorted(found, key=lambda each: (each.node, each.pod)))

    def proposals(self) -> list[Moves]:
        """One for each node where few enough moves let the pod fit, the cheapest first."""
        scene = decide(self._pod, self._snapshot, self._objects, self._profile)
        if scene.decision.refusals:
            self._bound(scene.decision.refusals[0][1], *self._topology.names(self._snapshot.nodes))
            return []
        ranked: list[tuple[int, str, list[Pod]]] = []
        for node in self._nodes_of_pods(scene):
            pods = self._ordered(node)
            if (fewest := self._fewest(node, pods)) is not None:
                ranked.append((fewest, node, pods))
        ranked.sort(key=lambda each: each[:2])
        found = [moves for _, node, pods in ranked[:MAX_TRIED_NODES] if (moves := self._moves(node, pods)) is not None]
        self._bound("not tried: others need fewer moves", *(node for _, node, _ in ranked[MAX_TRIED_NODES:]))
        return sorted(found, key=self._cost)

    def _cost(self, moves: Moves) -> tuple[int, int, str]:
        pods = (self._objects.get(POD, key) for key in moves.pods)
        return len(moves.pods), max((pod.spec.priority for pod in pods if pod is not None), default=0), moves.node

    def _bound(self, reason: str, *nodes: str) -> None:
        if nodes:
            self._limits.setdefault(reason, []).extend(sorted(nodes))

    def _nodes_of_pods(self, scene: PodDecision) -> list[str]:
        """The nodes that only other pods keep the pod from; all others count with their first reason."""
        left = self._snapshot.nodes
        for _, rejections in scene.decision.filter_results:
            for rejection in rejections:
                if rejection.code not in _CAUSED_BY_PODS and (nodes := rejection.nodes & left):
                    left &= ~nodes
                    self._lasting.add(rejection.reason)
                    self._bound(rejection.reason, *self._topology.names(nodes))
        return sorted(self._topology.names(left))

    def _ordered(self, node: str) -> list[Pod]:
        """The pods of a node that can move, those that free most of what is short first."""
        short = self._short(node)
        found = []
        for info in self._snapshot.pod_infos_on(node):
            if info.pod.finished or self._why_immovable(info.pod):
                continue
            amounts = {**info.requests.amounts, PODS: 1}
            share = sum(min(amounts.get(name, 0) / amount, 1.0) for name, amount in short.items())
            found.append((-share, info.pod.spec.priority, info.pod.key, info.pod))
        return [each[-1] for each in sorted(found, key=lambda each: each[:-1])]

    def _short(self, node: str) -> dict[str, int]:
        """How much of which resource is missing on a node."""
        found = {}
        for name, amount in self._requested.items():
            offered, taken = offered_and_taken(self._snapshot, node, name)
            if amount > offered - taken:
                found[name] = amount - (offered - taken)
        return found

    def _fewest(self, node: str, pods: Sequence[Pod]) -> int | None:
        """A number of moves that is surely needed; None if no number suffices, or too many are needed."""
        fewest = 1
        for name, amount in self._short(node).items():
            amounts = sorted((_amount(pod, name) for pod in pods), reverse=True)
            if sum(amounts) < amount:
                self._bound(f"pods that cannot move leave too little {name}", node)
                self._tried.append(node)
                return None
            number, freed = 0, 0
            while freed < amount:
                freed += amounts[number]
                number += 1
            fewest = max(fewest, number)
        if fewest > self._most:
            self._bound(f"more than {counted_noun(self._most, 'move')} would be needed", node)
            return None
        if not pods:
            self._bound("no pod there can move", node)
            self._tried.append(node)
            return None
        return fewest

    def _moves(self, node: str, pods: list[Pod]) -> Moves | None:
        self._tried.append(node)
        for _ in range(MAX_STUCK_PODS):
            chosen = self._chosen(node, pods)
            if isinstance(chosen, str):
                self._bound(chosen, node)
                return None
            stuck = self._stuck(chosen)
            if stuck is None:
                return Moves(node, tuple(sorted(pod.key for pod in chosen)))
            pods = [pod for pod in pods if pod is not stuck]
        self._bound("pods there have no other place", node)
        return None

    def _chosen(self, node: str, pods: Sequence[Pod]) -> list[Pod] | str:
        """Pods of which none can stay if the pod is to fit, of those that come first; or why there are none."""
        needed: list[Pod] = []
        rest = [*pods]
        if not self._fits(node, rest):
            return "it does not fit without all pods that can move"
        while not self._fits(node, needed):
            if len(needed) == self._most or not rest:
                return f"more than {counted_noun(self._most, 'move')} would be needed"
            low, high = 1, len(rest)
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if self._fits(node, [*needed, *rest[:middle]]) else (middle + 1, high)
            needed.append(rest[low - 1])
            del rest[low - 1 :]
        return needed

    def _fits(self, node: str, without: Sequence[Pod]) -> bool:
        if not without:
            return False
        changes: list[ClusterChange] = [DeletePods(tuple(pod.key for pod in without))]
        changes += (change for pod in without for change in self._returned(pod))
        return self._trials.fits(changes, node)

    def _returned(self, pod: Pod) -> Iterator[RaiseCapacity]:
        """Capacity of volumes that are deleted with their pod."""
        for volume in pod.spec.volumes:
            claim = None
            if volume.ephemeral is not None:
                claim = self._objects.get(CLAIM, f"{pod.namespace}/{pod.claim_name(volume)}")
            disk = None if claim is None else self._objects.get(VOLUME, claim.spec.volume_name)
            if disk is not None and disk.spec.persistent_volume_reclaim_policy == "Delete":
                taken = self._pools.taken_by(disk)
                yield from (RaiseCapacity(key, taken.size // self._pools[key].copies) for key in taken.pools)

    def _stuck(self, chosen: Sequence[Pod]) -> Pod | None:
        """One of the pods that has no other node, or that a budget protects after those before it."""
        overdrawn = self._budgets.overdrawn(chosen)
        for pod, over in zip(chosen, overdrawn, strict=True):
            if over:
                return pod
            if not self._has_other_node(pod):
                self._reasons[pod.key] = "no other node has a place for it"
                return pod
        return None

    def _has_other_node(self, pod: Pod) -> bool:
        """A necessary condition: the simulated run decides."""
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            # Its claims are deleted with it: only the run can say where new volumes fit.
            return True
        profile = self._state.profile(pod.spec.scheduler_name)
        with RemovedPods(self._snapshot, [pod]):
            scene = decide(pod, self._snapshot, self._objects, profile)
        left = 0 if scene.decision.refusals else self._snapshot.nodes
        for _, rejections in scene.decision.filter_results:
            for rejection in rejections:
                left &= ~rejection.nodes
        return bool(left & ~self._topology.named(pod.spec.node_name))

    def _why_immovable(self, pod: Pod) -> str:
        if pod.key not in self._reasons:
            self._reasons[pod.key] = self._immovable_reason(pod)
        return self._reasons[pod.key]

    def _immovable_reason(self, pod: Pod) -> str:
        if pod.deleting:
            return "it is being deleted"
        if pod.key in self._new:
            return "it was placed by this simulation"
        if belongs_to_node(pod):
            return "it belongs to its node"
        if pod.controller is None:
            return NO_CONTROLLER
        if pod.spec.restart_policy != "Always":
            return "it runs to completion and would begin again"
        if pod.group_key:
            return f"it is a member of PodGroup {pod.group_key}"
        if pod.spec.priority > self._pod.spec.priority:
            return f"its priority {pod.spec.priority} is higher than {self._pod.spec.priority}"
        if pod.metadata.annotations.get(SAFE_TO_EVICT, "").lower() == "false":
            return f"its annotation {SAFE_TO_EVICT} is false"
        if self._budgets.overdrawn([pod])[0]:
            return "its PodDisruptionBudget allows no disruption"
        return self._pinned(pod)

    def _pinned(self, pod: Pod) -> str:
        """The volume that no other node can use; "" if there is none."""
        here = self._topology.named(pod.spec.node_name)
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            claim = self._objects.get(CLAIM, f"{pod.namespace}/{pod.claim_name(volume)}")
            disk = None if claim is None else self._objects.get(VOLUME, claim.spec.volume_name)
            if disk is not None and not self._topology.matching(affinity_of(disk)) & ~here:
                return f"no other node can use its volume {disk.name}"
        return ""


def _amount(pod: Pod, resource: str) -> int:
    try:
        return 1 if resource == PODS else requests_of(pod).amounts.get(resource, 0)
    except QuantityError:
        return 0
