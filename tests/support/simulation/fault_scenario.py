"""A fault scenario: objects are created while faults are injected; afterwards the cluster must converge.

    up ──► apply, faults active ──► faults stopped ──► settle ──► check

Invariants are checked after every write, convergence at the end. A failing scenario is repeated with fewer faults, and
`InvariantViolated` reports the seed, the smallest plan found, and the trace of the objects involved.
"""

import asyncio
import os
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import structlog.testing

from mooring.client.informer import HANDLER_FAILED, REFLECTOR_FAILED
from mooring.cluster.bootstrap import Layout
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.control.invariants import VIOLATED
from mooring.control.workqueue import BUG
from mooring.scheduler.component import INTERNAL_ERROR
from mooring.whatif.virtual_time import Stuck, VirtualLoop
from support.simulation.cluster import BuildExtraComponents, SimulatedCluster, no_extra_components, simulate
from support.simulation.convergence import CanProvision, convergence_errors, stand_ins_can_provision
from support.simulation.faults import FaultPlan
from support.simulation.history import History, Written
from support.simulation.invariants import ALWAYS, Facts, Invariants, Rule, Violation
from support.simulation.trace import render_trace

#: Runs that shrinking may cost: enough for plans of thirty faults. 0 reports the plan as it was drawn.
MAX_RUNS: Final = int(os.environ.get("MOORING_SIM_SHRINKING_RUNS", "150"))
#: A run that is busy without end costs as much as a hundred others: few rounds are enough for a small cluster, and few
#: runs for a smaller plan.
LIVELOCK: Final = "time goes on"
MAX_ROUNDS: Final = 20_000
MAX_LIVELOCK_RUNS: Final = min(MAX_RUNS, 6)


