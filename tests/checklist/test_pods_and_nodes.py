"""Lines 43-55: pods and nodes, and their subresources."""

import json
from typing import Any

import pytest

from support.builders import pod_body
from support.checklist.wire import Wire
from support.e2e.kubectl import Kubectl


def pods(space: str, name: str = "", subresource: str = "") -> str:
    return "/".join(part for part in (f"/api/v1/namespaces/{space}/pods", name, subresource) if part)


def binding(node: str) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}


def pod_in(wire: Wire, space: str, name: str = "p", **spec: object) -> dict[str, Any]:
    body = pod_body(name=name, namespace=space)
    body["spec"] |= spec
    return wire.post(pods(space), body)


def node_in(wire: Wire, name: str) -> str:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    wire.post("/api/v1/nodes", {"metadata": {"name": name}})
    assert wire.patch(f"/api/v1/nodes/{name}/status", {"status": ready}).code == 200
    return name


def columns(table: str) -> list[str]:
    """The cells of a table with one row."""
    return table.splitlines()[1].split()


def test_43_run(inside: Kubectl) -> None:
    inside("run", "p", "--image=b")
    assert columns(inside("get", "pod", "p"))[:3] == ["p", "0/1", "Pending"]
    assert columns(inside("get", "pod", "p", "-o", "wide"))[5:7] == ["<none>", "<none>"]


def test_44_pod_defaults(wire: Wire, space: str) -> None:
    pod = pod_in(wire, space)
    seconds = [toleration.get("tolerationSeconds") for toleration in pod["spec"]["tolerations"]]
    assert (seconds, pod["spec"]["schedulerName"]) == ([300, 300], "default-scheduler")
    assert (pod["status"]["qosClass"], pod["spec"]["priority"]) == ("BestEffort", 0)


def test_45_quantities(wire: Wire, space: str) -> None:
    def container(**requests: str) -> list[dict[str, Any]]:
        return [{"name": "c", "image": "i", "resources": {"requests": requests}}]

    pod = pod_in(wire, space, containers=container(cpu="0.1", memory="1.5Gi"))
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "1536Mi"}
    body = pod_body(name="q", namespace=space)
    body["spec"]["containers"] = container(memory="1K")
    assert wire("POST", pods(space), body).code == 400


def test_46_binding(wire: Wire, space: str) -> None:
    pod_in(wire, space)
    assert wire("POST", pods(space, "p", "binding"), binding("n46")).code == 201
    pod = wire.get(pods(space, "p"))
    scheduled = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
    assert (pod["spec"]["nodeName"], scheduled["PodScheduled"]) == ("n46", "True")
    assert pod["metadata"]["generation"] == 1
    again = wire("POST", pods(space, "p", "binding"), binding("other"))
    assert (again.code, "is already assigned to node" in again.json["message"]) == (409, True)


def test_47_status_has_its_own_endpoint(inside: Kubectl, wire: Wire, space: str) -> None:
    pod_in(wire, space, nodeName="n47")
    running = {"phase": "Running", "containerStatuses": [container_status()]}
    wire.patch(pods(space, "p"), {"status": running})
    assert columns(inside("get", "pod", "p"))[1:3] == ["0/1", "Pending"]
    inside("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", json.dumps({"status": running}))
    assert columns(inside("get", "pod", "p"))[1:3] == ["1/1", "Running"]


def container_status() -> dict[str, Any]:
    since = {"startedAt": "2026-01-02T03:04:05Z"}
    return {"name": "main", "ready": True, "image": "i", "imageID": "", "restartCount": 0, "state": {"running": since}}


def test_48_what_may_change_in_a_pod(wire: Wire, space: str) -> None:
    pod_in(wire, space)
    rename = [{"op": "replace", "path": "/spec/containers/0/name", "value": "other"}]
    refused = wire.patch(pods(space, "p"), rename, media_type="application/json-patch+json")
    assert (refused.code, "pod updates may not change fields other than" in refused.json["message"]) == (422, True)
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]
    changed = wire.patch(pods(space, "p"), image, media_type="application/json-patch+json")
    assert (changed.code, changed.json["metadata"]["generation"]) == (200, 2)


def test_49_grace(inside: Kubectl, wire: Wire, space: str) -> None:
    pod_in(wire, space, nodeName="n49")
    inside("delete", "pod", "p", "--wait=false")
    pod = wire.get(pods(space, "p"))
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert columns(inside("get", "pod", "p"))[2] == "Terminating"
    inside("delete", "pod", "p", "--grace-period=0", "--force")
    assert wire("GET", pods(space, "p")).code == 404
    pod_in(wire, space, "unscheduled")
    inside("delete", "pod", "unscheduled")
    assert wire("GET", pods(space, "unscheduled")).code == 404


