"""Settings of leader election: who wins over whom, and what cannot work."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import LEASE
from mooring.api.views.core import Lease
from mooring.control.election import (
    JITTER,
    BadElection,
    Election,
    ElectionSettings,
    LeaseRecord,
    LeaseWrite,
    Timings,
)

NOW = "2026-01-01T00:00:00.000000Z"
T = Timings()


def a_lease(
    holder: str = "other",
    *,
    renewed: str = "2026-01-01T00:00:00.000000Z",
    duration: int = 15,
    transitions: int = 3,
    version: str = "7",
) -> Lease:
    body = {
        "metadata": {"name": "scheduler", "namespace": "kube-system", "resourceVersion": version},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": "2025-12-31T00:00:00.000000Z",
            "renewTime": renewed,
            "leaseTransitions": transitions,
        },
    }
    return LEASE.decode(msgspec.json.encode(body))


def a_candidate(*, observed: Lease | None = None, at: float = 0.0) -> LeaseRecord:
    candidate = LeaseRecord("me", T)
    candidate.observe(observed, now=at)
    return candidate


RENEWAL = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": NOW}


@pytest.mark.parametrize(
    ("observed", "want"),
    [
        pytest.param(None, LeaseWrite(RENEWAL | {"acquireTime": NOW, "leaseTransitions": 0}), id="there is no lease"),
        pytest.param(
            a_lease("", duration=1),
            LeaseWrite(RENEWAL | {"acquireTime": NOW, "leaseTransitions": 4}, "7"),
            id="no holder",
        ),
        pytest.param(
            a_lease("me"), LeaseWrite(RENEWAL, "7"), id="it is ours: since when and how often it changed stays"
        ),
        pytest.param(a_lease("other"), None, id="another holds it"),
        pytest.param(
            a_lease("other", duration=0),
            LeaseWrite(RENEWAL | {"acquireTime": NOW, "leaseTransitions": 4}, "7"),
            id="another holds it for no time at all",
        ),
    ],
)
def test_what_a_candidate_does_about_the_lease_it_sees(observed: Lease | None, want: LeaseWrite | None) -> None:
    assert a_candidate(observed=observed).next_write(now=0.0, date=NOW) == want


@pytest.mark.parametrize(
    ("again", "claimable"),
    [
        pytest.param(a_lease(), 15.0, id="nothing new"),
        pytest.param(a_lease(version="8"), 15.0, id="a label was added"),
        pytest.param(a_lease(renewed="2026-01-01T00:00:01.000000Z"), 25.0, id="it was renewed"),
        pytest.param(
            a_lease(renewed="1999-01-01T00:00:01.000000Z"), 25.0, id="it was renewed by a clock that is behind"
        ),
        pytest.param(a_lease("third", transitions=4), 25.0, id="it changed hands"),
        pytest.param(a_lease(duration=60), 70.0, id="its holder wants it for longer"),
        pytest.param(a_lease(""), -math.inf, id="it was released"),
        pytest.param(None, -math.inf, id="it was deleted"),
    ],
)
def test_lease_is_valid_for_its_duration_after_its_last_change(again: Lease | None, claimable: float) -> None:
    candidate = a_candidate(observed=a_lease())
    candidate.observe(again, now=10.0)
    assert candidate.acquirable_at == claimable


def test_an_expired_lease_is_claimed_by_the_version_seen_last() -> None:
    candidate = a_candidate(observed=a_lease())
    candidate.observe(a_lease(version="9"), now=14.0)
    assert candidate.next_write(now=14.999, date=NOW) is None
    move = candidate.next_write(now=15.0, date=NOW)
    assert move is not None
    assert move.version == "9"


def test_the_dates_in_a_lease_mean_nothing_to_a_candidate() -> None:
    seen = [
        a_candidate(observed=a_lease(renewed=when)) for when in ("1970-01-01T00:00:00.0Z", "2999-01-01T00:00:00.0Z")
    ]
    assert {candidate.acquirable_at for candidate in seen} == {15.0}


def test_a_term_counts_from_the_moment_the_write_was_sent() -> None:
    candidate = a_candidate()
    assert not candidate.leads(0.0)
    candidate.write_acknowledged(a_lease("me"), sent=100.0)
    assert candidate.leads(109.999)
    assert not candidate.leads(110.0)
    assert candidate.exclusive_until == 115.0


@pytest.mark.parametrize(
    ("observed", "leads"),
    [
        pytest.param(a_lease("me", version="8"), True, id="ours, with a label"),
        pytest.param(a_lease("other"), False, id="another's"),
        pytest.param(a_lease(""), False, id="no holder"),
        pytest.param(None, False, id="gone"),
    ],
)
def test_leader_stops_when_the_lease_names_another_holder(observed: Lease | None, leads: bool) -> None:
    candidate = a_candidate()
    candidate.write_acknowledged(a_lease("me"), sent=0.0)
    candidate.observe(observed, now=1.0)
    assert candidate.leads(1.0) is leads
    assert candidate.exclusive_until == 15.0


def test_seeing_the_own_name_is_not_enough_to_lead() -> None:
    assert not a_candidate(observed=a_lease("me")).leads(0.0)


@pytest.mark.parametrize(
    ("observed", "write_started", "can_renew_without_read", "may_hold_lease"),
    [
        pytest.param(None, False, False, False, id="no lease"),
        pytest.param(a_lease("other"), False, False, False, id="another's lease"),
        pytest.param(a_lease("me"), False, True, True, id="our lease"),
        pytest.param(None, True, False, True, id="a creation without answer"),
        pytest.param(a_lease("other"), True, False, True, id="a claim without answer"),
        pytest.param(a_lease("me"), True, False, True, id="a renewal without answer"),
    ],
)
def test_what_is_certain_and_what_may_have_to_be_given_back(
    observed: Lease | None, write_started: bool, can_renew_without_read: bool, may_hold_lease: bool
) -> None:
    candidate = a_candidate(observed=observed)
    if write_started:
        candidate.write_started()
    assert (candidate.can_renew_without_read, candidate.may_hold_lease) == (can_renew_without_read, may_hold_lease)


def test_an_answer_ends_the_doubt() -> None:
    candidate = a_candidate()
    candidate.write_started()
    candidate.write_acknowledged(a_lease("me"), sent=0.0)
    assert candidate.can_renew_without_read
    candidate.write_started()
    candidate.observe(a_lease("other"), now=1.0)
    assert not candidate.may_hold_lease


@pytest.mark.parametrize(
    ("observed", "want"),
    [
        pytest.param(
            a_lease("me"),
            LeaseWrite({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": NOW, "acquireTime": NOW}, "7"),
            id="ours",
        ),
        pytest.param(a_lease("other"), None, id="another's"),
        pytest.param(a_lease(""), None, id="no holder"),
        pytest.param(None, None, id="gone"),
    ],
)
def test_only_what_is_ours_is_given_back(observed: Lease | None, want: LeaseWrite | None) -> None:
    assert a_candidate(observed=observed).release_write(date=NOW) == want


@given(now=st.floats(0, 30), chance=st.floats(0, 1))
def test_a_candidate_rests_for_a_jittered_period_and_wakes_when_a_silent_holder_s_lease_ends(
    now: float, chance: float
) -> None:
    candidate = a_candidate(observed=a_lease())
    retry_delay = candidate.retry_delay(now=now, chance=chance)
    assert 0 < retry_delay <= T.retry_period * (1 + JITTER)
    if now < 15:
        assert now + retry_delay <= 15.000001
    else:
        assert retry_delay >= T.retry_period


@st.composite
def _timings(draw: st.DrawFn) -> Timings:
    lease = draw(st.integers(2, 120))
    renew = draw(st.floats(1, lease, exclude_max=True))
    return Timings(lease, renew, draw(st.floats(0.01, renew / 2)))


@pytest.mark.req("T35.no-two-leaders")
@given(
    timings=_timings(),
    others=_timings(),
    sent=st.floats(0, 1000),
    way=st.floats(0, 100),
    looks=st.lists(st.floats(0, 500), max_size=5),
)
def test_lease_is_acquired_only_after_the_holder_has_stopped_and_the_margin_has_passed(
    timings: Timings, others: Timings, sent: float, way: float, looks: list[float]
) -> None:
    holder = LeaseRecord("holder", timings)
    written = a_lease("holder", duration=timings.lease_duration)
    holder.write_acknowledged(written, sent=sent)
    rival = LeaseRecord("rival", others)
    for look in sorted([0.0, *looks]):
        rival.observe(written, now=sent + way + look)
    margin = timings.lease_duration - timings.renew_deadline
    assert rival.acquirable_at >= holder.renew_deadline_at + margin - 1e-6
    assert rival.acquirable_at >= holder.exclusive_until


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        pytest.param((15, 15.0, 2.0), "leaseDuration must be greater than renewDeadline", id="no margin"),
        pytest.param((15, 2.4, 2.0), "renewDeadline must be greater than retryPeriod", id="no second try"),
        pytest.param((15, 10.0, 0.0), "retryPeriod must be greater than zero", id="no pause"),
    ],
)
def test_timings_that_cannot_work_are_refused(values: tuple[int, float, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Timings(*values)


def test_a_candidate_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an identity"):
        LeaseRecord("", T)


def test_leader_election_defaults_are_upstreams() -> None:
    assert ElectionSettings().settled(name="mine") == Election("mine", "kube-system", Timings())


def test_flags_win_over_files_setting_by_setting() -> None:
    flags = ElectionSettings(retry_period=1.0, resource_name="flag")
    file = ElectionSettings(leader_elect=True, retry_period=3.0, renew_deadline=12.0, resource_namespace="file")
    assert flags.over(file).settled(name="mine") == Election("flag", "file", Timings(15, 12.0, 1.0))


def test_a_flag_can_turn_off_what_a_file_turns_on() -> None:
    wanted = ElectionSettings(leader_elect=False).over(ElectionSettings(leader_elect=True))
    assert wanted.settled(name="mine") is None


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        pytest.param(ElectionSettings(lease_duration=15.5), "whole seconds", id="half a second"),
        pytest.param(ElectionSettings(renew_deadline=20.0), "leaseDuration must be greater", id="a deadline too late"),
        pytest.param(ElectionSettings(retry_period=9.0), "renewDeadline must be greater", id="tries too rare"),
        pytest.param(ElectionSettings(retry_period=0.0), "retryPeriod must be greater", id="no pause"),
        pytest.param(ElectionSettings(resource_name=""), "must not be empty", id="a Lease without a name"),
    ],
)
def test_what_cannot_work_is_refused(settings: ElectionSettings, complaint: str) -> None:
    with pytest.raises(BadElection, match=complaint):
        settings.settled(name="mine")
