from mooring.scheduler.extender.second_looks import APART, MOMENT, SecondLooks


def test_a_quiet_cluster_always_gets_one() -> None:
    looks = SecondLooks()
    assert all(looks.take(now) for now in (10.0, 11.0, 60.0))


def test_a_busy_one_waits_a_tenth_of_the_time_at_most() -> None:
    looks = SecondLooks()
    taken = sum(looks.take(10.0 + step / 1000) for step in range(10_000))
    assert taken * MOMENT <= 10.0 * MOMENT / APART
    assert taken > 0
