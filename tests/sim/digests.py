"""Prints a digest of everything written in some runs: `python -m sim.digests`, to be compared between processes."""

import logging

import msgspec
import structlog

from mooring.sim.hazards import draw
from mooring.sim.trial import run
from sim import trials
from sim.mixtures import TWO_OF_EACH, mixture
from sim.trials import ROUGH, TWINS


def digests(seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        crowd = trials.small_crowd(seed)
        hazards = msgspec.structs.replace(TWINS, deletable=crowd.deletable, deletions=4)
        mixed = mixture(seed)
        for trial, plan in (
            (mixed.trial(), draw(seed, mixed.meddled_with(TWO_OF_EACH))),
            (crowd.trial(), draw(seed, hazards)),
            (trials.replicas(everywhere=True), draw(seed, ROUGH)),
            (trials.immediate(seed), draw(seed, TWINS)),
        ):
            found.append(run(trial, seed=seed, plan=plan).history.digest())
    return found


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("\n".join(digests(range(3))))