def shrink(plan: FaultPlan, still_fails: Callable[[FaultPlan], bool], *, max_runs: int = MAX_RUNS) -> FaultPlan:
    """A plan that still fails and from which no single fault can be left out; without latency if that fails too.

    Greedy: larger pieces are left out first, so the result is not always the smallest plan.
    """
    runs = 0

    def fails(candidate: FaultPlan) -> bool:
        nonlocal runs
        runs += 1
        return runs <= max_runs and still_fails(candidate)

    if plan.latency and fails(without_latency := FaultPlan(plan.faults)):
        plan = without_latency
    size = max(len(plan.faults) // 2, 1)
    while plan.faults and runs < max_runs:
        smaller = _leave_out(plan, size, fails)
        if smaller is None:
            if size == 1:
                break
            size //= 2
        else:
            plan = smaller
            size = min(size, max(len(plan.faults), 1))
    return plan


def _leave_out(plan: FaultPlan, size: int, fails: Callable[[FaultPlan], bool]) -> FaultPlan | None:
    """The first failing plan without `size` consecutive faults; None when all are needed."""
    for start in range(0, len(plan.faults), size):
        candidate = plan.without(start, start + size)
        if fails(candidate):
            return candidate
    return None


#: Log events of internal errors that a component survives; they fail the scenario.
BUGS: Final = frozenset(
    {BUG, HANDLER_FAILED, REFLECTOR_FAILED, INTERNAL_ERROR, VIOLATED, "event dropped because of a bug"}
)
#: Simulated seconds between two audits.
AUDIT_SECONDS: Final = 0.5


async def _nothing(_: SimulatedCluster) -> Iterable[Violation]:
    return ()


@dataclass(frozen=True)
class FaultScenario:
    """What is created and what must hold. Seconds are simulated."""

    layout: Layout
    apply: Callable[[SimulatedCluster], Awaitable[None]]
    rules: tuple[Rule, ...] = ALWAYS
    #: How long faults are active; longer than any plan drawn for the scenario.
    fault_seconds: float = 30.0
    #: Time to converge: longer than any backoff, shorter than the five minutes after which the scheduler retries all
    #: unschedulable pods without an event.
    settle: float = 150.0
    #: Further conditions at the end.
    expect: Callable[[Facts], Iterable[Violation]] = lambda _: ()
    #: The same, for state that is not in API objects.
    inspect: Callable[[SimulatedCluster], Awaitable[Iterable[Violation]]] = _nothing
    #: The same, every `AUDIT_SECONDS` of the run.
    audit: Callable[[SimulatedCluster], Awaitable[Violation | None]] | None = None
    extra_components: BuildExtraComponents = no_extra_components
    gates: FeatureGates = DEFAULTS
    #: What provisioners could provision at the end.
    can_provision: CanProvision = stand_ins_can_provision


class ScenarioResult(NamedTuple):
    history: History
    facts: Facts
    violation: Violation | None


class InvariantViolated(AssertionError):
    """A scenario failed. The text is the whole report."""


class _Stop(Exception):
    """Ends a run after a violation."""


def run(scenario: FaultScenario, *, seed: int, plan: FaultPlan) -> ScenarioResult:
    """Run a scenario once. Failures become the result's violation; nothing is raised."""
    scenario_run = _ScenarioRun(scenario)
    violation: Violation | None = None
    with structlog.testing.capture_logs() as logs:
        try:
            simulate(
                scenario_run.execute,
                layout=scenario.layout,
                seed=seed,
                plan=plan,
                extra_components=scenario.extra_components,
                gates=scenario.gates,
            )
        except* _Stop:
            violation = scenario_run.violation
        except* Stuck as stuck:
            violation = Violation(LIVELOCK, str(stuck.exceptions[0]), ())
        except* Exception as failure:
            violation = Violation("no component fails", "".join(traceback.format_exception(failure)), ())
    bugs = [entry for entry in logs if entry["event"] in BUGS]
    if bugs and violation is None:
        violation = Violation("no bugs", "\n".join(map(str, bugs)), ())
    return ScenarioResult(scenario_run.history, scenario_run.invariants.facts, violation or scenario_run.violation)


def check(scenario: FaultScenario, *, seed: int, plan: FaultPlan) -> ScenarioResult:
    """Run a scenario; InvariantViolated, with the report of a shrunk plan, when a rule does not hold."""
    result = run(scenario, seed=seed, plan=plan)
    if result.violation is None:
        return result
    rule = result.violation.rule

    def still_fails(candidate: FaultPlan) -> bool:
        violation = run(scenario, seed=seed, plan=candidate).violation
        return violation is not None and violation.rule == rule

    smallest = shrink(plan, still_fails, max_runs=MAX_LIVELOCK_RUNS if rule == LIVELOCK else MAX_RUNS)
    raise InvariantViolated(report(run(scenario, seed=seed, plan=smallest), seed=seed, plan=smallest))


def report(result: ScenarioResult, *, seed: int, plan: FaultPlan) -> str:
    violation = result.violation
    if violation is None:
        return f"seed {seed}: no violation"
    trace = "\n".join(render_trace(result.history, violation.objects))
    return f"{violation.rule}: {violation.text}\nseed {seed}, plan {plan}\n\n{trace}"


class _ScenarioRun:
    """State of one run."""

    def __init__(self, scenario: FaultScenario) -> None:
        self._scenario = scenario
        self._cluster: SimulatedCluster | None = None
        self.invariants = Invariants(scenario.rules)
        self.violation: Violation | None = None

    @property
    def history(self) -> History:
        if self._cluster is None:
            raise RuntimeError("the cluster did not start")
        return self._cluster.history

    async def execute(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.most_rounds = MAX_ROUNDS
        for written in tuple(cluster.history.writes()):
            self._check_write(written)
        cluster.history.on_write(self._check_write)
        async with asyncio.TaskGroup() as group:
            auditing = group.create_task(self._audit(cluster), name="audit")
            await self._run_phases(cluster)
            auditing.cancel()

    async def _run_phases(self, cluster: SimulatedCluster) -> None:
        await self._scenario.apply(cluster)
        await cluster.clock.sleep(self._scenario.fault_seconds)
        cluster.stop()
        await cluster.clock.sleep(self._scenario.settle)
        facts = self.invariants.facts
        found = chain(
            convergence_errors(facts, self._scenario.can_provision),
            self._scenario.expect(facts),
            await self._scenario.inspect(cluster),
        )
        self.violation = next(found, None)

    async def _audit(self, cluster: SimulatedCluster) -> None:
        while self._scenario.audit is not None:
            self._fail_with(cluster, await self._scenario.audit(cluster))
            await cluster.clock.sleep(AUDIT_SECONDS)

    def _fail_with(self, cluster: SimulatedCluster, violation: Violation | None) -> None:
        if violation is not None and self.violation is None:
            self.violation = violation
            cluster.end(_Stop(violation.text))

    def _check_write(self, written: Written) -> None:
        if self._cluster is not None:
            self._fail_with(self._cluster, self.invariants.check(written))
