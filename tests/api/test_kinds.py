"""The kinds table and its views: derived names, and what real servers send."""

import msgspec
import pytest

from mooring.api.kinds import BY_KIND, CLAIM, CSI_NODE, KINDS, NODE, POD, STATEFUL_SET, STORED, VOLUME, Kind
from mooring.api.views.meta import ApiObject


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(POD.path(namespace="shop", name="db-0"), "/api/v1/namespaces/shop/pods/db-0", id="a pod"),
        pytest.param(POD.path(), "/api/v1/pods", id="pods of all namespaces"),
        pytest.param(VOLUME.path(name="v"), "/api/v1/persistentvolumes/v", id="a kind without namespaces"),
        pytest.param(
            STATEFUL_SET.path(namespace="shop", name="db", subresource="status"),
            "/apis/apps/v1/namespaces/shop/statefulsets/db/status",
            id="a subresource of a named group",
        ),
    ],
)
def test_paths_follow_from_the_row(path: str, expected: str) -> None:
    assert path == expected


def test_store_keys_are_unique_and_below_their_prefix() -> None:
    seen = set()
    for kind in STORED:
        for namespace, name in (("a", "b"), ("b", "a"), ("a", "c")):
            key = kind.store_key(namespace, name)
            assert key.startswith(kind.store_prefix())
            seen.add(key)
    namespaced = sum(kind.namespaced for kind in STORED)
    # Without namespaces, (a, b), (b, a) and (a, c) are three names of which none repeats.
    assert len(seen) == 3 * namespaced + 3 * (len(STORED) - namespaced)


def test_rows_are_found_by_what_bodies_say() -> None:
    assert all(BY_KIND[kind.api_version, kind.kind] is kind for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_views_decode_empty_objects_and_unknown_fields(kind: Kind[ApiObject]) -> None:
    seen = kind.decode(b'{"metadata":{"name":"x","novelty":[1]},"spec":{"novelty":{}},"status":{"novelty":null}}')
    assert seen.name == "x"
    assert kind.decode(b"{}") == kind.view()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_views_hold_nothing_that_could_form_a_cycle(kind: Kind[ApiObject]) -> None:
    """They are hidden from the garbage collector, so a cycle through one would never be freed."""
    assert kind.view.__struct_config__.gc is False
    assert kind.view.__struct_config__.frozen is True


def test_a_bookmark_is_read_whatever_fills_the_rest_of_it() -> None:
    raw = b'{"kind":"Pod","metadata":{"resourceVersion":"7"},"spec":{"containers":null},"status":{}}'
    with pytest.raises(msgspec.ValidationError):
        POD.decode(raw)
    assert POD.decode_bookmark(raw).metadata.resource_version == "7"


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        pytest.param(CSI_NODE, b'{"spec":{"drivers":null}}', id="a CSINode without drivers"),
        pytest.param(NODE, b'{"spec":{},"status":{"conditions":[{"lastTransitionTime":null}]}}', id="a new condition"),
        pytest.param(
            STATEFUL_SET,
            b'{"spec":{"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":null}}}}',
            id="a template, which stays as it is",
        ),
        pytest.param(CLAIM, b'{"spec":{"storageClassName":null},"status":{}}', id="a claim without a class"),
    ],
)
def test_nulls_that_servers_send_are_read_as_nothing(kind: Kind[ApiObject], raw: bytes) -> None:
    kind.decode(raw)


def test_names_with_unusual_capitals_are_read() -> None:
    assert NODE.decode(b'{"spec":{"providerID":"mooring://n"}}').spec.provider_id == "mooring://n"
    [driver] = CSI_NODE.decode(b'{"spec":{"drivers":[{"nodeID":"n"}]}}').spec.drivers or ()
    assert driver.node_id == "n"
