"""A trial: a situation is set up, faults strike, they end, and everything must come right.

    up ──► apply, under the plan ──► calm ──► settle ──► judge

Invariants are judged after every write, what is left undone at the end. A trial that fails is run again with fewer
and fewer faults, and what is raised tells the seed, the smallest plan found, and the story of the objects involved.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import structlog.testing

from mooring.client.informer import HANDLER_FAILED
from mooring.client.reflector import REFLECTOR_FAILED
from mooring.cluster.bootstrap import Layout
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.control.invariants import VIOLATED
from mooring.control.worker import BUG
from mooring.scheduler.component import INTERNAL_ERROR
from mooring.sim.facts import Facts
from mooring.sim.faults import FaultPlan
from mooring.sim.feasibility import Maker, stand_ins_make
from mooring.sim.history import History, Written
from mooring.sim.invariants import ALWAYS, Invariants, Rule, Violation
from mooring.sim.loop import Stuck
from mooring.sim.settled import unsettled
from mooring.sim.shrinking import shrink
from mooring.sim.story import tell
from mooring.sim.world import MakeAnnex, World, no_annex, simulate

#: What is logged when a component survives what it should never meet: it goes on, a trial does not.
BUGS: Final = frozenset(
    {BUG, HANDLER_FAILED, REFLECTOR_FAILED, INTERNAL_ERROR, VIOLATED, "event dropped because of a bug"}
)
#: Simulated seconds between two audits.
AUDIT_SECONDS: Final = 0.5


async def _nothing(_: World) -> Iterable[Violation]:
    return ()


@dataclass(frozen=True)
class Trial:
    """A situation, and how long it is given. Seconds are simulated."""

    layout: Layout
    apply: Callable[[World], Awaitable[None]]
    rules: tuple[Rule, ...] = ALWAYS
    #: How long faults may strike; longer than any plan drawn for it.
    rough: float = 30.0
    #: How long everybody then has: more than the longest pause after failures that are over, less than the five
    #: minutes after which the scheduler looks at everything again whether or not it was told to.
    settle: float = 150.0
    #: What else must be true at the end.
    expect: Callable[[Facts], Iterable[Violation]] = lambda _: ()
    #: The same, for what no object of the API shows.
    inspect: Callable[[World], Awaitable[Iterable[Violation]]] = _nothing
    #: The same, every half second of the run.
    audit: Callable[[World], Awaitable[Violation | None]] | None = None
    annex: MakeAnnex = no_annex
    gates: FeatureGates = DEFAULTS
    #: What provisioners could make at the end.
    make: Maker = stand_ins_make


class Outcome(NamedTuple):
    history: History
    facts: Facts
    violation: Violation | None


class Broken(AssertionError):
    """A trial failed. The text is the whole report."""


class _Stop(Exception):
    """Ends a run whose verdict is known."""


def run(trial: Trial, *, seed: int, plan: FaultPlan) -> Outcome:
    """Run a trial once. Whatever goes wrong is the outcome's violation; nothing is raised."""
    court = _Court(trial)
    violation: Violation | None = None
    with structlog.testing.capture_logs() as logs:
        try:
            simulate(court.sit, layout=trial.layout, seed=seed, plan=plan, annex=trial.annex, gates=trial.gates)
        except* _Stop:
            violation = court.violation
        except* Stuck as stuck:
            violation = Violation("time goes on", str(stuck.exceptions[0]), ())
        except* Exception as failure:
            violation = Violation("nobody fails", "".join(traceback.format_exception(failure)), ())
    bugs = [entry for entry in logs if entry["event"] in BUGS]
    if bugs and violation is None:
        violation = Violation("no bugs", "\n".join(map(str, bugs)), ())
    return Outcome(court.history, court.invariants.facts, violation or court.violation)


def check(trial: Trial, *, seed: int, plan: FaultPlan) -> Outcome:
    """Run a trial; Broken, with the report of a shrunk plan, when a rule does not hold."""
    outcome = run(trial, seed=seed, plan=plan)
    if outcome.violation is None:
        return outcome
    rule = outcome.violation.rule

    def still_fails(candidate: FaultPlan) -> bool:
        violation = run(trial, seed=seed, plan=candidate).violation
        return violation is not None and violation.rule == rule

    smallest = shrink(plan, still_fails)
    raise Broken(report(run(trial, seed=seed, plan=smallest), seed=seed, plan=smallest))


def report(outcome: Outcome, *, seed: int, plan: FaultPlan) -> str:
    violation = outcome.violation
    if violation is None:
        return f"seed {seed}: nothing is broken"
    story = "\n".join(tell(outcome.history, violation.objects))
    return f"{violation.rule}: {violation.text}\nseed {seed}, plan {plan}\n\n{story}"


class _Court:
    """Sees one run through."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._world: World | None = None
        self.invariants = Invariants(trial.rules)
        self.violation: Violation | None = None

    @property
    def history(self) -> History:
        if self._world is None:
            raise RuntimeError("the world did not come up")
        return self._world.history

    async def sit(self, world: World) -> None:
        self._world = world
        for written in tuple(world.history.writes()):
            self._judge(written)
        world.history.on_write(self._judge)
        async with asyncio.TaskGroup() as group:
            auditing = group.create_task(self._audit(world), name="audit")
            await self._see_through(world)
            auditing.cancel()

    async def _see_through(self, world: World) -> None:
        await self._trial.apply(world)
        await world.clock.sleep(self._trial.rough)
        world.calm()
        await world.clock.sleep(self._trial.settle)
        facts = self.invariants.facts
        found = chain(unsettled(facts, self._trial.make), self._trial.expect(facts), await self._trial.inspect(world))
        self.violation = next(found, None)

    async def _audit(self, world: World) -> None:
        while self._trial.audit is not None:
            self._end(world, await self._trial.audit(world))
            await world.clock.sleep(AUDIT_SECONDS)

    def _end(self, world: World, violation: Violation | None) -> None:
        if violation is not None and self.violation is None:
            self.violation = violation
            world.end(_Stop(violation.text))

    def _judge(self, written: Written) -> None:
        if self._world is not None:
            self._end(self._world, self.invariants.judge(written))
