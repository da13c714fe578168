"""One seed gives one run: in this process, in another one, and whatever the order in which its sets are walked."""

import os
import subprocess
import sys
from pathlib import Path

from mooring.sim.hazards import draw
from mooring.sim.trial import run
from sim import trials
from sim.trials import ROUGH

TESTS = Path(__file__).parents[1]


def in_a_process(hash_seed: int) -> list[str]:
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "sim.digests"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_processes_with_different_hash_seeds_write_the_same_at_the_same_moments() -> None:
    first, second = in_a_process(1), in_a_process(2)
    assert len(set(first)) == 12, "each run is another one"
    assert first == second


def test_another_seed_gives_another_run() -> None:
    trial, plan = trials.replicas(everywhere=True), draw(3, ROUGH)
    digests = [run(trial, seed=seed, plan=plan).history.digest() for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]
