"""Keys that occur twice."""

import json

import msgspec
import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.schema.checks import MAX_PATH_CHARACTERS, MAX_UNKNOWN_FIELDS
from mooring.server.contract import Written
from mooring.server.http.handler import duplicate_fields
from support.server.stub_api import RAW, StubApi


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(b'{"a":1,"b":{"a":1}}', [], id="none"),
        pytest.param(b'{"a":1,"a":2}', ["a"], id="at the top"),
        pytest.param(b'{"spec":{"x":1,"y":2,"x":3,"x":4}}', ["spec.x"], id="three times is told once"),
        pytest.param(b'{"l":[{},{"n":1,"n":1}]}', ["l[1].n"], id="in a list"),
        pytest.param(b'{"a" : 1, "a"\n: 2}', ["a"], id="with room before the colon"),
        pytest.param(b'{"a":"x\\u0022:","a":"x"}', ["a"], id="beside an escaped quote"),
        pytest.param(b'{"a":"\\":\\":","b":1}', [], id="quotes and colons inside a text"),
        pytest.param(b'{"\\u0061":1,"a":2}', ["a"], id="spelt in two ways"),
        pytest.param(b'{"a":1,"a":' + b"9" * 5000 + b"}", ["a"], id="beside numbers beyond any type"),
    ],
)
def test_duplicate_field_paths_are_reported(raw: bytes, want: list[str]) -> None:
    assert list(duplicate_fields(raw, msgspec.json.decode(raw.replace(b"9" * 5000, b"9")))) == want


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text('":\\ué', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab":\\', max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, st.sampled_from([None, (",", ":"), (", ", " : ")]), st.booleans())
def test_encoded_json_has_no_duplicates(value: object, separators: tuple[str, str] | None, ascii_only: bool) -> None:
    raw = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
    assert duplicate_fields(raw, msgspec.json.decode(raw)) == ()


@given(st.lists(st.tuples(st.sampled_from(["a", "b", 'c"', "d:"]), st.text('":', max_size=3)), max_size=6))
def test_duplicates_are_found_among_other_fields(pairs: list[tuple[str, str]]) -> None:
    written = ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in pairs)
    raw = f"{{{written}}}".encode()
    keys = [key for key, _ in pairs]
    assert set(duplicate_fields(raw, msgspec.json.decode(raw))) == {key for key in keys if keys.count(key) > 1}


TWICE = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}'
URL = "/api/v1/namespaces/default/configmaps"
JSON_BODY = {"Content-Type": "application/json"}


async def test_duplicate_field_returns_warning(admin: ClientSession, api: StubApi) -> None:
    api.written = Written(RAW, 201, ("another",))
    async with admin.post(URL, data=TWICE, headers=JSON_BODY) as answer:
        assert answer.headers.getall("Warning") == ['299 - "duplicate field \\"data.k\\""', '299 - "another"']
    assert api.calls["create"][0][2]["data"] == {"k": "2"}


async def test_duplicate_field_is_rejected_when_strict(admin: ClientSession, api: StubApi) -> None:
    async with admin.post(f"{URL}?fieldValidation=Strict", data=TWICE, headers=JSON_BODY) as answer:
        told = await answer.json()
    assert (answer.status, told["reason"]) == (400, "BadRequest")
    assert told["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.k"'
    )
    assert not api.calls["create"]


async def test_duplicate_field_is_ignored_on_request(admin: ClientSession) -> None:
    async with admin.put(f"{URL}/a?fieldValidation=Ignore", data=TWICE, headers=JSON_BODY) as answer:
        assert (answer.status, "Warning" in answer.headers) == (200, False)


def test_reported_duplicates_are_bounded() -> None:
    """Each path used to be spelt out for every key: 127 kB of body cost 430 MB."""
    key = "k" * 1000
    raw = (f'{{"{key}":' * 100 + "{" + ",".join(['"a":1,"a":2'] * 500) + "}" + "}" * 100).encode()
    assert [len(path) for path in duplicate_fields(raw, msgspec.json.decode(raw))] == [MAX_PATH_CHARACTERS + 1]
    many = ("{" + ",".join(f'"k{number}":1,"k{number}":2' for number in range(1000)) + "}").encode()
    assert len(duplicate_fields(many, msgspec.json.decode(many))) == MAX_UNKNOWN_FIELDS
