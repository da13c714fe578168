"""The walk that normalises notices exactly what the walk that explains would complain of."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.kinds import STORED, Kind
from mooring.api.quantity import QuantityError
from mooring.api.schema.checks import wrong_types
from mooring.api.schema.types import type_of
from mooring.server.decoding import FieldTypeMismatch, canonical_form, fill_zero_values
from support.builders import claim_body, pod_body, volume_body

#: Between them they have every scalar and every shape.
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("v1", "Pod"): pod_body(name="a", node="n", gates=("g",)),
    ("v1", "PersistentVolumeClaim"): claim_body(name="a"),
    ("v1", "PersistentVolume"): volume_body(name="a"),
    ("v1", "Secret"): {"metadata": {"labels": {"a": "b"}}, "data": {"k": "eA=="}, "immutable": True},
    ("coordination.k8s.io/v1", "Lease"): {
        "spec": {"renewTime": "2026-01-02T03:04:05.000000Z", "leaseTransitions": 3, "holderIdentity": "me"}
    },
    ("policy/v1", "PodDisruptionBudget"): {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
    ("apps/v1", "ControllerRevision"): {"data": {"any": ["thing", None]}, "revision": 1},
    ("authentication.k8s.io/v1", "TokenReview"): {"status": {"user": {"extra": {"k": ["v"]}}}},
}
SCALARS = [None, True, 0, -1, 2**31, 2**63, 1.5, "", "x", "eA==", "1Gi", "2026-01-02T03:04:05Z"]
LISTS = [[], [None], ["x"], [1], [{}], [{"name": 1}], [["x"]]]
OBJECTS = [{}, {"k": "v"}, {"k": 1}, {"k": None}]
ODD = st.sampled_from([*SCALARS, *LISTS, *OBJECTS]).map(copy.deepcopy)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place below a value."""
    if isinstance(value, dict):
        return [place for key, item in value.items() for place in [(*path, key), *places(item, (*path, key))]]
    if isinstance(value, list):
        return [place for index, item in enumerate(value) for place in [(*path, index), *places(item, (*path, index))]]
    return []


@settings(max_examples=400)
@given(st.data())
def test_both_walks_agree(data: st.DataObject) -> None:
    api_version, kind = data.draw(st.sampled_from(sorted(BODIES)))
    body = msgspec.json.decode(msgspec.json.encode(BODIES[api_version, kind]))
    for _ in range(data.draw(st.integers(1, 2))):
        *above, last = data.draw(st.sampled_from(places(body)))
        place: Any = body
        for step in above:
            place = place[step]
        place[last] = data.draw(ODD)
    complaints = list(wrong_types(api_version, kind, body))
    try:
        canonical_form(type_of(api_version, kind), body)
    except FieldTypeMismatch:
        assert complaints
    except QuantityError:
        pass  # of a string that is no amount, which is no question of types
    else:
        assert not complaints


@pytest.mark.parametrize(("api_version", "kind"), sorted(BODIES), ids=str)
def test_what_is_right_is_taken(api_version: str, kind: str) -> None:
    obj, has_strays = canonical_form(type_of(api_version, kind), BODIES[api_version, kind])
    assert not has_strays
    assert obj.keys() >= BODIES[api_version, kind].keys() - {"apiVersion", "kind"}


def test_zero_values_that_go_encodes_are_added_to_whatever_is_there() -> None:
    node: dict[str, Any] = {"status": {"nodeInfo": {"osImage": "x"}, "conditions": [{"type": "Ready"}]}}
    fill_zero_values(type_of("v1", "Node"), node)
    assert node["status"]["nodeInfo"] == {
        "osImage": "x",
        **dict.fromkeys(("machineID", "systemUUID", "bootID", "kernelVersion", "containerRuntimeVersion"), ""),
        **dict.fromkeys(("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"), ""),
    }
    assert node["status"]["conditions"] == [{"type": "Ready", "status": ""}]


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.kind)
def test_nothing_is_added_to_an_object_that_has_nothing_inside(kind: Kind[Any]) -> None:
    """What is not there stays away: only the fields of the object itself can be missing."""
    obj: dict[str, Any] = {}
    type_ = type_of(kind.api_version, kind.kind)
    fill_zero_values(type_, obj)
    assert all(not type_.by_name[name].omit_empty for name in obj)
    before = copy.deepcopy(obj)
    fill_zero_values(type_, obj)
    assert obj == before
