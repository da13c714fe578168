import random

import pytest

from mooring.client.backoff import Backoff


class Still(random.Random):
    """No jitter: draws are all the same."""

    def __init__(self, drawn: float) -> None:
        super().__init__()
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn


def test_delays_double_up_to_the_longest_and_begin_anew_after_a_reset() -> None:
    backoff = Backoff(Still(0.0), first=0.8, longest=5.0)
    assert [backoff.delay() for _ in range(5)] == pytest.approx([0.8, 1.6, 3.2, 5.0, 5.0])
    backoff.reset()
    assert backoff.delay() == pytest.approx(0.8)


def test_jitter_stretches_a_delay_by_up_to_its_length() -> None:
    assert Backoff(Still(0.5), first=0.8, longest=30.0).delay() == pytest.approx(1.2)
