"""Print digests of some runs, to compare processes: `python -m support.simulation.digests`."""

import logging

import msgspec
import structlog

from support.simulation import scenarios
from support.simulation.fault_scenario import run
from support.simulation.faults import draw
from support.simulation.mixtures import TWO_OF_EACH, mixture
from support.simulation.scenarios import FAULT_LIMITS, WITH_DUPLICATES


def digests(seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        crowd = scenarios.small_crowd(seed)
        limits = msgspec.structs.replace(WITH_DUPLICATES, deletable=crowd.deletable, deletions=4)
        mixed = mixture(seed)
        for scenario, plan in (
            (mixed.scenario(), draw(seed, mixed.with_interventions(TWO_OF_EACH))),
            (crowd.scenario(), draw(seed, limits)),
            (scenarios.replicas(everywhere=True), draw(seed, FAULT_LIMITS)),
            (scenarios.immediate(seed), draw(seed, WITH_DUPLICATES)),
        ):
            found.append(run(scenario, seed=seed, plan=plan).history.digest())
    return found


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("\n".join(digests(range(3))))
