"""Explicit-state model checking: all reachable states, and a shortest path to a violation."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

Successors = Callable[[S], Iterable[tuple[str, S]]]


@dataclass
class Explored(Generic[S]):
    states: int
    transitions: int
    #: The violated invariant of the first bad state, and the steps to it; empty if all states are valid.
    violation: str = ""
    steps: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.violation:
            return f"{self.violation} after {len(self.steps)} steps: " + "; ".join(self.steps)
        return f"{self.states} states, {self.transitions} transitions"


def explore(start: S, successors: Successors[S], check: Callable[[S], str], *, limit: int = 3_000_000) -> Explored[S]:
    """Breadth-first search, so that the path to a violation is a shortest one."""
    origin: dict[S, tuple[S, str] | None] = {start: None}
    waiting = deque([start])
    transitions = 0
    while waiting:
        state = waiting.popleft()
        if problem := check(state):
            return Explored(len(origin), transitions, problem, _path_to(state, origin))
        for name, following in successors(state):
            transitions += 1
            if following not in origin:
                origin[following] = (state, name)
                waiting.append(following)
        assert len(origin) <= limit, f"more than {limit} states"
    return Explored(len(origin), transitions)


def dead_ends(start: S, successors: Successors[S], goal: Callable[[S], bool]) -> tuple[int, list[str]]:
    """The number of reachable states from which the goal is unreachable, and a shortest path to one of them."""
    origin: dict[S, tuple[S, str] | None] = {start: None}
    before: dict[S, list[S]] = {}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for name, following in successors(state):
            before.setdefault(following, []).append(state)
            if following not in origin:
                origin[following] = (state, name)
                waiting.append(following)
    live = {state for state in origin if goal(state)}
    open_states = list(live)
    while open_states:
        for earlier in before.get(open_states.pop(), ()):
            if earlier not in live:
                live.add(earlier)
                open_states.append(earlier)
    dead = [state for state in origin if state not in live]  # in the order they were found: nearest first
    return len(dead), _path_to(dead[0], origin) if dead else []


def _path_to(state: S, origin: dict[S, tuple[S, str] | None]) -> list[str]:
    steps: list[str] = []
    while (came := origin[state]) is not None:
        state, name = came
        steps.append(name)
    return steps[::-1]
