"""Lines 65-76: workloads, finalizers, deletion, merging, events: behaviour of every kind."""

import json
from typing import Any

import pytest

from support.builders import pod_body
from support.checklist.programs import Programs
from support.checklist.wire import Wire
from support.e2e.kubectl import Kubectl

STRATEGIC = "application/strategic-merge-patch+json"


def configs(space: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{space}/configmaps" + (f"/{name}" if name else "")


def workload(kind: str, **spec: object) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template} | spec,
    }


def workloads(space: str, plural: str, name: str = "") -> str:
    return f"/apis/apps/v1/namespaces/{space}/{plural}" + (f"/{name}" if name else "")


@pytest.mark.parametrize(
    ("kind", "plural", "expected"),
    [
        pytest.param(
            "Deployment",
            "deployments",
            {
                "replicas": 1,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
            },
            id="Deployment",
        ),
        pytest.param(
            "StatefulSet",
            "statefulsets",
            {
                "replicas": 1,
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
                "revisionHistoryLimit": 10,
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            },
            id="StatefulSet",
        ),
        pytest.param(
            "DaemonSet",
            "daemonsets",
            {
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
                "revisionHistoryLimit": 10,
            },
            id="DaemonSet",
        ),
        pytest.param("ReplicaSet", "replicasets", {"replicas": 1}, id="ReplicaSet"),
    ],
)
def test_65_workload_defaults(
    inside: Kubectl, wire: Wire, space: str, kind: str, plural: str, expected: dict[str, Any]
) -> None:
    spec = wire.post(workloads(space, plural), workload(kind))["spec"]
    assert {key: spec[key] for key in expected} == expected
    other = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    assert wire.patch(workloads(space, plural, "web"), other).code == 422
    if kind != "DaemonSet":
        inside("scale", f"{kind.lower()}/web", "--replicas=3")
        assert wire.get(workloads(space, plural, "web"))["metadata"]["generation"] == 2


def test_66_set_image_and_restart(inside: Kubectl, wire: Wire, space: str) -> None:
    wire.post(workloads(space, "deployments"), workload("Deployment"))
    inside("set", "image", "deployment/web", "web=j")
    inside("rollout", "restart", "deployment/web")
    assert wire.get(workloads(space, "deployments", "web"))["metadata"]["generation"] == 3


def test_67_finalizers(wire: Wire, space: str) -> None:
    wire.post(configs(space), {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})
    assert wire("DELETE", configs(space, "a")).code == 200
    assert "deletionTimestamp" in wire.get(configs(space, "a"))["metadata"]
    taken = wire("POST", configs(space), {"metadata": {"name": "a"}})
    assert (taken.code, "object is being deleted" in taken.json["message"]) == (409, True)
    more = {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}
    assert wire.patch(configs(space, "a"), more).code == 422
    assert wire.patch(configs(space, "a"), {"metadata": {"finalizers": None}}).code == 200
    assert wire("GET", configs(space, "a")).code == 404


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_68_propagation(wire: Wire, space: str, policy: str, finalizer: str) -> None:
    wire.post(configs(space), {"metadata": {"name": "a"}})
    wire("DELETE", configs(space, "a"), {"propagationPolicy": policy})
    assert wire.get(configs(space, "a"))["metadata"]["finalizers"] == [finalizer]


def test_68_preconditions(wire: Wire, space: str) -> None:
    wire.post(configs(space), {"metadata": {"name": "a"}})
    assert wire("DELETE", configs(space, "a"), {"preconditions": {"uid": "other"}}).code == 409
    assert wire("GET", configs(space, "a")).code == 200


