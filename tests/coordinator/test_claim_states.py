"""Since when something has been so."""

from mooring.coordinator.claim_states import FirstSeen


def test_time_runs_from_the_first_moment_until_it_ends() -> None:
    since = FirstSeen()
    assert since.seconds("pv", "claim", begins=False, ends=False, now=1.0) == 0.0
    assert since.seconds("pv", "claim", begins=True, ends=False, now=2.0) == 0.0
    assert since.seconds("pv", "claim", begins=False, ends=False, now=5.0) == 3.0
    assert since.seconds("pv", "claim", begins=True, ends=False, now=6.0) == 4.0
    assert since.seconds("pv", "claim", begins=False, ends=True, now=7.0) == 0.0
    assert since.seconds("pv", "claim", begins=True, ends=False, now=8.0) == 0.0


def test_subject_is_removed_with_all_its_keys() -> None:
    since = FirstSeen()
    for key in "ab":
        since.seconds("pv", key, begins=True, ends=False, now=0.0)
    since.seconds("other", "a", begins=True, ends=False, now=0.0)
    since.forget("pv")
    assert since.seconds("pv", "a", begins=False, ends=False, now=9.0) == 0.0
    assert since.seconds("other", "a", begins=False, ends=False, now=9.0) == 9.0
