"""Clearing a node: who would have to leave it for a pod to fit. Pure.

All less important pods are taken away; if the pod fits then, they are put back one after the other, the most important
first and those that a disruption budget protects before all others, and whoever is in the way stays out: a victim.
Every filter has its say, so nobody is evicted where the pod could not go anyway. But asking every filter after every
step about hundreds of nodes would stop the scheduler for a second. So it is asked again only what can have changed:
amounts are added up (`room`), filters that do not heed the pods of a node keep their word, and only for the rest pods
are really taken out of the snapshot. `preemption` chooses among the nodes.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from mooring.api.timestamps import from_time
from mooring.api.views.pod import Pod
from mooring.scheduler.contract import AddsUp, Cycle, Decision, Filter, HeedsPods, Said
from mooring.scheduler.disruption import Budgets
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.room import NO_NEEDS, NodeRoom
from mooring.scheduler.snapshot import Absence, Placed
from mooring.volumes.nodeset import EMPTY, NodeSet

NO_VICTIMS: Final = "No preemption victims found for incoming pod"

#: Start times that are remembered as numbers: pods of a cluster, roughly.
_REMEMBERED_TIMES: Final = 65536
#: Letters of a time with nanoseconds and a zone.
_LONGEST_TIME: Final = 40


class Preemption(NamedTuple):
    """These pods have to leave the node for the pod to fit, the most important first."""

    node: str
    victims: tuple[Pod, ...]
    #: How many of them a budget protects.
    violations: int


@dataclass(frozen=True)
class Attempt:
    """All that preemption needs to know about one failed cycle."""

    cycle: Cycle
    decision: Decision
    budgets: Budgets
    nominations: Nominations
    #: The filters that were asked, in order.
    filters: Sequence[Filter]
    #: What some of them say in the snapshot as it is now: with pods counted that were promised a node and, where there
    #: are any, once more without. A node has to do in both cases.
    ask: Callable[[Sequence[Filter]], Sequence[Sequence[Said]]]
    rng: random.Random


class Clearing:
    """Clears one node after the other of a snapshot that does not change meanwhile."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._pod = attempt.cycle.pod
        self._snapshot = attempt.cycle.snapshot
        self._adding = next((one for one in attempt.filters if isinstance(one, AddsUp)), None)
        with attempt.nominations.counted(self._snapshot, self._pod) as some:
            self._room = NO_NEEDS if self._adding is None else self._adding.room(attempt.cycle)
            #: Filters that have to be asked again, and about which nodes.
            self._heeding = [(one, self._heeded(one)) for one in attempt.filters if one is not self._adding]
        #: What was said already. Of nodes that are not heeded it stays true.
        self._said = attempt.ask(attempt.filters) if some else (attempt.decision.said,)
        self._hopeless = self._rejected_for_good()

    def clear(self, slot: int) -> Preemption | tuple[str, ...]:
        """Who has to leave the node, or the reasons why it would not help if all did."""
        bit, priority = 1 << slot, self._pod.spec.priority
        node = self._snapshot.topology.name(slot)
        candidates = self._snapshot.placed_on(node, below=priority)
        if not candidates:
            return (NO_VICTIMS,)
        candidates.sort(key=_importance)
        candidates, protected = self._in_order(candidates)
        room = self._room.on(slot)
        room.leave([one.requests for one in candidates])
        again = [one for one, nodes in self._heeding if nodes & bit]
        if again or self._adding is None:
            outcome = self._asked(bit, room, candidates, again)
        else:
            # Where room alone decides, nobody has to be taken out of the snapshot.
            outcome = self._against(bit, room) or room.take_back()
        if isinstance(outcome, tuple):
            return outcome
        victims = [one for one, stays in zip(candidates, outcome, strict=True) if not stays]
        violations = protected - sum(outcome[:protected])
        if violations:
            victims.sort(key=_importance)
        return Preemption(node, tuple([one.pod for one in victims]), violations)

    def _asked(
        self, bit: NodeSet, room: NodeRoom, candidates: Sequence[Placed], again: Sequence[Filter]
    ) -> list[bool] | tuple[str, ...]:
        """Who may stay, or what is against the node if nobody does. Each is put back into the snapshot, and filters
        that heed it are asked."""
        with Absence(self._snapshot, [one.pod for one in candidates]) as absent:
            if against := self._against(bit, room, again):
                return against
            outcome: list[bool] = []
            for one in candidates:
                stays = room.take(one.requests)
                if stays:
                    absent.put_back(one.pod)
                    stays = not any(_reasons(reply, bit) for said in self._attempt.ask(again) for reply in said)
                    if not stays:
                        absent.take_out(one.pod)
                        room.leave((one.requests,))
                outcome.append(stays)
            return outcome

    def _in_order(self, candidates: list[Placed]) -> tuple[list[Placed], int]:
        """Those that a budget protects come first, in order, then the others; and how many are protected."""
        overdrawn = self._attempt.budgets.overdrawn([one.pod for one in candidates])
        protected = sum(overdrawn)
        if protected:
            pairs = sorted(zip(candidates, overdrawn, strict=True), key=lambda pair: not pair[1])
            candidates = [one for one, _ in pairs]
        return candidates, protected

    def _heeded(self, one: Filter) -> NodeSet:
        return one.heeds_pods_on(self._attempt.cycle) if isinstance(one, HeedsPods) else self._snapshot.nodes

    def _rejected_for_good(self) -> NodeSet:
        """The nodes that somebody rejects whoever leaves them."""
        heeded = {one.name: nodes for one, nodes in self._heeding}
        rejected = EMPTY
        for said in self._said:
            for name, rejections in said:
                for rejection in rejections if name in heeded else ():
                    rejected |= rejection.nodes & ~heeded[name]
        return rejected

    def _against(self, bit: NodeSet, room: NodeRoom, again: Sequence[Filter] = ()) -> tuple[str, ...]:
        """All that the first filter that rejects the node has against it."""
        if not (again or self._hopeless & bit):
            return room.against()
        anew = self._attempt.ask(again) if again else ((),) * len(self._said)
        for said, now in zip(self._said, anew, strict=True):
            fresh = {one.plugin: one for one in now}
            for one in said:
                adds = self._adding is not None and one.plugin == self._adding.name
                if why := room.against() if adds else _reasons(fresh.get(one.plugin, one), bit):
                    return why
        return ()


def _reasons(said: Said, bit: NodeSet) -> tuple[str, ...]:
    return tuple(rejection.reason for rejection in said.rejections if rejection.nodes & bit)


def _importance(placed: Placed) -> tuple[int, float]:
    """Sorts the most important first: by priority, then by how long they run."""
    pod = placed.pod
    return -pod.spec.priority, _moment(pod.status.start_time or "")


def started(pod: Pod) -> float:
    """Who has not started yet is the youngest."""
    return _moment(pod.status.start_time or "")


def _moment(text: str) -> float:
    return _remembered_moment(text) if len(text) <= _LONGEST_TIME else math.inf


@lru_cache(_REMEMBERED_TIMES)
def _remembered_moment(text: str) -> float:
    try:
        return from_time(text)
    except ValueError:
        return math.inf
