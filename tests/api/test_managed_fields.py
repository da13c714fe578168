"""Field owners after applies and updates, on a Deployment, which has every kind of ownership."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.managed_fields import (
    APPLY,
    MAX_ELEMENTS,
    MAX_PATHS,
    UPDATE,
    ApplyResult,
    DuplicateItem,
    MalformedPaths,
    Manager,
    Owners,
    UnkeyedItem,
    apply_fields,
    claimed_owners,
    entries_of,
    owners_in,
    shown,
    update_fields,
)
from mooring.api.schema.types import Type, type_of

DEPLOYMENT = type_of("apps/v1", "Deployment")
CONFIG_MAP = type_of("v1", "ConfigMap")
NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:04:06Z"


def applier(name: str) -> Manager:
    return Manager(name, APPLY, "v1")


def updater(name: str) -> Manager:
    return Manager(name, UPDATE, "v1")


def config(**data: str) -> dict[str, Any]:
    """In normal form, which knows no empty `data`."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}} | ({"data": data} if data else {})


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(items)}}}}


class Object:
    """An object and its owners, through a series of writes."""

    def __init__(self, live: dict[str, Any] | None = None, type_: Type = CONFIG_MAP) -> None:
        self.live: dict[str, Any] = live or {}
        self.owners: Owners = {}
        self._type = type_

    def apply(self, name: str, applied: dict[str, Any], *, force: bool = False, now: str = NOW) -> ApplyResult:
        outcome = apply_fields(self.live, applied, self._type, self.owners, applier(name), force=force, now=now)
        if not outcome.conflicts:
            self.live, self.owners = outcome.obj, outcome.owners
        return outcome

    def update(self, name: str, after: dict[str, Any]) -> None:
        self.owners = update_fields(self.live, after, self._type, self.owners, updater(name), now=LATER)
        self.live = after

    def owned(self, manager: Manager) -> set[str]:
        return {shown(path) for path in self.owners[manager].paths} if manager in self.owners else set()


def test_an_applier_owns_what_it_states() -> None:
    obj = Object()
    obj.apply("m1", config(a="1", b="2"))
    assert obj.live == config(a="1", b="2")
    assert obj.owned(applier("m1")) == {".data.a", ".data.b"}


def test_field_no_longer_applied_is_removed() -> None:
    obj = Object()
    obj.apply("m1", config(a="1", b="2"))
    obj.apply("m1", config(a="1"))
    assert obj.live["data"] == {"a": "1"}


def test_container_emptied_by_its_applier_is_removed() -> None:
    obj = Object()
    obj.apply("m1", config(a="1"))
    obj.apply("m1", {"metadata": {"name": "a"}})
    assert "data" not in obj.live


def test_shared_field_stays_until_both_appliers_drop_it() -> None:
    obj = Object()
    obj.apply("m1", config(a="1"))
    assert obj.apply("m2", config(a="1")).conflicts == ()
    obj.apply("m1", {})
    assert obj.live["data"] == {"a": "1"}
    obj.apply("m2", {})
    assert "data" not in obj.live


def test_change_of_another_managers_field_conflicts() -> None:
    obj = Object()
    obj.apply("m1", config(a="1", b="2"))
    refused = obj.apply("m2", config(a="9", c="3"))
    assert [(each.owner, each.field) for each in refused.conflicts] == [('"m1"', ".data.a")]
    assert obj.live["data"] == {"a": "1", "b": "2"}


def test_force_takes_what_another_owns() -> None:
    obj = Object()
    obj.apply("m1", config(a="1", b="2"))
    obj.apply("m2", config(a="9"), force=True)
    assert obj.live["data"] == {"a": "9", "b": "2"}
    assert (obj.owned(applier("m1")), obj.owned(applier("m2"))) == ({".data.b"}, {".data.a"})


def test_an_update_takes_what_it_changes_and_nothing_else() -> None:
    obj = Object()
    obj.apply("m1", config(a="1", b="2"))
    obj.update("u1", config(a="9", b="2", z="1"))
    assert obj.owned(applier("m1")) == {".data.b"}
    assert obj.owned(updater("u1")) == {".data.a", ".data.z"}
    refused = obj.apply("m1", config(a="1", b="2"))
    assert [(each.owner, each.field) for each in refused.conflicts] == [('"u1" using v1', ".data.a")]