def test_50_eviction_under_a_budget(wire: Wire, space: str) -> None:
    budgets = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets"
    body = pod_body(name="p", namespace=space, labels={"a": "b"})
    body["spec"]["nodeName"] = "n50"
    wire.post(pods(space), body)
    wire.patch(pods(space, "p", "status"), {"status": {"phase": "Running", "conditions": [ready()]}})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    budget = wire.post(budgets, {"metadata": {"name": "b"}, "spec": spec})
    counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    seen = {"observedGeneration": budget["metadata"]["generation"]}
    wire.patch(f"{budgets}/b/status", {"status": counts | seen})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": space}}
    refused = wire("POST", pods(space, "p", "eviction"), eviction)
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    assert (refused.code, refused.json["message"]) == (429, text)
    wire.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}})
    assert wire("POST", pods(space, "p", "eviction"), eviction).code == 201
    conditions = {each["type"] for each in wire.get(pods(space, "p"))["status"]["conditions"]}
    assert "DisruptionTarget" in conditions


def ready() -> dict[str, str]:
    return {"type": "Ready", "status": "True"}


def test_51_cordon_and_taint(kubectl: Kubectl, wire: Wire) -> None:
    node = node_in(wire, "n51")
    kubectl("cordon", node)
    assert columns(kubectl("get", "node", node))[1] == "Ready,SchedulingDisabled"
    assert "tainted" in kubectl("taint", "node", node, "k=v:NoSchedule")
    assert "untainted" in kubectl("taint", "node", node, "k-")


def test_52_describe_node(kubectl: Kubectl, wire: Wire, space: str) -> None:
    node = node_in(wire, "n52")
    pod_in(wire, space, nodeName=node)
    header = kubectl("get", "nodes", node, "-o", "wide").splitlines()[0].split()
    assert {"NAME", "STATUS", "ROLES", "AGE", "VERSION", "INTERNAL-IP", "OS-IMAGE"} <= set(header)
    described = kubectl("describe", "node", node)
    assert f"{space}" in described
    assert "Non-terminated Pods:" in described


def test_53_priority_classes(kubectl: Kubectl, wire: Wire, space: str) -> None:
    kubectl("create", "priorityclass", "high-53", "--value=1000")
    assert pod_in(wire, space, priorityClassName="high-53")["spec"]["priority"] == 1000
    body = pod_body(name="q", namespace=space)
    body["spec"]["priorityClassName"] = "unknown"
    refused = wire("POST", pods(space), body)
    assert (refused.code, "no PriorityClass with name unknown was found" in refused.json["message"]) == (403, True)


def test_54_scheduling_gates(inside: Kubectl, wire: Wire, space: str) -> None:
    pod_in(wire, space, schedulingGates=[{"name": "example.com/wait"}])
    assert columns(inside("get", "pod", "p"))[2] == "SchedulingGated"
    assert wire("POST", pods(space, "p", "binding"), binding("n54")).code == 409
    assert wire.patch(pods(space, "p"), {"spec": {"schedulingGates": None}}).code == 200
    refused = wire.patch(pods(space, "p"), {"spec": {"schedulingGates": [{"name": "example.com/again"}]}})
    assert refused.code == 422


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("spec.nodeName=", ["waiting"], id="not scheduled"),
        pytest.param("spec.nodeName=n55", ["placed"], id="on a node"),
        pytest.param("status.phase!=Failed", ["placed", "waiting"], id="not failed"),
    ],
)
def test_55_field_selectors(wire: Wire, space: str, selector: str, found: list[str]) -> None:
    pod_in(wire, space, "waiting")
    pod_in(wire, space, "placed", nodeName="n55")
    items = wire.get(f"{pods(space)}?fieldSelector={selector.replace('=', '%3D')}")["items"]
    assert [item["metadata"]["name"] for item in items] == found


@pytest.mark.parametrize("command", [("logs", "p"), ("exec", "p", "--", "ls"), ("attach", "p")])
def test_what_needs_containers_is_refused_with_the_reason(inside: Kubectl, command: tuple[str, ...]) -> None:
    inside("run", "p", "--image=b")
    assert "pods are simulated and run no containers" in inside.refusal(*command)
