"""`mooring explain sts/NAME` and the like: workloads by their pods, and by the pod that matters."""

import pytest

from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.cluster_view import ClusterView
from mooring.explain.results import WorkloadReport
from mooring.explain.text import workload_paragraphs
from mooring.explain.workload import MAX_EXAMINED, WORKLOAD_KINDS, explain_workload, workload_keys
from support.builders import Body, claim_body, claim_ref, class_body, node_body, owned_by, pod_body, volume_body
from support.builders.counting import calls_of
from support.builders.deployments import deployment_body
from support.builders.deployments import set_body as replica_set_body
from support.builders.stateful_sets import READY
from support.builders.stateful_sets import set_body as stateful_set_body
from support.explain.clusters import event_body

NODES = [node_body(name="n1"), node_body(name="n2", unschedulable=True)]


def owner(kind: str, name: str) -> Body:
    return owned_by({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}}, uid=f"{name}-uid")


def running(name: str, of: Body, **of_pod: object) -> Body:
    given = {"node": "n1", "phase": "Running", "conditions": [READY], **of_pod}
    return pod_body(name=name, owners=[of], **given)  # type: ignore[arg-type]  # fields of a pod


def huge(name: str, of: Body, **of_pod: object) -> Body:
    return pod_body(name=name, owners=[of], requests={"cpu": "100"}, **of_pod)  # type: ignore[arg-type]


def view_of(*bodies: Body) -> ClusterView:
    objects = ClusterObjects(also=WORKLOAD_KINDS)
    for body in (*NODES, *bodies):
        objects.add(body)
    return ClusterView(objects)


def report_of(kind: str, *bodies: Body, name: str = "web") -> WorkloadReport:
    report = explain_workload(view_of(*bodies), kind, f"default/{name}")
    assert report is not None
    return report


def text_of(report: WorkloadReport) -> str:
    return "\n".join([report.verdict, *workload_paragraphs(report)])


SET = owner("StatefulSet", "web")


def test_stuck_pod_is_explained_after_the_verdict() -> None:
    report = report_of("StatefulSet", stateful_set_body(replicas=4), running("web-0", SET), huge("web-1", SET))

    assert not report.ok
    assert report.verdict.startswith("StatefulSet default/web has 1 of 4 pods ready. default/web-1 would not fit: ")
    assert text_of(report).splitlines()[1:6] == [
        "pods:",
        "  default/web-1: stuck",
        "  default/web-0: ready on n1",
        "2 more pods will be created after web-1 is ready, since pods are created in order "
        "(podManagementPolicy OrderedReady)",
        "default/web-1 (mooring explain pod/web-1):",
    ]
    assert "Insufficient cpu" in text_of(report)


def test_running_workload_is_one_sentence_and_its_pods() -> None:
    report = report_of("StatefulSet", stateful_set_body(replicas=1), running("web-0", SET))
    assert (report.ok, report.explained) == (True, None)
    assert text_of(report) == "StatefulSet default/web has 1 of 1 pod ready.\npods:\n  default/web-0: ready on n1"


def test_claims_of_templates_are_counted_by_state() -> None:
    bodies = [
        class_body(name="local"),
        volume_body(name="v0", node="n1", phase="Bound", claim_ref=claim_ref(name="data-web-0")),
        claim_body(name="data-web-0", volume="v0", phase="Bound", bound=True),
        claim_body(name="data-web-1"),
        volume_body(name="v5", node="n1", phase="Bound", claim_ref=claim_ref(name="data-web-5")),
        claim_body(name="data-web-5", volume="v5", phase="Bound", bound=True),
        claim_body(name="data-web-more"),
    ]
    report = report_of("StatefulSet", stateful_set_body(replicas=2, claims=["data"]), running("web-0", SET), *bodies)
    expected = "  data: 1 bound, not bound: default/data-web-1, kept from a larger size: default/data-web-5"
    assert expected in text_of(report).splitlines()