def test_removed_field_has_no_owner() -> None:
    obj = Object()
    obj.apply("m1", config(a="1", b="2"))
    obj.update("u1", config(a="1"))
    assert obj.owned(applier("m1")) == {".data.a"}
    assert updater("u1") not in obj.owners


def test_fields_before_the_first_apply_have_an_owner() -> None:
    obj = Object(config(a="9"))
    refused = obj.apply("m1", config(a="1"))
    assert [each.owner for each in refused.conflicts] == ['"before-first-apply" using v1']


def test_an_apply_that_changes_nothing_changes_no_time() -> None:
    obj = Object()
    obj.apply("m1", config(a="1"))
    before = entries_of(obj.owners)
    obj.apply("m1", config(a="1"), now=LATER)
    assert entries_of(obj.owners) == before


def test_items_of_a_keyed_list_are_owned_one_by_one() -> None:
    obj = Object(type_=DEPLOYMENT)
    obj.apply("m1", containers({"name": "web", "image": "i", "ports": [{"containerPort": 80}]}))
    obj.apply("m2", containers({"name": "log", "image": "j"}, {"name": "web", "env": [{"name": "E", "value": "1"}]}))
    assert obj.live == containers(
        {"name": "log", "image": "j"},
        {"name": "web", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": "1"}]},
    )
    web = '.spec.template.spec.containers[name="web"]'
    assert obj.owned(applier("m1")) == {
        web,
        f"{web}.name",
        f"{web}.image",
        f'{web}.ports[containerPort=80,protocol="TCP"]',
        f'{web}.ports[containerPort=80,protocol="TCP"].containerPort',
    }


def test_item_is_removed_with_its_last_owner() -> None:
    obj = Object(type_=DEPLOYMENT)
    obj.apply("m1", containers({"name": "web", "image": "i"}, {"name": "log", "image": "j"}))
    obj.live["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "Always"  # as defaulting does
    obj.apply("m1", containers({"name": "web", "image": "i"}))
    assert obj.live == containers({"name": "web", "image": "i"})


def test_an_item_that_another_also_states_stays() -> None:
    obj = Object(type_=DEPLOYMENT)
    obj.apply("m1", containers({"name": "web", "image": "i"}))
    obj.apply("m2", containers({"name": "web", "workingDir": "/x"}))
    obj.apply("m1", {"spec": {}})
    assert obj.live == containers({"name": "web", "workingDir": "/x"})


def test_atomic_values_are_owned_whole() -> None:
    obj = Object(type_=DEPLOYMENT)
    obj.apply("m1", {"spec": {"selector": {"matchLabels": {"a": "b"}}}})
    refused = obj.apply("m2", {"spec": {"selector": {"matchLabels": {"c": "d"}}}})
    assert [each.field for each in refused.conflicts] == [".spec.selector"]


def test_members_of_a_set_are_owned_one_by_one() -> None:
    obj = Object()
    obj.apply("m1", {"metadata": {"finalizers": ["a/b"]}})
    obj.apply("m2", {"metadata": {"finalizers": ["c/d"]}})
    assert obj.live["metadata"]["finalizers"] == ["a/b", "c/d"]
    obj.apply("m1", {"metadata": {}})
    assert obj.live["metadata"]["finalizers"] == ["c/d"]


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        pytest.param("abc", "c", "abc", id="an item already there keeps its place"),
        pytest.param("axb", "ba", "bax", id="the applied order wins"),
        pytest.param("xa", "na", "xna", id="items only there stay in front of what followed them"),
        pytest.param("", "ab", "ab", id="all new"),
        pytest.param("ab", "cd", "abcd", id="nothing shared"),
    ],
)
def test_order_of_a_merged_list(live: str, applied: str, expected: str) -> None:
    obj = Object(containers(*({"name": name} for name in live)), DEPLOYMENT)
    obj.apply("m", containers(*({"name": name} for name in applied)), force=True)
    assert [item["name"] for item in obj.live["spec"]["template"]["spec"]["containers"]] == list(expected)


def test_identity_and_server_fields_have_no_owner() -> None:
    obj = Object()
    obj.apply(
        "m1", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}}}
    )
    assert obj.owned(applier("m1")) == {".metadata.labels.x"}


