import pytest

from mooring.api.errors import BadRequest, Invalid
from mooring.api.kinds import CLAIM, CONFIG_MAP, DISRUPTION_BUDGET, LEASE, POD, SECRET, STORAGE_CLASS, Kind
from mooring.server.contract import WriteOptions
from mooring.server.decoding import read_body
from support.builders import Body, class_body, pod_body


def read(kind: Kind, body: Body, validation: str = "Warn") -> Body:
    return read_body(kind, body, WriteOptions(field_validation=validation)).obj


@pytest.mark.parametrize(
    ("kind", "sent", "kept"),
    [
        pytest.param(CONFIG_MAP, {"data": None}, {}, id="null is absent"),
        pytest.param(CONFIG_MAP, {"data": {"a": None, "b": "c"}}, {"data": {"b": "c"}}, id="null in a map is absent"),
        pytest.param(CONFIG_MAP, {"data": {"a": ""}}, {"data": {"a": ""}}, id="an empty value in a map is a value"),
        pytest.param(CONFIG_MAP, {"data": {}}, {}, id="an empty map is absent"),
        pytest.param(CONFIG_MAP, {"immutable": False}, {"immutable": False}, id="a false pointer means something"),
        pytest.param(CONFIG_MAP, {"other": 1}, {}, id="what Kubernetes does not know is left out"),
        pytest.param(
            CLAIM, {"spec": {"storageClassName": ""}}, {"spec": {"storageClassName": ""}}, id="the empty class stays"
        ),
        pytest.param(CLAIM, {"spec": {"volumeName": ""}}, {}, id="an empty plain string is absent"),
        pytest.param(
            CLAIM,
            {"spec": {"selector": {}, "resources": {}}},
            {"spec": {"selector": {}}},
            id="an empty object behind a pointer stays",
        ),
        pytest.param(
            CLAIM,
            {"spec": {"resources": {"requests": {"storage": "0.5Gi"}}}},
            {"spec": {"resources": {"requests": {"storage": "512Mi"}}}},
            id="quantities are canonical",
        ),
        pytest.param(
            CLAIM,
            {"spec": {"resources": {"requests": {"storage": 1024}}}},
            {"spec": {"resources": {"requests": {"storage": "1024"}}}},
            id="quantities may be numbers",
        ),
        pytest.param(
            LEASE,
            {"spec": {"renewTime": "2026-01-01T02:00:00.000001+01:00"}},
            {"spec": {"renewTime": "2026-01-01T01:00:00.000001Z"}},
            id="moments are in UTC",
        ),
        pytest.param(
            POD,
            {"status": {"startTime": "2026-01-01T00:00:00.75Z"}},
            {"status": {"startTime": "2026-01-01T00:00:00Z"}},
            id="moments have whole seconds",
        ),
        pytest.param(
            POD,
            {"status": {"startTime": "1969-12-31T23:59:58.75Z"}},
            {"status": {"startTime": "1969-12-31T23:59:58Z"}},
            id="fractions are cut off before 1970 as well",
        ),
        pytest.param(POD, {"status": {"startTime": "0001-01-01T00:00:00.5Z"}}, {}, id="Go's zero time is absent"),
        pytest.param(LEASE, {"spec": {"renewTime": "0001-01-01T00:00:00.000000Z"}}, {}, id="in micro times too"),
        pytest.param(
            DISRUPTION_BUDGET, {"status": {"disruptedPods": {"p": "0001-01-01T00:00:00Z"}}}, {}, id="and in maps"
        ),
        pytest.param(
            LEASE,
            {"spec": {"renewTime": "0001-01-01T00:00:00.500000Z"}},
            {"spec": {"renewTime": "0001-01-01T00:00:00.500000Z"}},
            id="the first year has four digits",
        ),
        pytest.param(
            POD,
            {"spec": {"containers": [None], "tolerations": []}},
            {"spec": {"containers": [{}]}},
            id="null in a list is an empty item",
        ),
    ],
)
def test_bodies_are_decoded_into_canonical_form(kind: Kind, sent: Body, kept: Body) -> None:
    head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"name": "a"}}
    sections = {section: {} for section in ("spec", "status") if section in read(kind, head)}
    assert read(kind, head | sent) == head | sections | kept


