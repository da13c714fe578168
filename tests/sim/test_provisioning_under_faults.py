"""Pods with one to four claims, on existing volumes and on volumes to be made, under faults drawn from seeds."""

import pytest

from mooring.sim.hazards import draw
from mooring.sim.trial import check
from sim.mixtures import ROUGHER, TWO_OF_EACH, lucky_mixture, mixture
from sim.trials import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_pods_whose_volumes_can_be_had_everywhere_all_run(seed: int) -> None:
    check(lucky_mixture(seed).trial(all_run=True), seed=seed, plan=draw(seed, ROUGHER))


@pytest.mark.parametrize("seed", seeds(25))
def test_pods_are_placed_as_far_as_they_can_be(seed: int) -> None:
    check(mixture(seed).trial(), seed=seed, plan=draw(seed, ROUGHER))


@pytest.mark.parametrize("seed", seeds(25))
def test_two_of_each_share_volumes_and_make_none_twice(seed: int) -> None:
    check(mixture(seed).trial(), seed=seed, plan=draw(seed, TWO_OF_EACH))


@pytest.mark.parametrize("seed", seeds(30))
def test_others_may_take_and_delete_what_they_like(seed: int) -> None:
    chosen = mixture(seed)
    check(chosen.trial(), seed=seed, plan=draw(seed, chosen.meddled_with(ROUGHER)))
