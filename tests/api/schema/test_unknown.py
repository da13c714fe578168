"""Unknown fields: found at every depth, with kube-apiserver's paths, in document order."""

from typing import Any

import pytest

from mooring.api.schema.checks import MAX_UNKNOWN_FIELDS, unknown_fields
from mooring.api.schema.types import UnknownKind
from support.builders.pods import pod_body


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "want"),
    [
        pytest.param("v1", "Pod", {"apiVersion": "v1", "kind": "Pod"}, [], id="apiVersion and kind"),
        pytest.param("v1", "Pod", {"bogus": 1}, ["bogus"], id="at the top"),
        pytest.param("v1", "Pod", {"spec": {"bogus": 1}}, ["spec.bogus"], id="in a struct"),
        pytest.param(
            "v1",
            "Pod",
            {"spec": {"containers": [{"name": "a", "foo": 1}, {"image": "b", "bar": 2}]}},
            ["spec.containers[0].foo", "spec.containers[1].bar"],
            id="in items of a list",
        ),
        pytest.param(
            "v1",
            "Pod",
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/", "z": 1}, "q": 2}]}},
            ["spec.volumes[0].hostPath.z", "spec.volumes[0].q"],
            id="beside and inside an inline struct",
        ),
        pytest.param(
            "resource.k8s.io/v1",
            "ResourceSlice",
            {"spec": {"devices": [{"name": "d", "attributes": {"m.io/x": {"strin": "a"}}}]}},
            ["spec.devices[0].attributes.m.io/x.strin"],
            id="in values of a map",
        ),
        pytest.param(
            "apps/v1",
            "StatefulSet",
            {"spec": {"template": {"kind": "Pod"}, "volumeClaimTemplates": [{"kind": "PersistentVolumeClaim"}]}},
            ["spec.template.kind"],
            id="kind where the type has none",
        ),
        pytest.param("v1", "Pod", {"metadata": {"labels": {"anything": "x"}}}, [], id="keys of maps are free"),
        pytest.param(
            "apps/v1", "ControllerRevision", {"data": {"anything": {"at": "all"}}}, [], id="raw objects are free"
        ),
        pytest.param("v1", "Pod", {"Spec": {}}, ["Spec"], id="names are case sensitive"),
        pytest.param("v1", "Pod", {"spec": "text", "metadata": [1], "status": None}, [], id="wrong types are passed"),
        pytest.param("v1", "Pod", {"spec": {"containers": {"foo": 1}}}, [], id="an object for a list is passed"),
        pytest.param("v1", "Pod", {"spec": {"containers": [None, 3]}}, [], id="odd items are passed"),
        pytest.param(
            "storage.k8s.io/v1", "StorageClass", {"bindingMode": "Immediate"}, ["bindingMode"], id="a draft's field"
        ),
        pytest.param("policy/v1", "DeleteOptions", {"dryRun": ["All"], "x": 1}, ["x"], id="delete options"),
    ],
)
def test_unknown_fields(api_version: str, kind: str, obj: dict[str, Any], want: list[str]) -> None:
    assert unknown_fields(api_version, kind, obj) == want


def test_the_order_is_the_document_s() -> None:
    obj = {"status": {"zz": 1}, "b": 1, "metadata": {"ann": 1}, "a": 1}
    assert unknown_fields("v1", "Pod", obj) == ["status.zz", "b", "metadata.ann", "a"]


def test_an_ordinary_pod_has_none() -> None:
    assert unknown_fields("v1", "Pod", pod_body(claims=["data"], requests={"cpu": "1"})) == []


def test_a_flood_is_cut_off() -> None:
    containers = [{"name": "c", "x": 1, "y": 1} for _ in range(MAX_UNKNOWN_FIELDS)]
    strays = unknown_fields("v1", "Pod", {"spec": {"containers": containers}})
    assert len(strays) == MAX_UNKNOWN_FIELDS


def test_a_kind_the_table_does_not_have() -> None:
    with pytest.raises(UnknownKind):
        unknown_fields("v1", "Widget", {})