def test_duplicate_and_unkeyed_items_are_rejected() -> None:
    with pytest.raises(DuplicateItem, match=r'\.containers: duplicate entries for key \[name="a"\]'):
        Object(type_=DEPLOYMENT).apply("m", containers({"name": "a"}, {"name": "a"}))
    with pytest.raises(UnkeyedItem, match='omits key field "name"'):
        Object(type_=DEPLOYMENT).apply("m", containers({"image": "a"}))


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([{"manager": "m", "operation": "Guess"}], id="no such operation"),
        pytest.param([{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV2"}], id="no such form"),
        pytest.param([{"manager": "m", "operation": "Apply", "fieldsV1": {"x": {}}}], id="no such element"),
        pytest.param([{"manager": "m", "operation": "Apply", "fieldsV1": {"f:a": 1}}], id="not nested objects"),
    ],
)
def test_invalid_entries_are_rejected(entries: object) -> None:
    with pytest.raises(MalformedPaths):
        owners_in(entries)


KEYS = st.sampled_from("abcd")
STATEMENTS = st.lists(
    st.tuples(st.sampled_from(["m1", "m2", "m3"]), st.dictionaries(KEYS, st.sampled_from("12"))), max_size=8
)


@given(STATEMENTS)
def test_object_is_the_union_of_applied_fields(statements: list[tuple[str, dict[str, str]]]) -> None:
    obj = Object()
    last: dict[str, dict[str, str]] = {}
    for name, data in statements:
        if obj.apply(name, config(**data)).conflicts:
            others = {key: value for other, stated in last.items() if other != name for key, value in stated.items()}
            assert any(key in others and others[key] != value for key, value in data.items())
        else:
            last[name] = data
    expected = {key: value for stated in last.values() for key, value in stated.items()}
    assert obj.live.get("data", {}) == expected


@given(STATEMENTS)
def test_owners_survive_being_stored(statements: list[tuple[str, dict[str, str]]]) -> None:
    obj = Object()
    for name, data in statements:
        obj.apply(name, config(**data), force=True)
    assert owners_in(entries_of(obj.owners)) == obj.owners


def env(*items: tuple[str, str]) -> dict[str, Any]:
    return containers({"name": "a", "env": [{"name": name, "value": value} for name, value in items]})


def env_of(obj: Object) -> list[tuple[str, str]]:
    [container] = obj.live["spec"]["template"]["spec"]["containers"]
    return [(item["name"], item["value"]) for item in container["env"]]


def test_repeated_key_of_another_writer_is_tolerated() -> None:
    obj = Object(env(("X", "1"), ("X", "2"), ("Y", "3")), type_=DEPLOYMENT)
    assert not obj.apply("m", env(("Z", "4"))).conflicts
    assert env_of(obj) == [("X", "1"), ("X", "2"), ("Y", "3"), ("Z", "4")]
    obj.update("editor", env(("X", "1"), ("X", "5"), ("Y", "3"), ("Y", "3"), ("Z", "4")))
    assert not obj.apply("m", env(("Z", "6"))).conflicts
    assert env_of(obj) == [("X", "1"), ("X", "5"), ("Y", "3"), ("Y", "3"), ("Z", "6")]
    assert '.spec.template.spec.containers[name="a"].env[name="X"]' in obj.owned(updater("editor"))


def test_applying_a_repeated_key_settles_it() -> None:
    obj = Object(env(("W", "0"), ("X", "1"), ("Y", "3"), ("X", "2")), type_=DEPLOYMENT)
    outcome = obj.apply("m", env(("X", "9")))
    assert [conflict.field for conflict in outcome.conflicts] == [
        '.spec.template.spec.containers[name="a"].env[name="X"]'
    ]
    obj.apply("m", env(("X", "9")), force=True)
    assert env_of(obj) == [("W", "0"), ("X", "9"), ("Y", "3")]


def test_a_list_with_an_item_that_has_no_key_is_one_part() -> None:
    live = containers({"name": "a", "env": [{"value": "1"}]})
    obj = Object(live, type_=DEPLOYMENT)
    obj.update("editor", containers({"name": "a", "env": [{"value": "2"}]}))
    obj.apply("m", env(("X", "1")), force=True)
    assert env_of(obj) == [("X", "1")]


def test_number_of_client_paths_is_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(MAX_ELEMENTS + 1):
        deep = {"f:x": deep}
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    with pytest.raises(MalformedPaths, match="nested more than"):
        owners_in([entry | {"fieldsV1": deep}])
    many = [entry | {"fieldsV1": {f"f:{number}": {} for number in range(MAX_PATHS + 1)}}]
    with pytest.raises(MalformedPaths, match="name more than"):
        claimed_owners(many)
    assert len(owners_in(many)) == 1
