import pytest

from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from support.builders import a_node, a_pod


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, a_node(), ("add", set()), id="came"),
        pytest.param(a_node(), None, ("delete", set()), id="went"),
        pytest.param(a_node(), a_node(labels={"x": "y"}), ("update", {"labels"}), id="labels"),
        pytest.param(
            a_node(),
            a_node(unschedulable=True, taints=[{"key": "t", "effect": "NoSchedule"}]),
            ("update", {"unschedulable", "taints"}),
            id="cordoned as kubectl does it",
        ),
        pytest.param(a_node(), a_node(allocatable={"cpu": "9"}), ("update", {"allocatable"}), id="grown"),
        pytest.param(a_node(), a_node(ready=False), None, id="a heartbeat is no news"),
    ],
)
def test_nodes(before: Node | None, after: Node | None, want: tuple[str, set[str]] | None) -> None:
    change = cluster_events.node_event(before, after)

    assert (None if change is None else (change.action, change.updated_fields)) == want


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, a_pod(), None, id="a pod without a node takes no room"),
        pytest.param(None, a_pod(node="n"), "add", id="a pod with a node appears"),
        pytest.param(a_pod(), a_pod(node="n"), "add", id="a pod gets its node"),
        pytest.param(a_pod(node="n"), None, "delete", id="a pod leaves its node"),
        pytest.param(a_pod(node="n"), a_pod(node="n", phase="Failed"), "delete", id="a pod finishes"),
        pytest.param(a_pod(node="n", phase="Failed"), None, None, id="a finished pod is removed"),
        pytest.param(a_pod(node="n"), a_pod(node="n", labels={"x": "y"}), "update", id="a pod is relabelled"),
        pytest.param(a_pod(node="n"), a_pod(node="n", phase="Running"), None, id="a pod starts"),
        pytest.param(a_pod(), None, None, id="a waiting pod goes"),
    ],
)
def test_pods(before: Pod | None, after: Pod | None, want: str | None) -> None:
    change = cluster_events.pod_event(before, after)

    assert (None if change is None else change.action) == want
