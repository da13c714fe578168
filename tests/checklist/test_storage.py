"""Lines 56-64: classes, claims and volumes."""

from typing import Any

import pytest

from support.builders import claim_body, class_body, volume_body
from support.checklist.wire import Answer, Wire
from support.e2e.kubectl import Kubectl

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def claims(space: str, name: str = "", subresource: str = "") -> str:
    return "/".join(part for part in (f"/api/v1/namespaces/{space}/persistentvolumeclaims", name, subresource) if part)


def claim_in(wire: Wire, space: str, *, name: str = "c", **spec: object) -> dict[str, Any]:
    body = claim_body(name=name, namespace=space)
    body["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec
    return wire.post(claims(space), body)


def replaced(wire: Wire, path: str, where: str, value: object) -> Answer:
    return wire.patch(path, [{"op": "add", "path": where, "value": value}], media_type=JSON_PATCH)


@pytest.fixture(scope="module")
def default_class(wire: Wire) -> str:
    """The one default class of the server, for claims without a class."""
    for found in wire.get(CLASSES)["items"]:
        wire.patch(f"{CLASSES}/{found['metadata']['name']}", {"metadata": {"annotations": None}})
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"name": "the-default", "annotations": annotations}
    wire.post(CLASSES, {"metadata": metadata, "provisioner": "example.com/p", "allowVolumeExpansion": True})
    return "the-default"


def test_56_classes(kubectl: Kubectl, wire: Wire, default_class: str) -> None:
    assert "the-default (default)" in kubectl("get", "storageclasses")
    path = f"{CLASSES}/{default_class}"
    for change in ({"provisioner": "x"}, {"parameters": {"a": "b"}}, {"volumeBindingMode": "WaitForFirstConsumer"}):
        assert wire.patch(path, change).code == 422
    assert wire.patch(path, {"reclaimPolicy": "Retain"}).code == 422
    assert wire.patch(path, {"allowVolumeExpansion": False}).code == 200


def test_57_claims_get_the_default_class(wire: Wire, space: str, default_class: str) -> None:
    claim = claim_in(wire, space)
    assert claim["spec"]["storageClassName"] == default_class
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert (claim["status"]["phase"], claim["spec"]["volumeMode"]) == ("Pending", "Filesystem")
    assert claim_in(wire, space, name="static", storageClassName="")["spec"]["storageClassName"] == ""


def test_58_sizes(wire: Wire, space: str) -> None:
    wire.post(CLASSES, class_body(name=f"{space}-grows") | {"allowVolumeExpansion": True})
    wire.post(CLASSES, class_body(name=f"{space}-stays"))
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    codes = []
    for name, storage_class in (("grows", f"{space}-grows"), ("stays", f"{space}-stays")):
        claim_in(wire, space, name=name, storageClassName=storage_class)
        codes.append(wire.patch(claims(space, name), larger).code)
        wire.patch(claims(space, name), {"spec": {"volumeName": f"{space}-{name}"}})
        bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        wire.patch(claims(space, name, "status"), {"status": bound})
        codes.append(wire.patch(claims(space, name), larger).code)
    assert codes == [422, 200, 422, 403]


def test_59_volume_name_is_set_once(wire: Wire, space: str) -> None:
    claim_in(wire, space)
    assert wire.patch(claims(space, "c"), {"spec": {"volumeName": "v"}}).code == 200
    assert wire.patch(claims(space, "c"), {"spec": {"volumeName": "w"}}).code == 422
    assert wire.patch(claims(space, "c"), {"spec": {"volumeName": None}}).code == 422


