"""Values of wrong JSON types: rejected exactly when Go's decoder rejects them, with its messages."""

from typing import Any

import pytest

from mooring.api.schema.checks import wrong_types
from mooring.api.schema.types import UnknownKind
from support.builders.pods import pod_body


def unmarshal(value: str, field: str, go_type: str) -> str:
    return f"json: cannot unmarshal {value} into Go struct field {field} of type {go_type}"


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        pytest.param(
            "Pod", {"metadata": {"name": 3}}, unmarshal("number", "ObjectMeta.metadata.name", "string"), id="text"
        ),
        pytest.param(
            "Pod",
            {"metadata": {"labels": {"a": 1}}},
            unmarshal("number", "ObjectMeta.metadata.labels", "string"),
            id="value of a map",
        ),
        pytest.param(
            "Pod",
            {"metadata": {"labels": []}},
            unmarshal("array", "ObjectMeta.metadata.labels", "map[string]string"),
            id="list for a map",
        ),
        pytest.param(
            "Pod",
            {"metadata": {"finalizers": "x"}},
            unmarshal("string", "ObjectMeta.metadata.finalizers", "[]string"),
            id="text for a list",
        ),
        pytest.param(
            "Pod",
            {"metadata": {"finalizers": [True]}},
            unmarshal("bool", "ObjectMeta.metadata.finalizers", "string"),
            id="item of a list",
        ),
        pytest.param("Pod", {"spec": "x"}, unmarshal("string", "Pod.spec", "v1.PodSpec"), id="text for a struct"),
        pytest.param(
            "Pod",
            {"spec": {"containers": {}}},
            unmarshal("object", "PodSpec.spec.containers", "[]v1.Container"),
            id="object for a list",
        ),
        pytest.param(
            "Pod",
            {"spec": {"containers": [{"name": 1}]}},
            unmarshal("number", "Container.spec.containers.name", "string"),
            id="inside an item",
        ),
        pytest.param(
            "Pod",
            {"spec": {"priority": 1.5}},
            unmarshal("number 1.5", "PodSpec.spec.priority", "int32"),
            id="fraction for an integer",
        ),
        pytest.param(
            "Pod",
            {"spec": {"priority": 2**31}},
            unmarshal("number 2147483648", "PodSpec.spec.priority", "int32"),
            id="integer too large",
        ),
        pytest.param(
            "Pod",
            {"spec": {"priority": True}},
            unmarshal("bool", "PodSpec.spec.priority", "int32"),
            id="truth for an integer",
        ),
        pytest.param(
            "Pod",
            {"spec": {"hostNetwork": "true"}},
            unmarshal("string", "PodSpec.spec.hostNetwork", "bool"),
            id="text for truth",
        ),
        pytest.param(
            "Service",
            {"spec": {"ports": [{"targetPort": 1.5}]}},
            unmarshal("number 1.5", "ServicePort.spec.ports.targetPort", "int32"),
            id="fraction for a port",
        ),
        pytest.param(
            "Secret", {"data": {"a": 5}}, unmarshal("number", "Secret.data", "[]uint8"), id="number for bytes"
        ),
        pytest.param("Secret", {"data": {"a": "%"}}, "illegal base64 data", id="not base64"),
        pytest.param(
            "Pod",
            {"metadata": {"creationTimestamp": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00"',
            id="not a moment",
        ),
        pytest.param(
            "Pod",
            {"metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}},
            'parsing time "2026-02-30T00:00:00Z" as "2006-01-02T15:04:05Z07:00"',
            id="a day that is not in the calendar",
        ),
        pytest.param(
            "Event",
            {"eventTime": "2026-01-01T00:00:00Z"},
            'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00"',
            id="micro time without its six digits",
        ),
        pytest.param(
            "PersistentVolume",
            {"spec": {"capacity": {"storage": True}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="truth for a quantity",
        ),
    ],
)
def test_refused(kind: str, obj: dict[str, Any], want: str) -> None:
    assert list(wrong_types("v1", kind, obj)) == [want]


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        pytest.param("Pod", {"metadata": None, "spec": {"containers": [None]}}, id="null is absent"),
        pytest.param("Pod", {"bogus": 1, "spec": {"bogus": []}}, id="unknown fields are not ours"),
        pytest.param("PersistentVolume", {"spec": {"capacity": {"storage": 5}}}, id="a number is a quantity"),
        pytest.param("PersistentVolume", {"spec": {"capacity": {"storage": "5K"}}}, id="quantities are not parsed"),
        pytest.param("Service", {"spec": {"ports": [{"targetPort": "web"}, {"targetPort": 80}]}}, id="named ports"),
        pytest.param("Secret", {"data": {"a": "aGVs\nbG8="}}, id="base64 with a line break"),
        pytest.param("Pod", {"metadata": {"creationTimestamp": "2026-01-01T00:00:00.5+02:00"}}, id="moment, zone"),
        pytest.param("Event", {"eventTime": "2026-01-01T00:00:00.000000Z"}, id="micro time"),
        pytest.param("Pod", {"spec": {"priority": -(2**31)}}, id="the smallest integer"),
        pytest.param("Pod", pod_body(claims=["data"], requests={"cpu": "1"}), id="an ordinary pod"),
    ],
)
def test_accepted(kind: str, obj: dict[str, Any]) -> None:
    assert list(wrong_types("v1", kind, obj)) == []


@pytest.mark.parametrize(
    ("extra", "want"),
    [
        pytest.param({"k": ["a", "b"]}, [], id="lists of text"),
        pytest.param(
            {"k": "a"},
            [unmarshal("string", "SubjectAccessReviewSpec.spec.extra", "[]string")],
            id="text for a list",
        ),
        pytest.param(
            {"k": [1]}, [unmarshal("number", "SubjectAccessReviewSpec.spec.extra", "string")], id="number in a list"
        ),
    ],
)
def test_maps_of_lists(extra: dict[str, Any], want: list[str]) -> None:
    assert list(wrong_types("authorization.k8s.io/v1", "SubjectAccessReview", {"spec": {"extra": extra}})) == want


def test_every_problem_is_named() -> None:
    obj = {"metadata": {"name": 1}, "spec": {"priority": "1"}}
    assert list(wrong_types("v1", "Pod", obj)) == [
        unmarshal("number", "ObjectMeta.metadata.name", "string"),
        unmarshal("string", "PodSpec.spec.priority", "int32"),
    ]


def test_a_kind_the_table_does_not_have() -> None:
    with pytest.raises(UnknownKind):
        list(wrong_types("v1", "Widget", {}))