def test_69_collections(wire: Wire, space: str) -> None:
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        wire.post(configs(space), {"metadata": {"name": name, "labels": {"l": label}}})
    deleted = wire("DELETE", f"{configs(space)}?labelSelector=l%3Dx")
    assert [item["metadata"]["name"] for item in deleted.json["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in wire.get(configs(space))["items"]] == ["c"]
    assert wire("DELETE", "/api/v1/namespaces").code == 405


def test_70_namespaces_end_with_their_contents(kubectl: Kubectl, wire: Wire) -> None:
    kubectl("create", "namespace", "ending")
    wire.post(configs("ending"), {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})
    kubectl("delete", "namespace", "ending", "--wait=false")
    assert kubectl("get", "namespace", "ending", "--no-headers").split()[1] == "Terminating"
    refused = wire("POST", configs("ending"), {"metadata": {"name": "b"}})
    assert (refused.code, "because it is being terminated" in refused.json["message"]) == (403, True)
    wire.patch(configs("ending", "a"), {"metadata": {"finalizers": None}})
    kubectl("wait", "--for=delete", "namespace/ending", "--timeout=20s")
    assert wire("GET", "/api/v1/namespaces/ending").code == 404


def test_71_the_default_namespace_stays(kubectl: Kubectl) -> None:
    assert "Error from server (Forbidden)" in kubectl.refusal("delete", "namespace", "default")


def test_72_strategic_merge(wire: Wire, space: str) -> None:
    def patched(change: dict[str, Any]) -> dict[str, Any]:
        body = {"spec": {"template": {"spec": change}}}
        response = wire.patch(workloads(space, "deployments", "web"), body, media_type=STRATEGIC)
        assert response.code == 200, response.raw
        found: dict[str, Any] = response.json["spec"]["template"]["spec"]
        return found

    web = workload("Deployment")
    web["spec"]["template"]["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "a"}]}
    web["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    web["spec"]["template"]["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    wire.post(workloads(space, "deployments"), web)

    added = patched({"containers": [{"name": "web", "env": [{"name": "B", "value": "2"}]}]})
    assert {each["name"] for each in added["containers"][0]["env"]} == {"A", "B"}
    replaced = patched({"tolerations": [{"key": "b", "operator": "Exists"}]})
    assert [each["key"] for each in replaced["tolerations"]] == ["b"]
    switched = patched({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]})
    assert "emptyDir" not in switched["volumes"][0]
    removed = patched({"containers": [{"name": "web", "env": [{"name": "A", "$patch": "delete"}]}]})
    assert [each["name"] for each in removed["containers"][0]["env"]] == ["B"]


def test_73_server_side_apply(wire: Wire, program: Programs, space: str) -> None:
    def apply(manager: str, data: dict[str, str], *, force: str = "false") -> Any:  # noqa: ANN401  # JSON
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
        query = f"fieldManager={manager}&force={force}"
        return wire.patch(f"{configs(space, 'a')}?{query}", body, media_type="application/apply-patch+yaml")

    assert apply("m1", {"x": "1", "y": "1"}).code == 201
    refused = apply("m2", {"x": "2"})
    assert (refused.code, refused.json["message"].partition(":")[0]) == (409, "Apply failed with 1 conflict")
    assert apply("m2", {"x": "2"}, force="true").json["data"] == {"x": "2", "y": "1"}
    assert apply("m1", {}).json["data"] == {"x": "2"}
    applied = program(
        """
        import os
        from lightkube import Client
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap
        body = ConfigMap(metadata=ObjectMeta(name="a", namespace=os.environ["SPACE"]), data={"x": "3"})
        print(Client(field_manager="light").apply(body, force=True).data["x"])
        """,
        SPACE=space,
    )
    assert applied == "3"


def test_74_printed_tables(inside: Kubectl, wire: Wire, space: str) -> None:
    pod = wire.post(f"/api/v1/namespaces/{space}/pods", pod_body(name="s1", namespace=space))
    reference = {"kind": "Pod", "namespace": space, "name": "s1", "uid": pod["metadata"]["uid"], "apiVersion": "v1"}
    event = {
        "metadata": {"name": "s1.1"},
        "involvedObject": reference,
        "reason": "Tested",
        "message": "pod inspected",
        "type": "Normal",
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "test"},
    }
    wire.post(f"/api/v1/namespaces/{space}/events", event)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    wire.post(f"/api/v1/namespaces/{space}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    assert "name: s1" in inside("get", "pod", "s1", "-o", "yaml")
    assert "pod/s1" in inside("get", "all")
    assert "pod inspected" in inside("describe", "pod", "s1")
    assert "Status:" in inside("describe", "pvc", "c")


def test_75_both_kinds_of_events(inside: Kubectl, wire: Wire, space: str) -> None:
    regarding = {"kind": "Pod", "namespace": space, "name": "p", "apiVersion": "v1"}
    new = {
        "metadata": {"name": "new"},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "example.com/test",
        "reportingInstance": "test-1",
        "action": "Testing",
        "reason": "New",
        "type": "Normal",
        "note": "in the new way",
        "regarding": regarding,
    }
    wire.post(f"/apis/events.k8s.io/v1/namespaces/{space}/events", new)
    old = {
        "metadata": {"name": "old"},
        "involvedObject": regarding,
        "reason": "Old",
        "message": "in the old way",
        "type": "Normal",
        "source": {"component": "test"},
    }
    wire.post(f"/api/v1/namespaces/{space}/events", old)
    shown = inside("get", "events")
    assert "in the new way" in shown
    assert "in the old way" in shown
    listed = wire.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    assert {item["note"] for item in listed} == {"in the new way", "in the old way"}


def test_76_explain(kubectl: Kubectl) -> None:
    told = kubectl("explain", "pod.spec")
    assert "containers" in told
    assert "FIELDS:" in told
    assert "nodeAffinity" in kubectl("explain", "persistentvolume.spec", "--recursive")
    assert "does not exist" in kubectl.refusal("explain", "pod.spec.bogus")


def test_76_apply_still_validates(inside: Kubectl) -> None:
    bad = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dta": {}}
    assert 'unknown field "dta"' in inside.refusal("apply", "-f", "-", stdin=json.dumps(bad))
