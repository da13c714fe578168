"""How long an ended pod is left before it is replaced."""

from mooring.workloads.patience import CALM, LONGEST_WAIT, Patience


def test_waits_double_from_one_end_to_the_next() -> None:
    patience = Patience()
    now, waits = 0.0, []
    for number in range(5):
        waits.append(patience.wait("default/web-0", f"uid-{number}", now=now))
        now += waits[-1]
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0]


def test_asking_again_only_shortens_the_wait() -> None:
    patience = Patience()
    patience.wait("default/web-0", "a", now=0.0)
    assert patience.wait("default/web-0", "b", now=10.0) == 1.0
    assert patience.wait("default/web-0", "b", now=10.5) == 0.5
    assert patience.wait("default/web-0", "b", now=11.0) == 0.0


def test_waits_have_an_end() -> None:
    patience = Patience()
    for number in range(200):
        wait = patience.wait("default/web-0", f"uid-{number}", now=0.0)
    assert wait == LONGEST_WAIT


def test_pods_are_counted_apart_and_forgotten_when_calm() -> None:
    patience = Patience()
    patience.wait("default/web-0", "a", now=0.0)
    assert patience.wait("default/web-1", "a", now=0.0) == 0.0
    assert patience.wait("default/web-0", "b", now=CALM + 1.0) == 0.0
    assert patience.wait("default/web-0", "c", now=CALM + 1.0) == 1.0
