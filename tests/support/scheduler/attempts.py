"""Preemption inputs for unschedulable pods."""

import random
from functools import partial

from mooring.api.views.pods import Pod
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.preemption.evaluator import PreemptionInput
from mooring.scheduler.preemption.nominator import DisruptionBudgets, Nominator
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot


def an_attempt(
    pod: Pod,
    snapshot: Snapshot,
    *,
    profile: Profile = DEFAULT,
    budgets: DisruptionBudgets | None = None,
    nominator: Nominator | None = None,
) -> PreemptionInput:
    promised = nominator or Nominator()
    attempt = CycleState(pod, snapshot)
    decision = cycle.run_cycle(attempt, profile, random.Random(0), nominator=promised)
    ask = partial(cycle.run_filters_with_nominated_pods, attempt, nominator=promised)
    filters = profile.for_pod(pod).filters
    return PreemptionInput(attempt, decision, budgets or DisruptionBudgets(), promised, filters, ask, random.Random(0))
