import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.kinds import POD, STORED, Kind
from mooring.server.stamping import all_stamped, decoded, opening, stamped, stored_form, unstamped
from mooring.store.contract import Record, Revision

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
def test_every_object_of_a_kind_has_its_hole_at_the_same_place(kind: Kind) -> None:
    value = stored_form(kind, {"spec": {}, "metadata": {"name": "a", "resourceVersion": "7"}})
    assert value.startswith(opening(kind) + b'"')


def test_a_stamped_object_reads_as_clients_expect() -> None:
    value = stored_form(POD, {"spec": {"nodeName": "n"}, "metadata": {"name": "a"}})
    assert stamped(POD, value, 42) == (
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"42","name":"a"},"spec":{"nodeName":"n"}}'
    )


def test_an_object_that_was_not_stored_has_no_version() -> None:
    body = msgspec.json.decode(unstamped(POD, {"metadata": {"name": "a", "resourceVersion": "7"}}))
    assert body == {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}


@settings(max_examples=60)
@given(objects, st.integers(1, 2**63))
def test_stamping_changes_nothing_but_the_version(obj: dict, revision: int) -> None:
    value = stored_form(POD, obj)
    expected = obj | {"kind": "Pod", "apiVersion": "v1"}
    expected["metadata"] = expected["metadata"] | {"resourceVersion": str(revision)}
    assert msgspec.json.decode(stamped(POD, value, revision)) == expected
    assert decoded(POD, value, revision) == expected


def test_a_list_is_stamped_as_its_items_are() -> None:
    names = {7: "a", 10: "b", 1234567890: "c"}
    records = [
        Record("", stored_form(POD, {"metadata": {"name": name}}), Revision(revision), Revision(1))
        for revision, name in names.items()
    ]
    assert all_stamped(POD, records) == tuple(stamped(POD, r.value, r.revision) for r in records)
