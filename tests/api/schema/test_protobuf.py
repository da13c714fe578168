"""Protobuf bodies: of real Go clients, unusual encodings, round trips, and hostile bytes."""

from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.schema.checks import unknown_fields, wrong_types
from mooring.api.schema.protobuf import MAGIC, MEDIA_TYPE, MalformedProtobuf, decode_envelope
from mooring.api.schema.types import Scalar, Shape, Type, type_of
from support.protobuf_encoder import ZEROES, delimited, envelope, number, sealed, varint

#: Bodies written by the protobuf serializer Go clients use (apimachinery 0.36.4), and what they stand for.
WRITTEN_BY_GO = [
    pytest.param(
        "azhzAAobCgJ2MRIVUGVyc2lzdGVudFZvbHVtZUNsYWltEksKGwoEZGF0YRIAGgdkZWZhdWx0IgAqADIAOABCABIoCg1SZWFkV3JpdGVP"
        "bmNlEhMSEQoHc3RvcmFnZRIGCgQxMEdpGgAqABoCCgAaACIA",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}},
                "storageClassName": "",
            },
        },
        id="a claim without a class, which is not an absent class",
    ),
    pytest.param(
        "azhzAAoWCgJ2MRIQUGVyc2lzdGVudFZvbHVtZRJqChwKBHB2LTESABoAIgAqADIAOABCCAil69zKBhAAEkIKEAoHc3RvcmFnZRIFCgMx"
        "VGkSFbIBEgoJZC5leGFtcGxlEgFoGAAiACoAMgBKEwoRCg8KDQoEem9uZRICSW4aAWEaBgoAEgAaABoAIgA=",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv-1", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {
                "capacity": {"storage": "1Ti"},
                "csi": {"driver": "d.example", "volumeHandle": "h"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                },
            },
        },
        id="a volume, its source inline",
    ),
    pytest.param(
        "azhzAAoJCgJ2MRIDUG9kEuMBChEKAXASABoAIgAqADIAOABCABK4AQoPCgdzY3JhdGNoEgQSAgoAEmoKAWMSAWkqADoSCgFFEgAaCxoJ"
        "CgQKAmNtEgFrQgBSHwoTEhEKABIJCAEQABoDd2ViGgAiABAAGAAgACgAMABaGQoNGgsKBwgAEJA/GgASABAAGAAgACgAMABqAHIAgAEA"
        "iAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBALIBEAoAEgZFeGlzdHMaACIAKADCAQDIAfv//////////wEaEwoAGgAiACoA"
        "MgBKAFoAcgCIAQAaACIA",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "volumes": [{"name": "scratch", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}],
                        "livenessProbe": {"httpGet": {"port": "web"}},
                        "readinessProbe": {"tcpSocket": {"port": 8080}},
                    }
                ],
                "tolerations": [{"operator": "Exists", "tolerationSeconds": 0}],
                "priority": -5,
            },
        },
        id="a pod: empty pointer, negative number, both kinds of port",
    ),
    pytest.param(
        "azhzAAoaCglwb2xpY3kvdjESDURlbGV0ZU9wdGlvbnMSDggAIgpCYWNrZ3JvdW5kGgAiAA==",
        {
            "apiVersion": "policy/v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
        },
        id="delete options of a group that did not define them",
    ),
    pytest.param(
        "azhzAAolChRzY2hlZHVsaW5nLms4cy5pby92MRINUHJpb3JpdHlDbGFzcxIcChQKBHplcm8SABoAIgAqADIAOABCABAAGAAiABoAIgA=",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "zero"},
            "value": 0,
        },
        id="a zero that JSON would not omit",
    ),
    pytest.param(
        "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRIgChEKAWwSABoAIgAqADIAOABCABILIgkIpevcygYQ8C4aACIA",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"renewTime": "2026-01-02T03:04:05.000006Z"},
        },
        id="a lease with micro time",
    ),
    pytest.param(
        "azhzAAoMCgJ2MRIGU2VjcmV0EicKEQoBcxIAGgAiACoAMgA4AEIAEgoKAWsSBWhlbGxvGgZPcGFxdWUaACIA",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "data": {"k": "aGVsbG8="},
            "type": "Opaque",
        },
        id="a secret, bytes as base64",
    ),
]


@pytest.mark.parametrize(("body", "want"), WRITTEN_BY_GO)
def test_bodies_of_go_clients(body: str, want: dict[str, Any]) -> None:
    assert decode_envelope(b64decode(body)) == want


#: `metadata` of a ConfigMap with `name: x`, and what else its message may carry.
METADATA = delimited(1, delimited(1, b"x"))


