"""Explicit-state exploration: every state that a set of rules can reach, and a shortest way to one that must not be."""

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
    #: What is wrong with the first bad state, and the steps that lead there; empty when there is none.
    violation: str = ""
    steps: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.violation:
            return f"{self.violation} after {len(self.steps)} steps: " + "; ".join(self.steps)
        return f"{self.states} states, {self.transitions} transitions"


def explore(start: S, successors: Successors[S], wrong: Callable[[S], str], *, limit: int = 3_000_000) -> Explored[S]:
    """Breadth first, so that the way to a violation is a shortest one."""
    origin: dict[S, tuple[S, str] | None] = {start: None}
    waiting = deque([start])
    transitions = 0
    while waiting:
        state = waiting.popleft()
        if problem := wrong(state):
            return Explored(len(origin), transitions, problem, _way_to(state, origin))
        for name, following in successors(state):
            transitions += 1
            if following not in origin:
                origin[following] = (state, name)
                waiting.append(following)
        assert len(origin) <= limit, f"more than {limit} states"
    return Explored(len(origin), transitions)


def dead_ends(start: S, successors: Successors[S], goal: Callable[[S], bool]) -> tuple[int, list[str]]:
    """How many reachable states no path leads to the goal from, and a shortest way to one of them."""
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
    saved = {state for state in origin if goal(state)}
    open_states = list(saved)
    while open_states:
        for earlier in before.get(open_states.pop(), ()):
            if earlier not in saved:
                saved.add(earlier)
                open_states.append(earlier)
    lost = [state for state in origin if state not in saved]  # in the order they were found: nearest first
    return len(lost), _way_to(lost[0], origin) if lost else []


def _way_to(state: S, origin: dict[S, tuple[S, str] | None]) -> list[str]:
    steps: list[str] = []
    while (came := origin[state]) is not None:
        state, name = came
        steps.append(name)
    return steps[::-1]
