"""A pod that its node turned down, after a scheduler had given it: what happened, and who else places pods there."""

import pytest

from mooring.explain import cluster_objects, inspection
from mooring.explain.cluster_view import ClusterView
from mooring.explain.inspection import FINISHED
from mooring.explain.pod import overview
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.snapshot.snapshot import Snapshot
from support.builders import Body, node_body, pod_body
from support.explain.clusters import explained, listed


def failed(reason: str, name: str = "pod-1") -> Body:
    body = pod_body(name=name, node="n1", requests={"cpu": "2"})
    body["status"] = {"phase": "Failed", "reason": reason, "message": "Node didn't have enough resource: cpu"}
    return body


@pytest.mark.parametrize(
    ("others", "says"),
    [
        pytest.param(["batch"], "pods of other schedulers run there (1 of batch)", id="another scheduler's"),
        pytest.param([], "without a scheduler", id="no other scheduler"),
    ],
)
def test_a_pod_rejected_by_the_kubelet_reports_pods_of_other_schedulers(others: list[str], says: str) -> None:
    beside = [pod_body(name=f"theirs-{name}", node="n1", scheduler=name) for name in others]
    verdict = explained(failed("OutOfcpu"), node_body(name="n1"), *beside)
    [why] = verdict.prefilter
    assert why.reason == FINISHED
    assert why.detail.startswith("kubelet of node n1 rejected the pod (OutOfcpu): not enough cpu at admission")
    assert says in why.detail


def test_a_pod_that_failed_by_itself_has_just_finished() -> None:
    [why] = explained(failed("Error"), node_body(name="n1")).prefilter
    assert (why.reason, why.detail) == (FINISHED, "")


def test_a_thousand_rejected_pods_are_listed_from_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Snapshot] = []
    decided: list[CycleState] = []

    def build() -> Snapshot:
        built.append(Snapshot())
        return built[-1]

    def attempt(*given: object) -> CycleState:
        decided.append(CycleState(*given))  # type: ignore[arg-type]
        return decided[-1]

    monkeypatch.setattr(cluster_objects, "Snapshot", build)
    monkeypatch.setattr(inspection, "CycleState", attempt)
    pods = [failed("OutOfcpu" if number % 2 else "", f"pod-{number}") for number in range(1000)]
    lines = [*overview(ClusterView(listed(node_body(name="n1"), *pods)))]
    assert len(lines) == 1000
    assert lines[0].verdict == "default/pod-0 was on n1 and has finished."
    assert lines[1].verdict.startswith("default/pod-1 was rejected by n1: OutOfcpu")
    assert len(built) == 1
    assert not decided, "nothing is decided for a pod that has finished"