def test_sections_of_an_object_are_always_there() -> None:
    assert read(POD, {}) == {"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {}, "status": {}}
    assert read(CONFIG_MAP, {}) == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}


def test_what_was_sent_is_not_touched_and_not_shared() -> None:
    body = pod_body(labels={"a": "b"})
    obj = read(POD, body)
    obj["metadata"]["labels"]["c"] = "d"
    obj["spec"]["containers"][0]["image"] = "x"
    assert body == pod_body(labels={"a": "b"})


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        pytest.param(
            CONFIG_MAP,
            {"kind": "Secret", "apiVersion": "v1"},
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "the kind in the data (Secret) does not match the kind of the URL (ConfigMap)",
            id="another kind",
        ),
        pytest.param(
            CONFIG_MAP,
            {"kind": "ConfigMap", "apiVersion": "v2"},
            "the API version in the data (v2) does not match the expected API version (v1)",
            id="another version",
        ),
        pytest.param(
            CONFIG_MAP,
            {"metadata": {"labels": {"a": 5}}},
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            id="a number for a string",
        ),
        pytest.param(
            CLAIM,
            {"spec": {"resources": {"requests": {"storage": "1K"}}}},
            'PersistentVolumeClaim in version "v1" cannot be handled as a PersistentVolumeClaim: '
            'quantity "1K" is not an amount',
            id="no such suffix",
        ),
        pytest.param(LEASE, {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, "parsing time", id="not a micro time"),
        pytest.param(SECRET, {"data": {"a": "?"}}, "illegal base64 data", id="not base64"),
        *(
            pytest.param(POD, {"status": {"startTime": moment}}, f'parsing time "{moment}"', id=moment)
            for moment in ("9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2026-02-30T00:00:00Z")
        ),
    ],
)
def test_what_is_no_such_object_is_a_bad_request(kind: Kind, body: Body, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        read(kind, body)
    assert message in refusal.value.message


def test_kind_and_version_may_be_left_to_the_url() -> None:
    assert read(POD, {"metadata": {"name": "a"}})["kind"] == "Pod"


UNKNOWN = {"metadata": {"name": "a", "naem": "b"}, "spec": {"bogus": 1, "containers": [{"name": "c", "foo": {}}]}}


def test_unknown_fields_are_refused_when_asked_to_be_strict() -> None:
    with pytest.raises(BadRequest) as refusal:
        read(POD, UNKNOWN, "Strict")
    assert refusal.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "metadata.naem", '
        'unknown field "spec.bogus", unknown field "spec.containers[0].foo"'
    )


def test_unknown_fields_are_warned_of_by_default_and_left_out() -> None:
    decoded = read_body(POD, UNKNOWN, WriteOptions())
    assert decoded.warnings == (
        'unknown field "metadata.naem"',
        'unknown field "spec.bogus"',
        'unknown field "spec.containers[0].foo"',
    )
    assert decoded.obj["spec"] == {"containers": [{"name": "c"}]}


def test_unknown_fields_can_be_ignored() -> None:
    assert read_body(POD, UNKNOWN, WriteOptions(field_validation="Ignore")).warnings == ()


@pytest.mark.req("T3.draft-field")
@pytest.mark.level("u")
@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict"])
def test_the_draft_name_of_the_binding_mode_is_refused_with_the_real_one(validation: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read(STORAGE_CLASS, class_body(binding_mode=None) | {"bindingMode": "WaitForFirstConsumer"}, validation)
    assert refusal.value.message == (
        'StorageClass.storage.k8s.io "local" is invalid: bindingMode: Forbidden: '
        'there is no such field; it was renamed, write "volumeBindingMode"'
    )
