"""What one rule allows, and which rights a set of rules includes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.views.core import PolicyRule
from mooring.server.auth.coverage import uncovered
from mooring.server.auth.policy import path_rule, rule
from mooring.server.auth.rbac import (
    FULL_AUTHORITY,
    PathRequest,
    ResourceRequest,
    allows_path,
    allows_resource,
    compacted,
    described,
)

PODS = rule("get list", "pods")


@pytest.mark.parametrize(
    ("given_rule", "request_", "want"),
    [
        pytest.param(PODS, ResourceRequest("get", "", "pods"), True, id="as it says"),
        pytest.param(PODS, ResourceRequest("watch", "", "pods"), False, id="another verb"),
        pytest.param(PODS, ResourceRequest("get", "apps", "pods"), False, id="another group"),
        pytest.param(PODS, ResourceRequest("get", "", "nodes"), False, id="another resource"),
        pytest.param(
            PODS, ResourceRequest("get", "", "pods", "status"), False, id="a resource is not its subresources"
        ),
        pytest.param(rule("get", "pods/status"), ResourceRequest("get", "", "pods", "status"), True, id="subresource"),
        pytest.param(
            rule("get", "pods/status"), ResourceRequest("get", "", "pods"), False, id="nor the other way round"
        ),
        pytest.param(rule("*", "pods"), ResourceRequest("watch", "", "pods"), True, id="every verb"),
        pytest.param(rule("get", "pods", "*"), ResourceRequest("get", "x.io", "pods"), True, id="every group"),
        pytest.param(
            rule("get", "*"), ResourceRequest("get", "", "pods", "log"), True, id="every resource and subresource"
        ),
        pytest.param(
            rule("get", "*/scale", "*"), ResourceRequest("get", "apps", "x", "scale"), True, id="scale of all"
        ),
        pytest.param(
            rule("get", "*/scale", "*"), ResourceRequest("get", "apps", "x", "status"), False, id="not status"
        ),
        pytest.param(
            rule("get", "*/scale", "*"),
            ResourceRequest("get", "apps", "scale"),
            False,
            id="not a resource of that name",
        ),
        pytest.param(rule("get", "pods", names="a b"), ResourceRequest("get", "", "pods", name="b"), True, id="a name"),
        pytest.param(
            rule("get", "pods", names="a b"), ResourceRequest("get", "", "pods", name="c"), False, id="not this name"
        ),
        pytest.param(
            rule("list", "pods", names="a"), ResourceRequest("list", "", "pods"), False, id="names cannot list"
        ),
        pytest.param(rule("*", "*", "*"), ResourceRequest("*", "*", "*"), True, id="may I do everything"),
        pytest.param(PODS, ResourceRequest("*", "", "pods"), False, id="some verbs are not all"),
        pytest.param(path_rule("get", "/api"), ResourceRequest("get", "", "pods"), False, id="paths are no resources"),
    ],
)
def test_resources(given_rule: PolicyRule, request_: ResourceRequest, want: bool) -> None:
    assert allows_resource(given_rule, request_) is want


@pytest.mark.parametrize(
    ("urls", "path", "want"),
    [
        pytest.param("/api", "/api", True, id="as it says"),
        pytest.param("/api", "/api/v1", False, id="not what is below"),
        pytest.param("/api/*", "/api/v1", True, id="below"),
        pytest.param("/api/*", "/api", False, id="below is not itself"),
        pytest.param("/api/*", "/apis", False, id="not a longer name"),
        pytest.param("*", "/anything", True, id="everything"),
        pytest.param("/a /b", "/b", True, id="one of several"),
        pytest.param("/*/b", "/a/b", False, id="a star in the middle is only a star"),
    ],
)
def test_paths(urls: str, path: str, want: bool) -> None:
    assert allows_path(path_rule("get", urls), PathRequest("get", path)) is want
    assert not allows_path(path_rule("get", urls), PathRequest("post", path))


@pytest.mark.parametrize(
    ("held", "requested", "missing"),
    [
        pytest.param([PODS], [PODS], [], id="the same"),
        pytest.param([PODS], [rule("get watch", "pods")], [rule("watch", "pods")], id="one verb more"),
        pytest.param([rule("get", "pods"), rule("list", "pods")], [PODS], [], id="from several rules"),
        pytest.param([rule("*", "*")], [PODS], [], id="stars"),
        pytest.param([PODS], [rule("*", "pods")], [rule("*", "pods")], id="all verbs from some"),
        pytest.param(
            [rule("get", "pods", names="a")], [rule("get", "pods")], [rule("get", "pods")], id="all names from one"
        ),
        pytest.param([rule("get", "pods")], [rule("get", "pods", names="a")], [], id="one name from all"),
        pytest.param([rule("get", "*/scale", "*")], [rule("get", "x/scale", "apps")], [], id="one scale from all"),
        pytest.param(
            [rule("get", "pods/scale")], [rule("get", "*/scale")], [rule("get", "*/scale")], id="all from one"
        ),
        pytest.param([path_rule("get", "/a/*")], [path_rule("get", "/a/b")], [], id="a path below"),
        pytest.param([path_rule("get", "/a/*")], [path_rule("get", "/a/b/*")], [], id="all paths below one below"),
        pytest.param(
            [path_rule("get", "/a/b")], [path_rule("get", "/a/*")], [path_rule("get", "/a/*")], id="a path above"
        ),
        pytest.param(
            [rule("*", "*", "*")], [path_rule("get", "/a")], [path_rule("get", "/a")], id="resources are no paths"
        ),
        pytest.param(
            [], [rule("get", "a b", "x", "y")], [rule("get", r, g) for g in "xy" for r in "ab"], id="part by part"
        ),
    ],
)
def test_what_is_not_covered(held: list[PolicyRule], requested: list[PolicyRule], missing: list[PolicyRule]) -> None:
    assert uncovered(held, requested) == missing


_WORDS = st.lists(st.sampled_from(["*", "a", "b", "c"]), min_size=1, max_size=3, unique=True).map(tuple)
_RESOURCES = st.lists(st.sampled_from(["*", "p", "p/s", "*/s", "q"]), min_size=1, max_size=3, unique=True).map(tuple)
_RULES = st.builds(PolicyRule, _WORDS, _WORDS, _RESOURCES, st.sampled_from([(), ("n",), ("n", "m")]))
_REQUESTS = st.builds(
    ResourceRequest, st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from("pq"),
    st.sampled_from(["", "s"]), st.just(""), st.sampled_from(["", "n", "m"]),
)  # fmt: skip


@given(held=st.lists(_RULES, max_size=3), requested=_RULES, request_=_REQUESTS)
def test_holder_of_covered_rules_has_their_rights(
    held: list[PolicyRule], requested: PolicyRule, request_: ResourceRequest
) -> None:
    if allows_resource(requested, request_) and not uncovered(held, [requested]):
        assert any(allows_resource(mine, request_) for mine in held)


@given(requested=_RULES)
def test_full_authority_covers_everything(requested: PolicyRule) -> None:
    assert uncovered(FULL_AUTHORITY, [requested, path_rule("*", "*")]) == []


def test_as_upstream_describes_it() -> None:
    parts = uncovered([], [rule("get list", "pods secrets", names="a"), path_rule("get", "/x")])
    assert [described(one) for one in compacted(parts)] == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
    ]
