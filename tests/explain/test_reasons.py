"""Which node, which claim, which volume or segment, which figure, what now: answered for every reason there is.

One row per text of the table of messages that a scheduler or the PV controller says; a text without a row fails below.
"""

import pytest

from builders import pod_body
from explain.reason_rows.claims import STAGES
from explain.reason_rows.contract import N1, Row, Stage
from explain.reason_rows.nodes import ABOUT_NODES
from explain.reason_rows.volumes import ABOUT_VOLUMES
from explain.worlds import event_body, listed, rendered_claim, rendered_pod
from mooring.explain.messages.binding import BINDING
from mooring.explain.messages.claims import CLAIMS
from mooring.explain.messages.contract import Message
from mooring.explain.messages.lookup import find
from mooring.explain.messages.nodes import NODES
from mooring.explain.messages.volumes import VOLUMES


@pytest.mark.parametrize("row", [pytest.param(row, id=row.text) for row in (*ABOUT_VOLUMES, *ABOUT_NODES)])
def test_a_reason_of_the_scheduler_is_answered(row: Row) -> None:
    told = rendered_pod(listed(*row.objects), profile=row.profile)
    assert row.text in [message.text for message in find(told)], told
    for answer in (row.node, row.claim, row.place, row.figure, row.now):
        assert answer in told, told
    assert row.now


#: Texts about preemption stand behind others; a pod that names its node is told where it is.
TOLD_OTHERWISE = {
    "No preemption victims found for incoming pod",
    "Preemption is not helpful for scheduling",
    "not eligible due to preemptionPolicy=Never.",
    "not eligible due to a terminating pod on the nominated node.",
    "node(s) didn't match the requested node name",
    'no scheduler has the name "<scheduler>"; there is: <names>',
}


def test_every_reason_of_the_scheduler_has_a_row() -> None:
    rows = [row.text for row in (*ABOUT_VOLUMES, *ABOUT_NODES)]
    assert sorted(rows) == sorted({message.text for message in (*VOLUMES, *NODES)} - TOLD_OTHERWISE)


@pytest.mark.parametrize("message", [pytest.param(message, id=message.text) for message in BINDING])
def test_what_went_wrong_after_a_node_was_chosen_is_told_from_the_event(message: Message) -> None:
    """Nothing of it is in the objects any more: the scheduler's own words, what they mean, and what to do."""
    said = message.text.replace("<", "").replace(">", "")
    pod = pod_body()
    told = rendered_pod(listed(N1, pod, event_body(pod, "FailedScheduling", said, at="2026-11-02T10:00:00Z")))
    assert f"said at 2026-11-02T10:00:00Z: {said}" in told
    assert message.means in told
    assert message.now in told


@pytest.mark.parametrize("stage", [pytest.param(stage, id=stage.text) for stage in STAGES])
def test_a_reason_of_the_pv_controller_is_answered(stage: Stage) -> None:
    standing, told = rendered_claim(listed(*stage.objects), "default/data")
    assert standing.state == stage.state, told
    for answer in stage.answers:
        assert answer in told, told
    assert standing.helps or standing.not_enough or standing.checks


#: Which gates a controller has shows nowhere; a volume without a size is told in its log alone.
NOT_SEEN = {
    'storage class "<class>" waits for a consumer, but the feature gate VolumeScheduling is off: the claim '
    "stays unbound",
    'PersistentVolume "<volume>" is without a storage capacity',
}


def test_every_reason_of_the_pv_controller_has_a_row() -> None:
    assert {stage.text for stage in STAGES} == {message.text for message in CLAIMS} - NOT_SEEN
