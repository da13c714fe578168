"""The fewest nodes that let all pods run: copies of templates, each with its storage, added and simulated. Pure.

For one template the number is found by doubling and bisection: more copies never let fewer pods run, except for pods
that spread over nodes. Several templates are tried alone first. If none of them suffices alone, nodes are added one by
one, each time of the template with which the fewest pods stay pending, and unnecessary ones are removed again.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.whatif.additions import Addition
from mooring.whatif.inventory import Inventory
from mooring.whatif.results import SimulationResult, SimulationStruct, all_run

#: Nodes added at most.
MAX_ADDED_NODES: Final = 256


class CopiedNode(NamedTuple):
    """A node to copy; `source` has it with its storage."""

    name: str
    source: Inventory


class AddedNodes(SimulationStruct, frozen=True):
    template: str
    count: int


class NodePlan(SimulationStruct, frozen=True, omit_defaults=False):
    """The nodes to add, and the result with them."""

    verdict: str
    ok: bool
    nodes: tuple[AddedNodes, ...]
    #: Number of simulated runs.
    runs: int
    #: Templates that suffice alone, with the number of nodes.
    alternatives: tuple[AddedNodes, ...]
    result: SimulationResult


#: Simulates the question with these additions.
Simulate = Callable[[Sequence[Addition]], SimulationResult]


def fewest_nodes(templates: Sequence[CopiedNode], simulate: Simulate, *, most: int = MAX_ADDED_NODES) -> NodePlan:
    """The fewest copies of the templates with which no pod stays pending. Without any that suffice, `ok` is False and
    the nodes are those that helped."""
    search = _NodeSearch(templates, simulate, most)
    nothing = search.result({})
    if all_run(nothing):
        return search.plan({}, {})
    alone = {each.name: count for each in templates if (count := search.alone(each.name)) is not None}
    if alone:
        name = min(alone, key=lambda each: alone[each])
        return search.plan({name: alone[name]}, alone)
    return search.plan(search.mixed(), {})


def most_helpful_number(template: CopiedNode, simulate: Simulate, *, most: int = MAX_ADDED_NODES) -> NodePlan:
    """The fewest copies of one template with which as few pods as possible stay pending."""
    search = _NodeSearch([template], simulate, most)
    return search.plan({template.name: search.fewest(template.name)}, {})


class _NodeSearch:
    def __init__(self, templates: Sequence[CopiedNode], simulate: Simulate, most: int) -> None:
        self._templates = {each.name: each for each in templates}
        self._simulate = simulate
        self._most = most
        self._known: dict[tuple[tuple[str, int], ...], SimulationResult] = {}

    def result(self, counts: Mapping[str, int]) -> SimulationResult:
        key = tuple(sorted((name, count) for name, count in counts.items() if count))
        if key not in self._known:
            additions = [Addition(name, count, self._templates[name].source) for name, count in key]
            self._known[key] = self._simulate(additions)
        return self._known[key]

    def alone(self, name: str) -> int | None:
        """The fewest copies of one template; None if as many as allowed do not suffice."""
        enough = self._doubled(name)
        return self._bisected(name, enough) if self._suffices({name: enough}) else None

    def fewest(self, name: str) -> int:
        """The fewest copies of one template that help as much as any number; 0 if none helps."""
        if self._suffices({}):
            return 0
        return self._bisected(name, self._doubled(name))

    def _doubled(self, name: str) -> int:
        """A number of copies that suffices, or beyond which more do not help."""
        enough = 1
        while not self._suffices({name: enough}) and enough < self._most and not self._is_hopeless(name, enough):
            enough = min(enough * 2, self._most)
        return enough

    def _bisected(self, name: str, enough: int) -> int:
        """The least number with which no more pods stay pending than with `enough`."""
        left = _unscheduled(self.result({name: enough}))

        def suffices(count: int) -> bool:
            return _unscheduled(self.result({name: count})) <= left

        # These results are known from doubling.
        while enough and suffices(enough // 2):
            enough //= 2
        too_few = enough // 2
        while enough - too_few > 1:
            middle = (enough + too_few) // 2
            if suffices(middle):
                enough = middle
            else:
                too_few = middle
        return enough

    def mixed(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        waiting = _unscheduled(self.result(counts))
        while waiting and counts.total() < self._most:
            tried = {name: _unscheduled(self.result(counts + Counter({name: 1}))) for name in self._templates}
            best = min(tried, key=lambda name: tried[name])
            if tried[best] >= waiting:
                break
            counts[best] += 1
            waiting = tried[best]
        for name in list(counts):
            while counts[name] and _unscheduled(self.result(counts - Counter({name: 1}))) <= waiting:
                counts[name] -= 1
        return counts

    def plan(self, counts: Mapping[str, int], alone: Mapping[str, int]) -> NodePlan:
        result = self.result(counts)
        nodes = tuple(AddedNodes(name, count) for name, count in counts.items() if count)
        alternatives = tuple(AddedNodes(name, count) for name, count in alone.items() if name not in counts)
        ok = all_run(result)
        return NodePlan(_verdict(nodes, ok, result), ok, nodes, len(self._known), alternatives, result)

    def _suffices(self, counts: Mapping[str, int]) -> bool:
        return all_run(self.result(counts))

    def _is_hopeless(self, name: str, count: int) -> bool:
        """Whether twice as many copies changed nothing: the pods need something that the template does not have."""
        return count > 1 and _unscheduled(self.result({name: count})) >= _unscheduled(self.result({name: count // 2}))


def _unscheduled(result: SimulationResult) -> int:
    missing = sum(each.desired - each.pods for each in result.shortfalls)
    return len(result.pending) + missing + len(result.lost) + len(result.blocked)


def _verdict(nodes: Sequence[AddedNodes], ok: bool, result: SimulationResult) -> str:
    added = " and ".join(f"{each.count} x {each.template}" for each in nodes)
    if ok:
        return f"All pods run with {added} added." if nodes else "All pods run without further nodes."
    left = _unscheduled(result)
    pods = f"{left} pod{'' if left == 1 else 's'} would still not run"
    return f"Not enough: with {added} added, {pods}." if nodes else f"No number of these nodes helps: {pods}."
