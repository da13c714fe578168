import numpy as np
import pytest

from mooring.scheduler.framework import scoring
from mooring.volumes import topology

ALL = topology.node_set_of(range(3))


@pytest.mark.parametrize(
    ("counted", "feasible", "want"),
    [
        pytest.param([1, 3, 0], ALL, [33, 100, 0], id="shares of the most, without fractions"),
        pytest.param([0, 0, 0], ALL, [0, 0, 0], id="nothing anywhere"),
        pytest.param([1, 8, 2], topology.node_set_of([0, 2]), [50, 400, 100], id="only feasible nodes set the scale"),
    ],
)
def test_most_is_best(counted: list[float], feasible: int, want: list[float]) -> None:
    assert scoring.normalize(np.array(counted, np.float64), feasible).tolist() == want


def test_least_is_best_is_the_other_way_round() -> None:
    assert scoring.normalize_reversed(np.array([0.0, 1.0, 2.0]), ALL).tolist() == [100, 50, 0]
    assert scoring.normalize_reversed(np.zeros(3), ALL).tolist() == [100, 100, 100]


@pytest.mark.parametrize(
    ("counted", "want"),
    [
        pytest.param([-10, 0, 10], [0, 50, 100], id="from the least to the most"),
        pytest.param([5, 5, 5], [0, 0, 0], id="all alike"),
    ],
)
def test_between_least_and_most(counted: list[float], want: list[float]) -> None:
    assert scoring.normalize_min_max(np.array(counted, np.float64), ALL).tolist() == want
