"""Attempts at preemption for pods that found no node."""

import random
from functools import partial

from mooring.api.views.pod import Pod
from mooring.scheduler import cycle
from mooring.scheduler.clearing import Attempt
from mooring.scheduler.contract import Cycle
from mooring.scheduler.disruption import Budgets
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot


def an_attempt(
    pod: Pod,
    snapshot: Snapshot,
    *,
    profile: Profile = DEFAULT,
    budgets: Budgets | None = None,
    nominations: Nominations | None = None,
) -> Attempt:
    promised = nominations or Nominations()
    attempt = Cycle(pod, snapshot)
    decision = cycle.run(attempt, profile, random.Random(0), nominations=promised)
    ask = partial(cycle.ask_twice, attempt, nominations=promised)
    filters = profile.concerning(pod).filters
    return Attempt(attempt, decision, budgets or Budgets(), promised, filters, ask, random.Random(0))
