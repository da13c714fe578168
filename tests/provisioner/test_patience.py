"""How long failing claims are left alone."""

from mooring.provisioner.patience import Patience


def test_intervals_double_up_to_the_longest_and_begin_anew_when_all_is_well() -> None:
    patience: Patience[str] = Patience(1.0, 300.0)
    assert [patience.next_delay("a") for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert patience.next_delay("b") == 1
    assert patience.failing("a")
    patience.forget("a")
    assert not patience.failing("a")
    assert patience.next_delay("a") == 1


def test_retries_never_end() -> None:
    patience: Patience[str] = Patience(1.0, 300.0)
    assert {patience.next_delay("a") for _ in range(5000)} >= {300.0}


def test_a_wrong_request_waits_the_longest_interval_unless_its_class_is_replaced() -> None:
    patience: Patience[str] = Patience(1.0, 120.0)
    patience.slow_down("a", class_uid="gold", now=10.0)
    assert patience.rest("a", class_uid="gold", now=70.0) == 60.0
    assert patience.rest("b", class_uid="gold", now=70.0) == 0.0
    assert patience.rest("a", class_uid="gold again", now=70.0) == 0.0
    assert patience.rest("a", class_uid="gold", now=70.0) == 0.0, "the old class does not come back"


def test_it_ends_by_itself() -> None:
    patience: Patience[str] = Patience(1.0, 120.0)
    patience.slow_down("a", class_uid="gold", now=0.0)
    assert patience.rest("a", class_uid="gold", now=120.0) == 0.0
