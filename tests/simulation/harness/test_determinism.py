"""One seed gives one run: in this process, in another one, and with any hash seed."""

import os
import subprocess
import sys
from pathlib import Path

from support.simulation import scenarios
from support.simulation.fault_scenario import run
from support.simulation.faults import draw
from support.simulation.scenarios import FAULT_LIMITS

TESTS = Path(__file__).parents[2]


def in_a_process(hash_seed: int) -> list[str]:
    environment = os.environ | {
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    command = [sys.executable, "-m", "support.simulation.digests"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_digests_are_equal_under_different_hash_seeds() -> None:
    first, second = in_a_process(1), in_a_process(2)
    assert len(set(first)) == 12, "each run is another one"
    assert first == second


def test_digests_differ_between_seeds() -> None:
    scenario, plan = scenarios.replicas(everywhere=True), draw(3, FAULT_LIMITS)
    digests = [run(scenario, seed=seed, plan=plan).history.digest() for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]
