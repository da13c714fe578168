"""The two forms of an event, and the moment that the new form always has."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.kinds import POD, STORED, Kind
from mooring.server.encoding import (
    all_with_resource_version,
    decoded,
    opening,
    stored_form,
    to_events_v1,
    to_stored_event,
    with_resource_version,
    without_resource_version,
)
from mooring.store.contract import Record, Revision


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        pytest.param({"firstTimestamp": "2026-01-02T03:04:05Z"}, "2026-01-02T03:04:05.000000Z", id="first seen"),
        pytest.param({"lastTimestamp": "2026-01-02T03:04:06Z"}, "2026-01-02T03:04:06.000000Z", id="last seen"),
        pytest.param(
            {"eventTime": "2026-01-02T03:04:07.000000Z", "lastTimestamp": "2026-01-02T03:04:06Z"},
            "2026-01-02T03:04:07.000000Z",
            id="its own",
        ),
        pytest.param({}, None, id="none at all"),
        pytest.param({"firstTimestamp": "yesterday"}, None, id="none that can be read"),
    ],
)
def test_the_new_form_says_when_and_the_kept_one_is_as_it_was(event: dict[str, Any], shown: str | None) -> None:
    old = {"apiVersion": "v1", "message": "hello", **event}
    new = to_events_v1(old)
    assert new.get("eventTime") == shown
    assert to_stored_event(new) == old


texts = st.text(max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
objects = st.fixed_dictionaries(
    {"metadata": st.dictionaries(texts, values, max_size=4)}, optional={"spec": values, "kind": texts, "status": values}
)


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.kind)
def test_resource_version_has_fixed_offset(kind: Kind) -> None:
    value = stored_form(kind, {"spec": {}, "metadata": {"name": "a", "resourceVersion": "7"}})
    assert value.startswith(opening(kind) + b'"')


def test_object_has_resource_version() -> None:
    value = stored_form(POD, {"spec": {"nodeName": "n"}, "metadata": {"name": "a"}})
    assert with_resource_version(POD, value, 42) == (
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"42","name":"a"},"spec":{"nodeName":"n"}}'
    )


def test_an_object_that_was_not_stored_has_no_version() -> None:
    body = msgspec.json.decode(without_resource_version(POD, {"metadata": {"name": "a", "resourceVersion": "7"}}))
    assert body == {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}


@settings(max_examples=60)
@given(objects, st.integers(1, 2**63))
def test_only_resource_version_is_inserted(obj: dict, revision: int) -> None:
    value = stored_form(POD, obj)
    expected = obj | {"kind": "Pod", "apiVersion": "v1"}
    expected["metadata"] = expected["metadata"] | {"resourceVersion": str(revision)}
    assert msgspec.json.decode(with_resource_version(POD, value, revision)) == expected
    assert decoded(POD, value, revision) == expected


def test_list_items_have_resource_versions() -> None:
    names = {7: "a", 10: "b", 1234567890: "c"}
    records = [
        Record("", stored_form(POD, {"metadata": {"name": name}}), Revision(revision), Revision(1))
        for revision, name in names.items()
    ]
    assert all_with_resource_version(POD, records) == tuple(
        with_resource_version(POD, r.value, r.revision) for r in records
    )