@pytest.mark.parametrize(
    ("kind", "raw", "want"),
    [
        pytest.param("ConfigMap", b"", {}, id="an empty message"),
        pytest.param(
            "ConfigMap",
            METADATA
            + number(99, 5)
            + delimited(98, b"?")
            + varint(97 << 3 | 1)
            + bytes(8)
            + varint(96 << 3 | 5)
            + bytes(4),
            {"metadata": {"name": "x"}},
            id="unknown fields of every wire type are skipped",
        ),
        pytest.param(
            "ConfigMap",
            METADATA + delimited(1, delimited(3, b"ns")),
            {"metadata": {"name": "x", "namespace": "ns"}},
            id="a message in two parts is merged",
        ),
        pytest.param(
            "ConfigMap",
            METADATA + delimited(1, delimited(1, b"")),
            {},
            id="the last value wins, also when it is zero",
        ),
        pytest.param("ConfigMap", delimited(2, delimited(2, b"v")), {"data": {"": "v"}}, id="entry without a key"),
        pytest.param("ConfigMap", delimited(2, delimited(1, b"k")), {"data": {"k": ""}}, id="entry without a value"),
        pytest.param(
            "Pod",
            delimited(2, delimited(14, number(4, 1) + delimited(4, b"\x02\x03") + number(4, 4))),
            {"spec": {"securityContext": {"supplementalGroups": [1, 2, 3, 4]}}},
            id="packed integers",
        ),
        pytest.param(
            "Pod",
            delimited(1, delimited(8, number(1, -1) + number(2, 999_999_999))),
            {"metadata": {"creationTimestamp": "1969-12-31T23:59:59Z"}},
            id="a moment before 1970, fractions cut",
        ),
        pytest.param(
            "PersistentVolume",
            delimited(2, delimited(1, delimited(1, b"storage") + delimited(2, b""))),
            {"spec": {"capacity": {"storage": "0"}}},
            id="an empty quantity is 0",
        ),
    ],
)
def test_unusual_but_legal(kind: str, raw: bytes, want: dict[str, Any]) -> None:
    assert decode_envelope(sealed("v1", kind, raw)) == {"apiVersion": "v1", "kind": kind} | want


def test_embedded_json_is_kept_even_when_empty() -> None:
    for data in ({}, [], {"a": [1, None]}):
        revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": data, "revision": 0}
        assert decode_envelope(envelope(revision)) == revision


def test_extra_values_are_lists_of_strings() -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"extra": {"scopes": ["a", ""], "none": []}},
        "status": {"allowed": False},
    }
    assert decode_envelope(envelope(review)) == review


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(b"", "does not begin with", id="nothing"),
        pytest.param(b'{"kind": "Pod"}', "does not begin with", id="JSON"),
        pytest.param(MAGIC, 'no kind ""', id="an envelope without a kind"),
        pytest.param(sealed("v1", "Widget", b""), 'no kind "Widget" is registered', id="an unknown kind"),
        pytest.param(sealed("v1", "Pod", b"", encoding="gzip"), "content encoding 'gzip'", id="compressed"),
        pytest.param(sealed("v1", "Pod", b"", media_type="application/json"), "content type", id="JSON inside"),
        pytest.param(MAGIC + b"\x0a\x7f\x01", "cut off: 127 bytes announced, 1 left", id="cut off"),
        pytest.param(MAGIC + b"\x80", "cut off or longer than 64 bits", id="a number cut off"),
        pytest.param(MAGIC + b"\xff" * 11, "longer than 64 bits", id="a number without end"),
        pytest.param(MAGIC + b"\x00\x00", "number 0", id="field number 0"),
        pytest.param(MAGIC + b"\x0b\x0c", "wire type 3", id="a group"),
        pytest.param(sealed("v1", "Pod", number(1, 7)), "another wire type", id="a number for a message"),
        pytest.param(
            sealed("v1", "Pod", delimited(2, delimited(25, b"7"))), "another wire type", id="text for a number"
        ),
        pytest.param(
            sealed("v1", "ConfigMap", varint(1 << 3 | 5) + bytes(4)), "another wire type", id="fixed size for a message"
        ),
        pytest.param(sealed("v1", "Pod", delimited(1, delimited(1, b"\xff"))), "not UTF-8", id="text not UTF-8"),
        pytest.param(
            sealed("v1", "Pod", delimited(1, delimited(8, number(1, 2**62)))), "beyond the years", id="a far moment"
        ),
        pytest.param(
            sealed("apps/v1", "ControllerRevision", delimited(2, delimited(1, b"{"))), "not JSON", id="broken JSON"
        ),
        pytest.param(
            sealed("apps/v1", "ControllerRevision", delimited(2, delimited(1, b"[" * 10_000))),
            "not JSON",
            id="JSON nested without end",
        ),
    ],
)
def test_malformed(body: bytes, why: str) -> None:
    with pytest.raises(MalformedProtobuf, match=why):
        decode_envelope(body)


