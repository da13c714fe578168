"""Which node, which claim, which volume or segment, which figure, what now: answered for every reason there is.

One row per text of the table of messages that a scheduler or the PV controller says; a text without a row fails below.
"""

import pytest

from mooring.explain.messages import find
from mooring.explain.messages.claims import CLAIMS
from mooring.explain.messages.scheduling import NODES
from mooring.explain.messages.volumes import BINDING, VOLUMES
from mooring.explain.results import Message
from support.builders import pod_body
from support.explain.clusters import event_body, listed, rendered_claim, rendered_pod
from support.explain.reason_rows.claims import STAGES
from support.explain.reason_rows.contract import N1, Row, Stage
from support.explain.reason_rows.nodes import ABOUT_NODES
from support.explain.reason_rows.volumes import ABOUT_VOLUMES


@pytest.mark.parametrize("row", [pytest.param(row, id=row.text) for row in (*ABOUT_VOLUMES, *ABOUT_NODES)])
def test_a_reason_of_the_scheduler_is_answered(row: Row) -> None:
    text = rendered_pod(listed(*row.objects, unlisted=row.unlisted), profile=row.profile)
    assert row.text in [message.text for message in find(text)], text
    for answer in (row.node, row.claim, row.place, row.figure, row.now):
        assert answer in text, text
    assert row.now


#: Texts about preemption stand behind others; a pod that names its node gets another sentence.
WITHOUT_A_ROW = {
    "No preemption victims found for incoming pod",
    "Preemption is not helpful for scheduling",
    "found a potential placement for pod on node <node>, preempting <count> victims",
    "not eligible due to preemptionPolicy=Never.",
    "not eligible due to a terminating pod on the nominated node.",
    "node(s) didn't match the requested node name",
    'schedulerName "<scheduler>" is not served by any profile; available: <names>',
}


def test_every_reason_of_the_scheduler_has_a_row() -> None:
    rows = [row.text for row in (*ABOUT_VOLUMES, *ABOUT_NODES)]
    assert sorted(rows) == sorted({message.text for message in (*VOLUMES, *NODES)} - WITHOUT_A_ROW)


@pytest.mark.parametrize("message", [pytest.param(message, id=message.text) for message in BINDING])
def test_the_failure_of_binding_is_reported_from_the_event(message: Message) -> None:
    """Nothing of it is in the objects any more: the scheduler's own words, what they mean, and what to do."""
    reported = message.text.replace("<", "").replace(">", "")
    pod = pod_body()
    text = rendered_pod(listed(N1, pod, event_body(pod, "FailedScheduling", reported, at="2026-11-02T10:00:00Z")))
    assert f"reported at 2026-11-02T10:00:00Z: {reported}" in text
    assert message.meaning in text
    assert message.action in text


@pytest.mark.parametrize("stage", [pytest.param(stage, id=stage.text) for stage in STAGES])
def test_a_reason_of_the_pv_controller_is_answered(stage: Stage) -> None:
    report, text = rendered_claim(listed(*stage.objects), "default/data")
    assert report.state == stage.state, text
    for answer in stage.answers:
        assert answer in text, text
    assert report.remedy_texts or report.not_enough or report.checks


#: A volume without a size is reported in the log alone.
NOT_SEEN = {
    'PersistentVolume "<volume>" is without a storage capacity',
}


def test_every_reason_of_the_pv_controller_has_a_row() -> None:
    assert {stage.text for stage in STAGES} == {message.text for message in CLAIMS} - NOT_SEEN
