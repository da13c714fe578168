"""Settings of leader election: who wins over whom, and what cannot work."""

import pytest

from mooring.control.candidacy import Timings
from mooring.control.election_settings import BadElection, Election, ElectionSettings


def test_nothing_said_is_an_election_with_upstreams_timings() -> None:
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
