"""Backoff of failed operations."""

import random

import pytest

from mooring.backoff import JitteredBackoff, KeyedBackoff, RestartBackoff, exponential_backoff


class Still(random.Random):
    """No jitter: draws are all the same."""

    def __init__(self, drawn: float) -> None:
        super().__init__()
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        pytest.param(0, 0.0, id="none"),
        pytest.param(1, 10.0, id="the first"),
        pytest.param(2, 20.0, id="doubled"),
        pytest.param(6, 300.0, id="the longest"),
        pytest.param(10**6, 300.0, id="retries never end"),
    ],
)
def test_exponential_backoff(failures: int, seconds: float) -> None:
    assert exponential_backoff(10, 300, failures) == seconds


def test_delays_double_up_to_the_maximum_until_reset() -> None:
    backoff = JitteredBackoff(Still(0.0), initial=0.8, maximum=5.0)
    assert [backoff.next_delay() for _ in range(5)] == pytest.approx([0.8, 1.6, 3.2, 5.0, 5.0])
    backoff.reset()
    assert backoff.next_delay() == pytest.approx(0.8)


def test_jitter_stretches_a_delay_by_up_to_its_length() -> None:
    assert JitteredBackoff(Still(0.5), initial=0.8, maximum=30.0).next_delay() == pytest.approx(1.2)


def test_delays_of_keys_double_up_to_the_maximum() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(1.0, 300.0)
    assert [backoff.next_delay("a") for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert backoff.next_delay("b") == 1
    assert "a" in backoff
    assert (list(backoff), backoff.failures("a")) == (["a", "b"], 10)
    backoff.forget("a")
    assert "a" not in backoff
    assert backoff.next_delay("a") == 1


def test_retries_never_end() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(1.0, 300.0)
    assert {backoff.next_delay("a") for _ in range(5000)} >= {300.0}


def test_invalid_request_waits_the_maximum_delay() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(1.0, 120.0)
    backoff.suspend("a", version="gold", now=10.0)
    assert backoff.suspended_seconds("a", version="gold", now=70.0) == 60.0
    assert backoff.suspended_seconds("b", version="gold", now=70.0) == 0.0
    assert backoff.suspended_seconds("a", version="gold again", now=70.0) == 0.0
    assert backoff.suspended_seconds("a", version="gold", now=70.0) == 0.0, "the old class does not come back"


def test_suspension_ends() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(1.0, 120.0)
    backoff.suspend("a", version="gold", now=0.0)
    assert backoff.suspended_seconds("a", version="gold", now=120.0) == 0.0


def test_delays_double_between_exits_of_a_pod() -> None:
    backoff = RestartBackoff()
    now, waits = 0.0, []
    for number in range(5):
        waits.append(backoff.wait("default/web-0", f"uid-{number}", now=now))
        now += waits[-1]
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0]


def test_repeated_request_only_shortens_the_wait() -> None:
    backoff = RestartBackoff()
    backoff.wait("default/web-0", "a", now=0.0)
    assert backoff.wait("default/web-0", "b", now=10.0) == 1.0
    assert backoff.wait("default/web-0", "b", now=10.5) == 0.5
    assert backoff.wait("default/web-0", "b", now=11.0) == 0.0


def test_waits_are_bounded() -> None:
    backoff = RestartBackoff()
    for number in range(200):
        wait = backoff.wait("default/web-0", f"uid-{number}", now=0.0)
    assert wait == 900.0


def test_pods_are_counted_separately_and_reset_when_stable() -> None:
    backoff = RestartBackoff()
    backoff.wait("default/web-0", "a", now=0.0)
    assert backoff.wait("default/web-1", "a", now=0.0) == 0.0
    assert backoff.wait("default/web-0", "b", now=1801.0) == 0.0
    assert backoff.wait("default/web-0", "c", now=1801.0) == 1.0
