"""Cost of the worst decision compared with an ordinary one: clusters with unusual objects, or very many of one kind.

    python -m bench.worst_decision [--nodes N] [--decisions N]

Prints the median of processor time for each shape of `bench/adversarial_clusters.py` and what multiple it is of the
median of the ordinary decisions. The bar is ten times.
"""

import argparse
import gc
import random
import time
from statistics import median

from bench.adversarial_clusters import ADVERSARIAL, ORDINARY, Shape
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.registry import DEFAULT


def seconds_per_decision(shape: Shape, decisions: int) -> float:
    """The first is left out: it fills what is kept between decisions. What keeps a pod parked is part of it."""
    rng = random.Random(0)
    durations: list[float] = []
    for _ in range(decisions + 1):
        pod = next(shape.pods)
        start = time.process_time()
        attempt = CycleState(pod, shape.snapshot)
        decision = cycle.run_cycle(attempt, DEFAULT, rng, nominator=shape.nominator)
        if decision.node:
            shape.snapshot.volumes.restore(cycle.reserve(attempt, DEFAULT, decision.node))
        else:
            _ = decision.unschedulable_plugins, attempt.interests, cycle.fit_error(decision)
        durations.append(time.process_time() - start)
    return median(durations[1:])


def main() -> None:
    arguments = argparse.ArgumentParser(description="Cost of the worst decisions, as multiples of an ordinary one.")
    arguments.add_argument("--nodes", type=int, default=5000)
    arguments.add_argument("--decisions", type=int, default=20)
    given = arguments.parse_args()
    costs: dict[str, float] = {}
    for name, build in {**ORDINARY, **ADVERSARIAL}.items():
        costs[name] = seconds_per_decision(build(given.nodes), given.decisions)
        gc.collect()
    ordinary = median(costs[name] for name in ORDINARY)
    for name, cost in costs.items():
        print(f"{cost * 1000:8.2f} ms  {cost / ordinary:6.1f} x  {name}", flush=True)


if __name__ == "__main__":
    main()
