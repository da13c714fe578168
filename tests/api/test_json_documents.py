"""JSON documents with bounds on depth and values."""

import pytest

from mooring.api.documents import MAX_DEPTH, MalformedJson, TooManyValues, decode_json


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        pytest.param(b"[1,2,3]", 3, id="items"),
        pytest.param(b'{"a":1,"b":{"c":[]}}', 3, id="members"),
        pytest.param(b'{"a":"[,{,","b\\",,":","}', 2, id="what stands in texts does not count"),
    ],
)
def test_values_are_counted(raw: bytes, limit: int) -> None:
    assert decode_json(raw, max_values=limit) == decode_json(raw)
    with pytest.raises(TooManyValues, match=f"more than {limit - 1} values"):
        decode_json(raw, max_values=limit - 1)


@pytest.mark.parametrize("unit", [b"[", b'{"a":'], ids=["lists", "objects"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 400, 100_000])
def test_what_nests_too_deep_is_refused(unit: bytes, depth: int) -> None:
    closing = b"]" if unit == b"[" else b"}"
    with pytest.raises(MalformedJson):
        decode_json(unit * depth + b"0" + closing * depth)


def test_depth_is_counted_as_it_is() -> None:
    assert decode_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    assert decode_json(b"[" + b"[]," * 1000 + b"[]]") == [[]] * 1001


@pytest.mark.parametrize("raw", [b"", b"{", b'"\xff"', b"nul", b"[" + b"1," * 500])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedJson):
        decode_json(raw, max_values=1000)
