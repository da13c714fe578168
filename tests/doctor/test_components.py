"""Findings about schedulers and components."""

import pytest

from mooring.doctor.findings import Severity
from support.builders import Body, node_body, pod_body
from support.doctor import announcement, at, codes, only
from support.explain.clusters import event_body

ERROR, WARNING, INFO = Severity
NODE = node_body(name="n1")


def scheduled(*instances: str, component: str = "default-scheduler") -> list[Body]:
    """Events of pods one after another, each by an instance of the scheduler."""
    return [
        event_body(pod_body(name=f"p{index}"), "Scheduled", "", at=at(100 - index), component=component)
        | {"reportingInstance": instance}
        for index, instance in enumerate(instances)
    ]


def both(reason: str) -> list[Body]:
    pod = pod_body(name="p")
    first = event_body(pod, reason, "", at=at(9), component="default-scheduler")
    second = event_body(pod, reason, "", at=at(8), component="mooring") | {"metadata": {"name": "other"}}
    return [first, second]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(scheduled("a", "a", "a"), set(), id="one instance"),
        pytest.param(scheduled("a", "a", "b", "b"), set(), id="a change of leader"),
        pytest.param(scheduled("a", "b", "a", "b"), {(ERROR, "TwoSchedulers")}, id="two instances in turn"),
        pytest.param(scheduled("a", "", "a", ""), {(ERROR, "TwoSchedulers")}, id="one instance has no name"),
        pytest.param(both("FailedScheduling"), {(ERROR, "TwoSchedulers")}, id="two schedulers about one pod"),
        pytest.param(both("Pulled"), set(), id="events of other components"),
    ],
)
def test_two_schedulers_are_seen_in_events(events: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(NODE, *events) == expected


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([pod_body(scheduler="other")], {(ERROR, "SchedulerAbsent")}, id="no trace of its scheduler"),
        pytest.param([pod_body()], set(), id="the default scheduler"),
        pytest.param([pod_body(scheduler="other", node="n1")], set(), id="the pod has a node"),
        pytest.param(
            [pod_body(scheduler="other"), *scheduled("a", component="other")], set(), id="its scheduler wrote an event"
        ),
    ],
)
def test_pods_of_absent_schedulers_are_reported(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(NODE, *bodies) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        pytest.param("OutOfcpu", {(WARNING, "PodRejectedByKubelet")}, id="another pod has the resource"),
        pytest.param("NodeShutdown", set(), id="the node has changed"),
        pytest.param("Evicted", set(), id="another reason"),
    ],
)
def test_pods_rejected_by_kubelet_are_reported(reason: str, expected: set[tuple[Severity, str]]) -> None:
    failed = pod_body(node="n1", phase="Failed", more_status={"reason": reason})
    assert codes(NODE, failed, pod_body(name="theirs", node="n1", scheduler="other")) == expected


@pytest.mark.parametrize(
    ("leases", "expected"),
    [
        pytest.param([announcement("a"), announcement("b")], set(), id="the same version"),
        pytest.param(
            [announcement("a"), announcement("b", version="2.0")], {(WARNING, "ComponentSkew")}, id="two versions"
        ),
        pytest.param(
            [announcement("a"), announcement("b", gates="CSIStorageCapacity=false")],
            {(WARNING, "ComponentSkew")},
            id="two settings of a gate",
        ),
        pytest.param(
            [announcement("a"), announcement("b", version="2.0", renewed=900)],
            {(WARNING, "ComponentSilent")},
            id="the other has stopped",
        ),
        pytest.param([announcement("a", renewed=100)], set(), id="a renewal is late by less than clocks may differ"),
    ],
)
def test_components_out_of_step_are_reported(leases: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(NODE, *leases) == expected


def test_absent_scheduler_names_its_pods() -> None:
    found = only("SchedulerAbsent", NODE, pod_body(name="b", scheduler="other"), pod_body(name="a", scheduler="other"))
    assert found.affected == 2
    assert found.evidence[0] == "pods: default/a, default/b"
