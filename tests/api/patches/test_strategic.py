"""Strategic merge patch: keyed lists, directives, order and errors."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.documents import MAX_DEPTH
from mooring.api.patches.contract import PatchError
from mooring.api.patches.strategic import apply_strategic
from mooring.api.schema.types import UnknownKind

Body = dict[str, Any]


def named(*names: str, **members: object) -> list[Body]:
    return [{"name": name, **members} for name in names]


def spec_of_pod(before: Body, patch: Body) -> Body:
    """The patched spec of a pod with the spec `before`."""
    patched: Body = apply_strategic({"spec": before}, {"spec": patch}, "v1", "Pod")
    return patched.get("spec", {})


@pytest.mark.parametrize(
    ("before", "patch", "want"),
    [
        pytest.param({"hostname": "a"}, {"hostname": "b"}, {"hostname": "b"}, id="a scalar is replaced"),
        pytest.param(
            {"hostname": "a"}, {"subdomain": "b"}, {"hostname": "a", "subdomain": "b"}, id="a scalar is added"
        ),
        pytest.param({"hostname": "a", "subdomain": "b"}, {"hostname": None}, {"subdomain": "b"}, id="null removes"),
        pytest.param({"subdomain": "b"}, {"hostname": None}, {"subdomain": "b"}, id="null of an absent field"),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "2"}},
            {"nodeSelector": {"b": None, "c": "3"}},
            {"nodeSelector": {"a": "1", "c": "3"}},
            id="maps are merged",
        ),
        pytest.param({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": None}}, {}, id="an emptied map is left out"),
        pytest.param(
            {"securityContext": {"fsGroup": 1}},
            {"securityContext": {"fsGroup": None}},
            {"securityContext": {}},
            id="an emptied struct behind a pointer stays",
        ),
        pytest.param(
            {},
            {"securityContext": {"fsGroup": None, "runAsUser": 1}},
            {"securityContext": {"runAsUser": 1}},
            id="nulls inside a new map are dropped",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="a list without a key is replaced",
        ),
        pytest.param(
            {},
            {"securityContext": {"$patch": "replace", "runAsUser": 1}},
            {"securityContext": {"runAsUser": 1}},
            id="a map replaces nothing",
        ),
        pytest.param({}, {"securityContext": {"$patch": "delete"}}, {}, id="nothing is deleted"),
        pytest.param({"securityContext": "odd"}, {"securityContext": {}}, {"securityContext": {}}, id="type changes"),
        pytest.param({"x": {"l": [1], "m": 1}}, {"x": {"l": [2]}}, {"x": {"l": [2], "m": 1}}, id="unknown field"),
    ],
)
def test_maps_and_scalars(before: Body, patch: Body, want: Body) -> None:
    assert spec_of_pod(before, patch) == want


@pytest.mark.parametrize(
    ("before", "patch", "want"),
    [
        pytest.param(
            [{"name": "a", "image": "1", "args": ["x"]}, *named("b")],
            [{"name": "a", "image": "2"}],
            [{"name": "a", "image": "2", "args": ["x"]}, *named("b")],
            id="an item is merged in its place",
        ),
        pytest.param(named("a", "b"), named("c"), named("c", "a", "b"), id="a new item comes first"),
        pytest.param(named("a", "b", "c"), named("c", "a"), named("b", "c", "a"), id="the patch orders its items"),
        pytest.param(
            named("a"),
            [{"name": "b", "image": None, "args": []}],
            [{"name": "b", "args": []}, *named("a")],
            id="nulls in a new item are dropped",
        ),
        pytest.param(
            named("a", "b", "c"), [{"$patch": "delete", "name": "b"}], named("a", "c"), id="an item is deleted"
        ),
        pytest.param(named("a"), [{"$patch": "delete", "name": "z"}], named("a"), id="an absent item is deleted"),
        pytest.param(
            named("a", "b"), [{"$patch": "replace"}, *named("c", "d")], named("c", "d"), id="the list is replaced"
        ),
        pytest.param(named("a"), named("b", "b", image="1"), [*named("b", image="1"), *named("a")], id="an item twice"),
        pytest.param(
            [{"name": "a", "env": named("X", "Y")}],
            [{"name": "a", "env": [{"name": "Y", "value": "1"}, {"$patch": "delete", "name": "X"}]}],
            [{"name": "a", "env": [{"name": "Y", "value": "1"}]}],
            id="lists inside items",
        ),
        pytest.param(
            [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
            [{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}],
            [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]}],
            id="a key that is a number",
        ),
        pytest.param(
            [{"name": "a", "resources": {"limits": {"cpu": "1"}}}],
            [{"name": "a", "resources": {"$patch": "replace", "requests": {"cpu": "2"}}}],
            [{"name": "a", "resources": {"requests": {"cpu": "2"}}}],
            id="a map is replaced",
        ),
        pytest.param(
            [{"name": "a", "resources": {"limits": {"cpu": "1"}}}],
            [{"name": "a", "resources": {"$patch": "delete"}}],
            [{"name": "a", "resources": {}}],
            id="a map is emptied",
        ),
        pytest.param(
            named("a"),
            [{"name": "a", "resources": {"$patch": "delete"}, "env": [{"$patch": "delete", "name": "X"}]}],
            named("a"),
            id="directives for what is not there are dropped",
        ),
    ],
)
def test_keyed_lists(before: list[Body], patch: list[Body], want: list[Body]) -> None:
    assert spec_of_pod({"containers": before}, {"containers": patch}) == {"containers": want}


@pytest.mark.parametrize(
    ("before", "patch", "order", "want"),
    [
        pytest.param("abc", None, "cba", "cba", id="order alone"),
        pytest.param("abc", None, "ca", "bca", id="items not named keep their place"),
        pytest.param("ab", "c", "abc", "abc", id="a new item at the end"),
        pytest.param("ab", "c", "acb", "acb", id="a new item in the middle"),
        pytest.param("axb", "c", "bca", "xbca", id="unlisted item stays before its successor"),
        pytest.param("abx", "c", "bca", "bcax", id="unlisted item stays last"),
        pytest.param("", "ba", "ba", "ba", id="a new list"),
        pytest.param("ab", None, "azb", "ab", id="names of nothing are passed over"),
        pytest.param("ab", "", "ba", "ba", id="an empty patch list"),
        pytest.param("ab", None, "", "ab", id="an empty order"),
    ],
)
def test_set_element_order(before: str, patch: str | None, order: str, want: str) -> None:
    original: Body = {"containers": named(*before)} if before else {}
    change: Body = {"$setElementOrder/containers": named(*order)}
    if patch is not None:
        change["containers"] = named(*patch)
    assert spec_of_pod(original, change) == {"containers": named(*want)}


def test_order_and_deletion_together() -> None:
    before = {"containers": named("a", "b", "c")}
    patch = {
        "$setElementOrder/containers": named("d", "c", "a"),
        "containers": [*named("d"), {"$patch": "delete", "name": "b"}],
    }
    assert spec_of_pod(before, patch) == {"containers": named("d", "c", "a")}


@pytest.mark.parametrize(
    ("before", "patch", "want"),
    [
        pytest.param(["a", "b"], {"finalizers": ["c", "a"]}, ["c", "a", "b"], id="values are united"),
        pytest.param(
            ["a", "b", "c"], {"$deleteFromPrimitiveList/finalizers": ["b", "z"]}, ["a", "c"], id="values are deleted"
        ),
        pytest.param(
            ["a", "b"],
            {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]},
            ["b"],
            id="what a provisioner sends",
        ),
        pytest.param(
            ["a", "b"],
            {
                "finalizers": ["c"],
                "$setElementOrder/finalizers": ["b", "c"],
                "$deleteFromPrimitiveList/finalizers": ["a"],
            },
            ["b", "c"],
            id="all three together",
        ),
        pytest.param(["a"], {"$deleteFromPrimitiveList/finalizers": ["a"]}, None, id="an emptied list is left out"),
        pytest.param(None, {"$deleteFromPrimitiveList/finalizers": ["a"]}, None, id="no list to delete from"),
        pytest.param(None, {"finalizers": ["b", "a"]}, ["b", "a"], id="a new list"),
    ],
)
def test_lists_of_scalars(before: list[str] | None, patch: Body, want: list[str] | None) -> None:
    original: Body = {"metadata": {"name": "x"} | ({"finalizers": before} if before else {})}
    patched = apply_strategic(original, {"metadata": patch}, "v1", "PersistentVolume")
    assert patched == {"metadata": {"name": "x"} | ({"finalizers": want} if want else {})}


def test_retain_keys_swaps_one_volume_source_for_another() -> None:
    before = {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}
    patch = {
        "volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}, "emptyDir": None}]
    }
    assert spec_of_pod(before, patch) == {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}


def test_retain_keys_of_a_map() -> None:
    before = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert apply_strategic(before, patch, "apps/v1", "Deployment") == {"spec": {"strategy": {"type": "Recreate"}}}


def test_a_map_with_the_replace_strategy() -> None:
    before = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchExpressions": [{"key": "b", "operator": "Exists"}]}}}
    assert apply_strategic(before, patch, "policy/v1", "PodDisruptionBudget") == patch


def test_the_condition_patch_of_a_scheduler() -> None:
    before = {"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}}
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "PodScheduled"}],
            "conditions": [scheduled],
        }
    }
    patched = apply_strategic(before, patch, "v1", "Pod")
    assert patched == {"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}, scheduled]}}


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        pytest.param({"containers": [{"image": "i"}]}, "does not contain declared merge key: name", id="no merge key"),
        pytest.param({"containers": [{"$patch": "delete"}]}, "declared merge key: name", id="delete without key"),
        pytest.param({"containers": ["a"]}, "expected a map", id="text in a list of maps"),
        pytest.param({"containers": [{"name": ["a"]}]}, "expected a scalar", id="a list as key"),
        pytest.param({"containers": [{"$patch": "shred", "name": "a"}]}, "unknown patch type", id="unknown verb, item"),
        pytest.param({"$patch": "shred"}, "unknown patch type", id="unknown verb, map"),
        pytest.param({"affinity": {"$patch": "shred"}}, "unknown patch type", id="unknown verb, new map"),
        pytest.param({"$retainKeys": "name"}, "retainKeys", id="retained keys not a list"),
        pytest.param({"$retainKeys": ["hostname"], "subdomain": "x"}, "retainKeys", id="a change not retained"),
        pytest.param({"$setElementOrder/containers": "a"}, "setElementOrder", id="order not a list"),
        pytest.param({"$setElementOrder/containers": [{}]}, "declared merge key", id="order without a key"),
        pytest.param(
            {"$setElementOrder/containers": named("b"), "containers": named("a")},
            "doesn't match",
            id="order lacks items",
        ),
        pytest.param(
            {"$setElementOrder/containers": named("a", "b"), "containers": named("b", "a")},
            "doesn't match",
            id="order contradicts the patch",
        ),
        pytest.param(
            {"$setElementOrder/containers": [], "containers": None}, "setElementOrder", id="order of a removed list"
        ),
        pytest.param({"$setElementOrder/tolerations": []}, "setElementOrder", id="order of a list without a key"),
        pytest.param({"$deleteFromPrimitiveList/containers": ["a"]}, "expected a scalar", id="values of a keyed list"),
        pytest.param({"$deleteFromPrimitiveList/containers": None}, "not a list", id="values not a list"),
        pytest.param({"$deleteFromPrimitiveList/hostname": ["a"]}, "primitive list", id="values of a scalar"),
    ],
)
def test_refused(patch: Body, why: str) -> None:
    before = {"hostname": "h", "containers": named("a", "b"), "tolerations": [{"key": "k"}]}
    with pytest.raises(PatchError, match=why):
        spec_of_pod(before, patch)


def test_a_kind_without_a_row_is_refused() -> None:
    with pytest.raises(UnknownKind):
        apply_strategic({}, {}, "example.com/v1", "Widget")


def test_depth_is_bounded() -> None:
    deep: Body = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"x": deep}
    with pytest.raises(PatchError, match="nested more than"):
        apply_strategic({}, deep, "v1", "Pod")


NAMES = st.lists(st.sampled_from("abcd"), unique=True)
CONTAINERS = NAMES.flatmap(
    lambda names: st.tuples(
        *(st.fixed_dictionaries({"name": st.just(name)}, optional={"image": st.sampled_from("12")}) for name in names)
    )
).map(list)


@given(before=CONTAINERS, patch=CONTAINERS, order=st.permutations("abcd"))
def test_the_order_asked_for_is_the_order_had(before: list[Body], patch: list[Body], order: list[str]) -> None:
    patch = sorted(patch, key=lambda item: order.index(item["name"]))
    original = {"spec": {"containers": before}}
    change = {"spec": {"containers": patch, "$setElementOrder/containers": named(*order)}}
    untouched = copy.deepcopy((original, change))
    patched: Any = apply_strategic(original, change, "v1", "Pod")
    assert (original, change) == untouched, "the inputs are left alone"
    containers = patched["spec"]["containers"]
    names = {item["name"] for item in [*before, *patch]}
    assert [item["name"] for item in containers] == [name for name in order if name in names]
    images = {item["name"]: item["image"] for item in [*before, *patch] if "image" in item}
    assert {item["name"]: item["image"] for item in containers if "image" in item} == images


@given(before=CONTAINERS, patch=CONTAINERS)
def test_patch_is_idempotent_and_shares_nothing(before: list[Body], patch: list[Body]) -> None:
    original, change = {"spec": {"containers": before}}, {"spec": {"containers": patch}}
    once = apply_strategic(original, change, "v1", "Pod")
    assert apply_strategic(once, change, "v1", "Pod") == once
    inputs = {id(container) for container in _containers_in([original, change])}
    assert not any(id(container) in inputs for container in _containers_in(once))


def _containers_in(value: Any) -> list[Any]:  # noqa: ANN401
    if not isinstance(value, dict | list):
        return []
    inside = value.values() if isinstance(value, dict) else value
    return [value, *(found for item in inside for found in _containers_in(item))]