def test_the_media_type_may_be_named() -> None:
    assert decode_envelope(sealed("v1", "Pod", b"", media_type=MEDIA_TYPE)) == {"apiVersion": "v1", "kind": "Pod"}


KINDS = [
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("v1", "Binding"),
    ("v1", "Secret"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "CSIStorageCapacity"),
    ("apps/v1", "StatefulSet"),
    ("coordination.k8s.io/v1", "Lease"),
    ("authorization.k8s.io/v1", "SubjectAccessReview"),
    ("policy/v1", "DeleteOptions"),
]
MOMENTS = st.datetimes()
SCALARS: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.BOOL: st.booleans(),
    Scalar.BYTES: st.binary(max_size=4).map(lambda data: b64encode(data).decode()),
    Scalar.INT32: st.integers(-(2**31), 2**31 - 1),
    Scalar.INT64: st.integers(-(2**63), 2**63 - 1),
    Scalar.STRING: st.text(max_size=3),
    Scalar.QUANTITY: st.sampled_from(["0", "1", "10Gi", "100m"]),
    Scalar.TIME: MOMENTS.map(lambda moment: moment.isoformat(timespec="seconds") + "Z"),
    Scalar.MICRO_TIME: MOMENTS.map(lambda moment: moment.isoformat(timespec="microseconds") + "Z"),
    Scalar.INT_OR_STRING: st.integers(-(2**31), 2**31 - 1) | st.text(max_size=3),
    Scalar.RAW: st.dictionaries(st.text(max_size=2), st.none() | st.integers(0, 9), max_size=2),
    Scalar.STRINGS: st.lists(st.text(max_size=2), max_size=2),
}


@st.composite
def messages(draw: st.DrawFn, type_: Type) -> dict[str, Any]:
    """An object of the type in the decoder's form. What Go always sends and JSON always shows is always there."""
    names = sorted(name for name, field in type_.by_name.items() if field.number)
    chosen = draw(st.sets(st.sampled_from(names), max_size=3)) if names else set()
    obj: dict[str, Any] = {}
    for name in names:
        field = type_.by_name[name]
        is_plain = field.shape is Shape.ONE and not field.pointer
        if name in chosen:
            item = SCALARS[field.value] if isinstance(field.value, Scalar) else messages(field.value)
            keys = st.text(max_size=2)
            whole = {
                Shape.ONE: item,
                Shape.LIST: st.lists(item, min_size=1, max_size=2),
                Shape.MAP: st.dictionaries(keys, item, min_size=1, max_size=2),
            }
            value = draw(whole[field.shape])
        elif not is_plain:
            continue
        elif isinstance(field.value, Scalar):
            value = ZEROES[field.value]
        else:
            value = draw(messages(field.value))
        is_hidden = is_plain and field.omit_empty and not value and field.value is not Scalar.RAW
        if value is not None and not is_hidden:
            obj[name] = value
    return obj


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    api_version, kind = draw(st.sampled_from(KINDS))
    body = draw(messages(type_of(api_version, kind)))
    return {"apiVersion": api_version, "kind": kind} | body


@settings(max_examples=300)
@given(obj=objects())
def test_what_was_encoded_is_decoded(obj: dict[str, Any]) -> None:
    decoded = decode_envelope(envelope(obj))
    assert decoded == obj
    assert unknown_fields(obj["apiVersion"], obj["kind"], decoded) == []
    assert list(wrong_types(obj["apiVersion"], obj["kind"], decoded)) == []


@given(kind=st.sampled_from(KINDS), raw=st.binary(max_size=40))
def test_random_bytes_are_decoded_or_refused(kind: tuple[str, str], raw: bytes) -> None:
    for body in (raw, MAGIC + raw, sealed(*kind, raw)):
        decoded_or_refused(body)


@given(body=st.sampled_from([b64decode(row.values[0]) for row in WRITTEN_BY_GO]), data=st.data())
def test_damaged_bodies_are_decoded_or_refused(body: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(body) - 1))
    byte = data.draw(st.integers(0, 255))
    decoded_or_refused(body[:place])
    decoded_or_refused(body[:place] + bytes([byte]) + body[place + 1 :])


def decoded_or_refused(body: bytes) -> None:
    """Any exception but MalformedProtobuf fails the test; what is decoded has only fields of its kind."""
    try:
        decoded = decode_envelope(body)
    except MalformedProtobuf:
        return
    assert unknown_fields(decoded["apiVersion"], decoded["kind"], decoded) == []