def test_60_volumes(wire: Wire, space: str) -> None:
    body = volume_body(name=f"{space}-v", node="n60")
    two = volume_body(name=f"{space}-two", node="n60")
    two["spec"] |= {"hostPath": {"path": "/x"}, "local": {"path": "/x"}}
    assert wire("POST", VOLUMES, two).code == 422
    wire.post(VOLUMES, body)
    path = f"{VOLUMES}/{space}-v"
    required = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0"
    changed = wire.patch(path, [{"op": "replace", "path": required, "value": "other"}], media_type=JSON_PATCH)
    assert changed.code == 422
    reference = {"kind": "PersistentVolumeClaim", "namespace": space, "name": "c"}
    assert wire.patch(path, {"spec": {"claimRef": reference}}).code == 200
    assert wire.patch(path, {"spec": {"claimRef": None}}).code == 200
    wire.patch(path, {"status": {"phase": "Failed"}})
    assert wire.get(path)["status"]["phase"] != "Failed"
    wire.patch(f"{path}/status", {"status": {"phase": "Available"}})
    assert wire.get(path)["status"]["phase"] == "Available"


def test_61_a_claim_in_use_waits_for_its_finalizer(inside: Kubectl, wire: Wire, space: str) -> None:
    claim_in(wire, space)
    inside("delete", "pvc", "c", "--wait=false")
    assert inside("get", "pvc", "c", "--no-headers").split()[1] == "Terminating"
    directive = {"$deleteFromPrimitiveList/finalizers": ["kubernetes.io/pvc-protection"]}
    assert wire.patch(claims(space, "c"), {"metadata": directive}, media_type=STRATEGIC).code == 200
    assert wire("GET", claims(space, "c")).code == 404


def test_62_storage_capacity(wire: Wire, space: str) -> None:
    path = f"/apis/storage.k8s.io/v1/namespaces/{space}/csistoragecapacities"
    bad = wire("POST", path, {"metadata": {"name": "#%123-invalid-name"}, "storageClassName": "c"})
    assert (bad.code, bad.json["reason"]) == (422, "Invalid")
    topology = {"matchLabels": {"zone": "a"}}
    wire.post(path, {"metadata": {"name": "a"}, "storageClassName": "c", "nodeTopology": topology, "capacity": "1Gi"})
    assert wire.patch(f"{path}/a", {"capacity": "2Gi"}).code == 200
    assert wire.patch(f"{path}/a", {"storageClassName": "d"}).code == 422
    assert wire.patch(f"{path}/a", {"nodeTopology": {"matchLabels": {"zone": "b"}}}).code == 422


def test_63_attachments_drivers_and_their_tables(kubectl: Kubectl, wire: Wire, space: str) -> None:
    root = "/apis/storage.k8s.io/v1"
    source = {"persistentVolumeName": "v"}
    spec = {"attacher": "d.example.com", "nodeName": "n63", "source": source}
    wire.post(f"{root}/volumeattachments", {"metadata": {"name": space}, "spec": spec})
    wire.patch(f"{root}/volumeattachments/{space}/status", {"status": {"attached": True}})
    assert kubectl("get", "volumeattachment", space, "--no-headers").split()[1:5] == [
        "d.example.com",
        "v",
        "n63",
        "true",
    ]
    driver = wire.post(f"{root}/csidrivers", {"metadata": {"name": f"{space}.example.com"}, "spec": {}})["spec"]
    assert (driver["attachRequired"], driver["podInfoOnMount"], driver["storageCapacity"]) == (True, False, False)
    assert (driver["fsGroupPolicy"], driver["volumeLifecycleModes"]) == ("ReadWriteOnceWithFSType", ["Persistent"])
    drivers = [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["zone"]}]
    wire.post(f"{root}/csinodes", {"metadata": {"name": space}, "spec": {"drivers": drivers}})
    assert kubectl("get", "csinode", space, "--no-headers").split()[:2] == [space, "1"]


def test_64_several_kinds_at_once(kubectl: Kubectl, wire: Wire, space: str) -> None:
    claim_in(wire, space)
    body = volume_body(name=f"{space}-v", node="n64")
    body["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": space, "name": "c"}
    wire.post(VOLUMES, body)
    shown = kubectl("get", "pv,pvc", "-A")
    assert f"persistentvolume/{space}-v" in shown
    assert f"{space}/c" in shown
    assert "persistentvolumeclaim/c" in shown
