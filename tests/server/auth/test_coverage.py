"""Which rights rules lack: the same as comparing every single right, without ever making them all."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.views.core import PolicyRule
from mooring.server.auth.coverage import (
    MAX_LISTED_RIGHTS,
    MAX_STEPS,
    MissingRights,
    RulesTooWide,
    missing_rights,
    uncovered,
)
from mooring.server.auth.policy import rule
from mooring.server.auth.rbac import (
    FULL_AUTHORITY,
    PathRequest,
    PolicyIndex,
    ResourceRequest,
    RoleRules,
    allows_path,
    allows_resource,
)
from support.builders.counting import calls_of

WORDS = st.lists(st.sampled_from(["*", "a", "b", "x/s", "*/s"]), min_size=1, max_size=3).map(tuple)
NAMES = st.lists(st.sampled_from(["a", "b", ""]), max_size=2).map(tuple)
URLS = st.lists(st.sampled_from(["/a", "/a/*", "/a/b", "/*", "*", "/b**"]), min_size=1, max_size=3).map(tuple)
RULES = st.builds(PolicyRule, WORDS, WORDS, WORDS, NAMES) | st.builds(
    lambda verbs, urls: PolicyRule(verbs, non_resource_urls=urls), WORDS, URLS
)


def one_by_one(held: list[PolicyRule], requested: PolicyRule) -> list[PolicyRule]:
    """Every right of a rule by itself, and whether any rule held includes it."""
    parts = [PolicyRule((v,), non_resource_urls=(u,)) for v, u in product(requested.verbs, requested.non_resource_urls)]
    parts += [
        PolicyRule((verb,), (group,), (resource,), () if name is None else (name,))
        for verb, group, resource, name in product(
            requested.verbs, requested.api_groups, requested.resources, requested.resource_names or (None,)
        )
    ]
    return [part for part in parts if not any(_includes(mine, part) for mine in held)]


def _includes(held: PolicyRule, part: PolicyRule) -> bool:
    if part.non_resource_urls:
        return allows_path(held, PathRequest(part.verbs[0], part.non_resource_urls[0]))
    if held.resource_names and not part.resource_names:
        return False
    resource, _, subresource = part.resources[0].partition("/")
    name = part.resource_names[0] if part.resource_names else "every"
    return allows_resource(held, ResourceRequest(part.verbs[0], part.api_groups[0], resource, subresource, "", name))


@given(st.lists(RULES, max_size=4), RULES)
def test_missing_rights_equal_exhaustive_comparison(held: list[PolicyRule], requested: PolicyRule) -> None:
    assert sorted(uncovered(held, [requested]), key=repr) == sorted(one_by_one(held, requested), key=repr)


def wide(words: int) -> PolicyRule:
    lists = [tuple(f"{kind}{number}" for number in range(words)) for kind in "vgrn"]
    return PolicyRule(*lists)


def test_a_wide_rule_costs_as_much_as_it_is_long() -> None:
    """Four lists of 80 words are 41 million rights, which used to be made one by one and kept."""
    assert missing_rights([], [wide(80)])._replace(rights=[]) == MissingRights([], 80**4 - MAX_LISTED_RIGHTS)
    assert missing_rights(FULL_AUTHORITY, [wide(80)]) == MissingRights([], 0)
    assert calls_of(lambda: missing_rights(FULL_AUTHORITY, [wide(800)])) < 2.2 * calls_of(
        lambda: missing_rights(FULL_AUTHORITY, [wide(400)])
    )


def test_rules_that_differ_in_too_many_ways_are_refused() -> None:
    held = [wide(80)] + [rule(f"v{n}", f"r{n}", f"g{n}", names=f"n{n}") for n in range(80)]
    with pytest.raises(RulesTooWide, match="write smaller roles"):
        missing_rights(held[1:], [wide(80)])
    assert calls_of(lambda: missing_rights(held[:30], [wide(30)])) < 10 * MAX_STEPS


def test_a_wide_role_is_filed_by_its_words() -> None:
    """Not by pairs of groups and resources."""
    assert calls_of(lambda: RoleRules([wide(800)])) < 2.2 * calls_of(lambda: RoleRules([wide(400)]))
    role = RoleRules([wide(400)])
    assert role.allow(ResourceRequest("v399", "g0", "r200", name="n7"))
    assert not role.allow(ResourceRequest("v399", "g0", "r200", name="n400"))
    assert PolicyIndex().role("", "none") is None
