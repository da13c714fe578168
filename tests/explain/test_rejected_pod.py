"""A pod that its node turned down, after a scheduler had given it: what happened, and who else places pods there."""

import pytest

from builders import Body, node_body, pod_body
from explain.worlds import explained
from mooring.explain.pod import FINISHED


def failed(reason: str) -> Body:
    body = pod_body(node="n1", requests={"cpu": "2"})
    body["status"] = {"phase": "Failed", "reason": reason, "message": "Node didn't have enough resource: cpu"}
    return body


@pytest.mark.parametrize(
    ("others", "says"),
    [
        pytest.param(["batch"], "pods of other schedulers are on the node (1 of batch)", id="another scheduler's"),
        pytest.param([], "past all schedulers", id="nobody else's"),
    ],
)
def test_a_pod_that_lost_a_race_is_told_to_whom(others: list[str], says: str) -> None:
    beside = [pod_body(name=f"theirs-{name}", node="n1", scheduler=name) for name in others]
    verdict = explained(failed("OutOfcpu"), node_body(name="n1"), *beside)
    [why] = verdict.prefilter
    assert why.reason == FINISHED
    assert why.detail.startswith("node n1 turned the pod down (OutOfcpu): there was not enough cpu left")
    assert says in why.detail


def test_a_pod_that_failed_by_itself_has_just_finished() -> None:
    [why] = explained(failed("Error"), node_body(name="n1")).prefilter
    assert (why.reason, why.detail) == (FINISHED, "")
