"""Lines 10-30: objects are created, read, changed and deleted as clients expect."""

import base64
import json
import re
from typing import Any

import pytest

from support.builders import pod_body
from support.checklist.programs import Programs
from support.checklist.wire import Wire
from support.e2e.kubectl import Kubectl


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(image: str) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def configs(space: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{space}/configmaps" + (f"/{name}" if name else "")


def test_10_create_namespace(kubectl: Kubectl) -> None:
    assert kubectl("create", "namespace", "acc") == "namespace/acc created\n"
    refused = kubectl.refusal("create", "namespace", "acc")
    assert 'Error from server (AlreadyExists): namespaces "acc" already exists' in refused


def test_11_create_config_map(inside: Kubectl) -> None:
    assert "created" in inside("create", "configmap", "a", "--from-literal=k=v")
    header, row = inside("get", "configmaps", "a").splitlines()
    assert (header.split(), row.split()[:2]) == (["NAME", "DATA", "AGE"], ["a", "1"])


def test_12_jsonpath(inside: Kubectl) -> None:
    inside("create", "configmap", "a", "--from-literal=k=v")
    assert inside("get", "configmap", "a", "-o", "jsonpath={.data.k}") == "v"


def test_13_no_such_namespace(kubectl: Kubectl) -> None:
    refused = kubectl.refusal("-n", "nons", "create", "configmap", "a")
    assert 'Error from server (NotFound): namespaces "nons" not found' in refused or (
        'error: failed to create configmap: namespaces "nons" not found' in refused
    )


def test_14_apply(inside: Kubectl) -> None:
    def apply(image: str) -> str:
        return inside("apply", "-f", "-", stdin=json.dumps(deployment(image)))

    assert [apply("a"), apply("a"), apply("b")] == [
        "deployment.apps/web created\n",
        "deployment.apps/web unchanged\n",
        "deployment.apps/web configured\n",
    ]


def test_15_unknown_field(inside: Kubectl, space: str) -> None:
    pod = pod_body(name="p", namespace=space)
    pod["spec"]["bogus"] = 1
    refused = inside.refusal("create", "-f", "-", stdin=json.dumps(pod))
    assert "BadRequest" in refused
    assert 'strict decoding error: unknown field "spec.bogus"' in refused


def test_16_generate_name(inside: Kubectl, space: str) -> None:
    pod = pod_body(name="x", namespace=space)
    pod["metadata"] = {"generateName": "gen-"}
    assert re.fullmatch(r"pod/gen-[a-z0-9]{5} created\n", inside("create", "-f", "-", stdin=json.dumps(pod)))


def test_17_dry_run(inside: Kubectl) -> None:
    inside("apply", "-f", "-", stdin=json.dumps(config("a", k="v")))
    told = inside("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(config("a", k="w")))
    assert "(server dry run)" in told
    assert inside("get", "configmap", "a", "-o", "jsonpath={.data.k}") == "v"


def test_18_stale_replace(inside: Kubectl) -> None:
    inside("create", "configmap", "a", "--from-literal=k=v")
    stale = inside("get", "configmap", "a", "-o", "json")
    inside("label", "configmap", "a", "x=y")
    refused = inside.refusal("replace", "-f", "-", stdin=stale)
    assert "Error from server (Conflict)" in refused
    assert "the object has been modified" in refused


def test_19_patch_without_change(inside: Kubectl) -> None:
    def version() -> str:
        return inside("get", "configmap", "a", "-o", "jsonpath={.metadata.resourceVersion}")

    inside("create", "configmap", "a")
    patch = ("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"k":"v"}}')
    assert inside(*patch) == "configmap/a patched\n"
    before = version()
    assert inside(*patch) == "configmap/a patched (no change)\n"
    assert version() == before


def test_20_json_patch_with_a_failing_test(inside: Kubectl) -> None:
    inside("create", "configmap", "a", "--from-literal=k=v")
    patch = '[{"op":"test","path":"/data/k","value":"w"}]'
    refused = inside.refusal("patch", "configmap", "a", "--type=json", "-p", patch)
    assert "The request is invalid: the server rejected our request due to an error in our request" in refused


def test_21_labels_and_annotations(inside: Kubectl, space: str) -> None:
    inside("create", "-f", "-", stdin=json.dumps(pod_body(name="p", namespace=space)))
    assert inside("label", "pod", "p", "a=b") == "pod/p labeled\n"
    assert inside("annotate", "pod", "p", "a=b") == "pod/p annotated\n"
    assert inside("get", "pods", "-l", "a=b", "-o", "name") == "pod/p\n"
    assert inside("get", "pods", "-l", "a notin (b)", "-o", "name") == ""


def test_22_edit(inside: Kubectl) -> None:
    inside("create", "configmap", "x", "--from-literal=k=before")
    told = inside("edit", "configmap", "x", environment={"EDITOR": "sed -i s/before/after/"})
    assert "configmap/x edited" in told
    assert inside("get", "configmap", "x", "-o", "jsonpath={.data.k}") == "after"


def test_23_bad_label_selector(inside: Kubectl) -> None:
    refused = inside.refusal("get", "pods", "-l", "a in (b")
    assert "unable to parse requirement" in refused


def test_24_bad_field_selector(inside: Kubectl) -> None:
    refused = inside.refusal("get", "pods", "--field-selector=spec.bogus=1")
    assert "Error from server (BadRequest)" in refused
    assert "field label not supported" in refused


def test_25_delete(inside: Kubectl) -> None:
    inside("create", "configmap", "a")
    assert 'configmap "a" deleted' in inside("delete", "configmap", "a")
    assert "Error from server (NotFound)" in inside.refusal("delete", "configmap", "a")
    assert inside("delete", "configmap", "a", "--ignore-not-found") == ""


def test_26_leases_are_created_by_put(wire: Wire, space: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases/l"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert wire("PUT", path, lease).code == 201
    refused = wire("PUT", path, lease)
    assert (refused.code, "must be specified for an update" in refused.json["message"]) == (422, True)


def test_27_no_content_type_and_no_kind(wire: Wire, program: Programs, space: str) -> None:
    raw = json.dumps({"metadata": {"name": "a"}, "data": {"k": "v"}}).encode()
    created = wire("POST", configs(space), raw, media_type=None)
    assert (created.code, created.json["kind"]) == (201, "ConfigMap")
    made = program(
        """
        import os
        from kubernetes import client, config
        config.load_kube_config()
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="b"), data={"k": "v"})
        print(client.CoreV1Api().create_namespaced_config_map(os.environ["SPACE"], body).data["k"])
        """,
        SPACE=space,
    )
    assert made == "v"


def test_28_bad_label_value(wire: Wire, space: str) -> None:
    refused = wire("POST", configs(space), config("a") | {"metadata": {"name": "a", "labels": {"a": "c d"}}})
    cause = refused.json["details"]["causes"][0]
    assert (refused.code, cause["reason"], cause["field"]) == (422, "FieldValueInvalid", "metadata.labels")


def test_29_chunks(inside: Kubectl, wire: Wire, space: str) -> None:
    for name in "abc":
        inside("create", "configmap", name)
    assert inside("get", "configmaps", "--chunk-size=1", "-o", "name").split() == [
        "configmap/a",
        "configmap/b",
        "configmap/c",
    ]
    names, versions, token, remaining = [], set(), "", []
    while True:
        page = wire.get(f"{configs(space)}?limit=1&continue={token}")
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        remaining.append(page["metadata"].get("remainingItemCount"))
        token = page["metadata"].get("continue", "")
        if not token:
            break
        wire.post(configs(space), config(f"late-{len(names)}"))
    assert (names, len(versions), remaining) == (["a", "b", "c"], 1, [2, 1, None])


def test_30_bad_and_expired_tokens(wire: Wire, space: str) -> None:
    bad = wire("GET", f"{configs(space)}?limit=1&continue=%21")
    assert (bad.code, bad.json["reason"]) == (400, "BadRequest")
    ancient = json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": "a\u0000"}).encode()
    token = base64.urlsafe_b64encode(ancient).decode().rstrip("=")
    expired = wire("GET", f"{configs(space)}?limit=1&continue={token}")
    assert (expired.code, expired.json["reason"]) == (410, "Expired")
    again = wire("GET", f"{configs(space)}?limit=1&continue={expired.json['metadata']['continue']}")
    assert again.code == 200


@pytest.mark.parametrize("verb", ["PUT", "PATCH"])
def test_30_collections_take_no_put_and_no_patch(wire: Wire, space: str, verb: str) -> None:
    assert wire(verb, configs(space), {}).code == 405
