"""The joined rules: every kind once, and what holds for a kind without rules."""

import pytest

from mooring.api import kinds
from mooring.api.errors import Invalid
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.kinds import (
    claims,
    core,
    events,
    passive,
    pod_groups,
    pod_templates,
    pods,
    policy,
    storage,
    workloads,
)
from mooring.server.kinds.registry import RULES, join_rules, require_valid, require_valid_update, rules_of
from mooring.server.kinds.rules import KindRules
from mooring.server.selection import Selection
from support.server.harness import Harness, problems
from support.server.table_rows import row

TABLES = [
    module.RULES
    for module in (claims, core, events, passive, pod_groups, pod_templates, pods, policy, storage, workloads)
]
UNLISTED = Kind("example.com", "Thing", "things", True, ApiObject, has_status=True)


def test_rules_name_every_listable_kind_once() -> None:
    assert set(RULES) == {kind for kind in kinds.KINDS if "list" in kind.verbs}
    assert sum(map(len, TABLES)) == len(RULES)


def test_join_rules_rejects_a_kind_in_two_tables() -> None:
    with pytest.raises(ValueError, match="kinds with two sets of rules: Pod"):
        join_rules(*TABLES, {kinds.POD: KindRules()})


def test_kind_without_rules_has_only_metadata_rules() -> None:
    thing = {"metadata": {"name": "x"}, "spec": {"replicas": -1}, "status": {"phase": "odd"}}
    before = dict(thing)
    rules_of(UNLISTED).defaults(thing)
    rules_of(UNLISTED).restore(thing, {}, "status")
    assert thing == before
    require_valid(UNLISTED, thing)
    require_valid_update(UNLISTED, thing | {"spec": {}}, thing, "")
    require_valid_update(UNLISTED, thing | {"status": {}}, thing, "status")
    assert rules_of(UNLISTED).initial_status(thing, "now") == {}
    with pytest.raises(Invalid, match=r"metadata\.name: Invalid value"):
        require_valid(UNLISTED, {"metadata": {"name": "X y"}})
    with pytest.raises(Invalid, match=r"metadata\.uid: Invalid value"):
        require_valid_update(UNLISTED, {"metadata": {"name": "x", "uid": "2"}}, {"metadata": {"name": "x"}}, "")


def test_kind_without_rules_shows_name_and_age() -> None:
    assert row(UNLISTED, {"metadata": {"name": "x"}}) == {"Name": "x", "Age": "5m"}


def test_kind_without_rules_is_selected_by_metadata() -> None:
    assert set(rules_of(UNLISTED).selectable.readers) == {"metadata.name", "metadata.namespace"}
    selection = Selection(rules_of(UNLISTED).selectable, labels="", fields="metadata.name=x")
    assert selection.admits(b'{"metadata":{"name":"x"}}')
    assert not selection.admits(b'{"metadata":{"name":"y"}}')


async def test_kind_with_empty_rules_is_served_with_metadata_rules(server: Harness) -> None:
    created = await server.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "a"}, "secrets": [{"name": "s"}]})
    assert created["secrets"] == [{"name": "s"}]
    found = await problems(server.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "B"}}))
    assert [problem.partition(":")[0] for problem in found] == ["metadata.name"]