def test_missing_class_of_a_template_is_named() -> None:
    body = stateful_set_body(replicas=1, claims=["data"])
    body["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = "typo"
    claim = claim_body(name="data-web-0", storage_class="typo")
    report = report_of("StatefulSet", body, claim, huge("web-0", SET, claims=["data-web-0"]))
    assert "StorageClass typo does not exist" in text_of(report)


@pytest.mark.parametrize("listed", [True, False], ids=["ReplicaSet listed", "ReplicaSet not listed"])
def test_deployment_owns_the_pods_of_its_replica_sets(listed: bool) -> None:
    of = owner("ReplicaSet", "web-abc")
    mine = huge("web-abc-x", of, labels={"pod-template-hash": "abc"})
    other = running("web-2-abc-y", owner("ReplicaSet", "web-2-abc"), labels={"pod-template-hash": "abc"})
    sets = [replica_set_body(name="web-abc", replicas=1)] if listed else []
    report = report_of("Deployment", deployment_body(replicas=1), mine, other, *sets)
    assert [pod.pod for pod in report.pods] == ["default/web-abc-x"]
    assert not report.ok


def test_pods_that_cannot_be_created_have_the_controllers_reason() -> None:
    body = stateful_set_body(replicas=2)
    why = "create Pod web-0 in StatefulSet web failed error: quota exceeded"
    report = report_of("StatefulSet", body, event_body(body, "FailedCreate", why, at="2026-01-01T00:00:00Z"))
    assert (report.verdict, report.ok) == (
        f"StatefulSet default/web has 0 of 2 pods ready. 2 pods cannot be created: {why}",
        False,
    )


def test_replica_failure_of_a_deployment_is_its_reason() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "forbidden: quota"}
    report = report_of("Deployment", deployment_body(replicas=1, status={"conditions": [failure]}))
    assert report.verdict.endswith("1 pod cannot be created: forbidden: quota")


@pytest.mark.parametrize(
    ("bodies", "verdict", "ok"),
    [
        pytest.param([stateful_set_body(replicas=0)], "StatefulSet default/web is scaled to 0 pods.", True, id="none"),
        pytest.param(
            [stateful_set_body(replicas=1)],
            "StatefulSet default/web has 0 of 1 pod ready: its controller has not created 1 pod yet.",
            False,
            id="no controller",
        ),
    ],
)
def test_workload_without_pods(bodies: list[Body], verdict: str, ok: bool) -> None:
    report = report_of("StatefulSet", *bodies)
    assert (report.verdict, report.ok) == (verdict, ok)


def test_job_is_known_by_its_pods() -> None:
    of = owner("Job", "train")
    view = view_of(running("train-a", of, phase="Succeeded", conditions=[]), huge("train-b", of))
    report = explain_workload(view, "Job", "default/train")
    assert report is not None
    assert report.verdict.startswith("Job default/train has 1 of 2 pods ready. default/train-b would not fit")
    assert workload_keys(view, "Job") == ["default/train"]
    assert explain_workload(view, "Job", "default/other") is None


def test_pod_on_a_lost_node_is_stuck() -> None:
    gone = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    lost = node_body(name="n3") | {"status": {"conditions": [gone]}}
    report = report_of("StatefulSet", lost, stateful_set_body(replicas=1), running("web-0", SET, node="n3"))
    assert not report.ok
    assert "is on n3, which is lost" in report.verdict


def test_cost_of_many_pending_pods_is_bounded() -> None:
    """Pods of one template are alike: beyond the first few they are only counted."""

    def cost(number: int) -> int:
        pods = [huge(f"web-{each}", SET) for each in range(number)]
        view = view_of(stateful_set_body(replicas=number), *pods)
        return calls_of(lambda: explain_workload(view, "StatefulSet", "default/web"))

    assert cost(8 * MAX_EXAMINED) < 3 * cost(MAX_EXAMINED)


def test_pods_are_in_the_order_of_their_numbers() -> None:
    pods = [running(f"web-{each}", SET) for each in (10, 2, 1)]
    report = report_of("StatefulSet", stateful_set_body(replicas=3), *pods)
    assert [pod.pod for pod in report.pods] == ["default/web-1", "default/web-2", "default/web-10"]
