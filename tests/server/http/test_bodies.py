"""Request bodies: media types, malformed input, patches."""

import pytest

from mooring.api.errors import ApiError, BadRequest, UnsupportedMediaType
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch, StrategicPatch
from mooring.server.http.bodies import decode_object, decode_patch

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        pytest.param(b'{"a":{"b":1}}', "application/json", id="JSON"),
        pytest.param(b'{"a":{"b":1}}', "", id="no media type is JSON"),
        pytest.param(b'{"a":{"b":1}}', "application/json; charset=utf-8", id="with a charset"),
        pytest.param(b"a:\n  b: 1\n", "application/yaml", id="YAML"),
    ],
)
def test_objects(raw: bytes, content_type: str) -> None:
    assert decode_object(raw, content_type) == {"a": {"b": 1}}


def test_protobuf_objects() -> None:
    meta = b"\x0a\x01\x61"  # ObjectMeta{name: "a"}
    config = b"\x0a" + bytes([len(meta)]) + meta
    type_meta = b"\x0a\x02v1\x12\x09ConfigMap"
    envelope = b"\x0a" + bytes([len(type_meta)]) + type_meta + b"\x12" + bytes([len(config)]) + config
    decoded = decode_object(b"k8s\x00" + envelope, PROTOBUF)
    assert (decoded["kind"], decoded["metadata"]["name"]) == ("ConfigMap", "a")


@pytest.mark.parametrize(
    ("raw", "content_type", "error", "want"),
    [
        pytest.param(b"", "application/json", BadRequest, "no body", id="empty"),
        pytest.param(b"{", "application/json", BadRequest, "is not JSON", id="cut off"),
        pytest.param(b'{"a":"\xff"}', "application/json", BadRequest, "is not JSON", id="not UTF-8"),
        pytest.param(b"[" * 10_000, "application/json", BadRequest, "is not JSON", id="nested beyond reason"),
        pytest.param(b"[]", "application/json", BadRequest, "must be an object", id="a list"),
        pytest.param(b"a: b: c", "application/yaml", BadRequest, "is not YAML", id="broken YAML"),
        pytest.param(b"- a", "application/yaml", BadRequest, "must be an object", id="a YAML list"),
        pytest.param(b"xyz", PROTOBUF, BadRequest, "is not Kubernetes protobuf", id="not protobuf"),
        pytest.param(b"{}", "text/plain", UnsupportedMediaType, "unknown format", id="text"),
        pytest.param(b"{}", "application/octet-stream", UnsupportedMediaType, "unknown format", id="octets"),
        pytest.param(
            b"{}", "application/merge-patch+json", UnsupportedMediaType, "unknown format", id="patch as an object"
        ),
    ],
)
def test_refused_objects(raw: bytes, content_type: str, error: type[ApiError], want: str) -> None:
    with pytest.raises(error, match=want):
        decode_object(raw, content_type)


@pytest.mark.parametrize(
    ("raw", "content_type", "want"),
    [
        pytest.param(
            b'[{"op":"remove","path":"/a"}]',
            "application/json-patch+json",
            JsonPatch([{"op": "remove", "path": "/a"}]),
            id="JSON patch",
        ),
        pytest.param(b'{"a":null}', "application/merge-patch+json", MergePatch({"a": None}), id="merge patch"),
        pytest.param(
            b'{"a":1}',
            "application/strategic-merge-patch+json; charset=utf-8",
            StrategicPatch({"a": 1}),
            id="strategic merge patch",
        ),
    ],
)
def test_patches(raw: bytes, content_type: str, want: Patch) -> None:
    assert decode_patch(raw, content_type) == want


@pytest.mark.parametrize(
    ("raw", "content_type", "error", "want"),
    [
        pytest.param(b"{}", "application/json-patch+json", BadRequest, "list of operations", id="object of operations"),
        pytest.param(b"[1]", "application/json-patch+json", BadRequest, "list of operations", id="odd operation"),
        pytest.param(b"[]", "application/merge-patch+json", BadRequest, "must be an object", id="list to merge"),
        pytest.param(b"", "application/merge-patch+json", BadRequest, "no body", id="empty"),
        pytest.param(b"{}", "application/json", UnsupportedMediaType, "merge-patch", id="plain JSON"),
        pytest.param(b"{}", "", UnsupportedMediaType, "merge-patch", id="no media type"),
    ],
)
def test_refused_patches(raw: bytes, content_type: str, error: type[ApiError], want: str) -> None:
    with pytest.raises(error, match=want):
        decode_patch(raw, content_type)
