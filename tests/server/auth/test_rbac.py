"""Which rules a user has."""

import random
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.views.core import ClusterRole, PolicyRule
from mooring.server.auth.policy import BindingRow, RoleRow, account, binding, group, path_rule, role, rule, user
from mooring.server.auth.rbac import (
    FULL_AUTHORITY,
    AuthorizationDecision,
    PathRequest,
    PolicyIndex,
    Request,
    ResourceRequest,
    allows_resource,
    missing_roles,
)
from mooring.server.contract import User
from support.server.policies import binding_view

ALICE = User("alice", ("dev", "system:authenticated"))
BOB = User("system:serviceaccount:ci:bob", ("system:serviceaccounts",))
READ_PODS = rule("get", "pods")
GET_POD = ResourceRequest("get", "", "pods", namespace="ci", name="p")


def index_of(*rows: RoleRow | BindingRow) -> PolicyIndex:
    index = PolicyIndex()
    for row in rows:
        if isinstance(row, RoleRow):
            index.put_role(msgspec.convert(row.body(), ClusterRole))
        else:
            index.put_binding(binding_view(row.body()))
    return index


@pytest.mark.parametrize(
    ("rows", "asking", "want"),
    [
        pytest.param((), ALICE, AuthorizationDecision(False), id="nothing granted"),
        pytest.param(
            (role("r", READ_PODS), binding("b", user("alice"), role="r")),
            ALICE,
            AuthorizationDecision(True, 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "alice"'),
            id="everywhere, by name",
        ),
        pytest.param(
            (role("r", READ_PODS), binding("b", group("dev"), role="r")),
            ALICE,
            AuthorizationDecision(True, 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "dev"'),
            id="everywhere, by group",
        ),
        pytest.param(
            (role("r", READ_PODS, namespace="ci"), binding("r", user("alice"), namespace="ci")),
            ALICE,
            AuthorizationDecision(True, 'RBAC: allowed by RoleBinding "r/ci" of Role "r" to User "alice"'),
            id="in the namespace",
        ),
        pytest.param(
            (role("r", READ_PODS, namespace="other"), binding("r", user("alice"), namespace="other")),
            ALICE,
            AuthorizationDecision(False),
            id="in another namespace",
        ),
        pytest.param(
            (role("r", READ_PODS), binding("r", account("bob", "ci"))),
            BOB,
            AuthorizationDecision(
                True, 'RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "r" to ServiceAccount "bob/ci"'
            ),
            id="to a service account",
        ),
        pytest.param(
            (role("r", READ_PODS, namespace="ci"), binding("r", account("bob", ""), namespace="ci")),
            BOB,
            AuthorizationDecision(True, 'RBAC: allowed by RoleBinding "r/ci" of Role "r" to ServiceAccount "bob/"'),
            id="to a service account of the same namespace",
        ),
        pytest.param(
            (role("r", READ_PODS), binding("r", account("bob", "elsewhere"))),
            BOB,
            AuthorizationDecision(False),
            id="to a namesake",
        ),
        pytest.param(
            (role("r", READ_PODS), binding("r", user("system:serviceaccount:ci:bob"))),
            BOB,
            AuthorizationDecision(
                True, f'RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "r" to User "{BOB.name}"'
            ),
            id="to a service account by its user name",
        ),
        pytest.param(
            (binding("b", user("alice"), role="gone"),),
            ALICE,
            AuthorizationDecision(False, 'rbac: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'),
            id="a role that is not there",
        ),
        pytest.param(
            (
                binding("b", user("alice"), role="gone"),
                binding("c", group("dev"), role="gone"),
                binding("d", user("alice"), namespace="ci", role="lost"),
            ),
            ALICE,
            AuthorizationDecision(
                False,
                'rbac: RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
                'role.rbac.authorization.k8s.io "lost" not found]',
            ),
            id="several that are not there, each said once",
        ),
        pytest.param((), User("root", ("system:masters",)), AuthorizationDecision(True), id="masters need no role"),
    ],
)
def test_decisions(rows: tuple[RoleRow | BindingRow, ...], asking: User, want: AuthorizationDecision) -> None:
    assert index_of(*rows).decide(asking, GET_POD) == want


def test_a_user_and_a_group_of_the_same_name_are_different() -> None:
    index = index_of(role("r", READ_PODS), binding("r", group("alice")))
    assert not index.decide(User("alice"), GET_POD).allowed


def test_paths_belong_to_no_namespace() -> None:
    index = index_of(
        role("r", path_rule("get", "/x"), READ_PODS),
        BindingRow("b", (user("alice"),), "ci", "r"),
    )
    # A RoleBinding may name a ClusterRole; what that says about paths does not count then.
    view = binding_view(BindingRow("b", (user("alice"),), "ci", "r").body())
    index.put_binding(
        msgspec.structs.replace(view, role_ref=msgspec.structs.replace(view.role_ref, kind="ClusterRole"))
    )
    assert index.decide(ALICE, GET_POD).allowed
    assert not index.decide(ALICE, PathRequest("get", "/x")).allowed
    # They are listed all the same, as upstream lists them; a binding in the same namespace may name such a role.
    assert index.rules_of(ALICE, "ci").rules == (path_rule("get", "/x"), READ_PODS)


def test_removed_binding_grants_nothing() -> None:
    index = index_of(role("r", READ_PODS), binding("b", user("alice"), group("dev"), role="r"))
    index.put_binding(binding_view(binding("b", user("bob"), role="r").body()))
    assert not index.decide(ALICE, GET_POD).allowed
    assert index.decide(User("bob"), GET_POD).allowed
    index.drop_binding("", "b")
    index.drop_binding("", "b")
    assert not index.decide(User("bob"), GET_POD).allowed
    index.put_binding(binding_view(binding("b", user("bob"), role="r").body()))
    index.drop_role("", "r")
    assert not index.decide(User("bob"), GET_POD).allowed


def test_all_the_rules_of_a_user() -> None:
    index = index_of(
        role("r", READ_PODS),
        role("s", rule("list", "nodes"), namespace="ci"),
        binding("r", group("dev")),
        binding("s", user("alice"), namespace="ci"),
        binding("t", user("alice"), namespace="ci", role="gone"),
    )
    found = index.rules_of(ALICE, "ci")
    assert found.rules == (READ_PODS, rule("list", "nodes"))
    assert missing_roles(found.missing) == 'role.rbac.authorization.k8s.io "gone" not found'
    assert index.rules_of(ALICE, "").rules == (READ_PODS,)
    assert index.rules_of(User("root", ("system:masters",)), "ci").rules == FULL_AUTHORITY


def test_a_binding_that_fits_twice_gives_its_rules_once() -> None:
    index = index_of(role("r", READ_PODS), binding("r", group("dev"), user("alice"), user("alice")))
    assert index.rules_of(ALICE, "").rules == (READ_PODS,)


_NAMES = st.sampled_from(["a", "b"])
_RULES = st.builds(
    rule, st.sampled_from(["get", "list", "*"]), st.sampled_from(["pods", "*", "pods/log", "*/log"]),
    st.sampled_from(["", "apps", "*"]), names=st.sampled_from(["", "x"]),
)  # fmt: skip
_ROLES = st.builds(RoleRow, _NAMES, st.lists(_RULES, max_size=3).map(tuple), st.sampled_from(["", "n"]))
_SUBJECTS = st.sampled_from([user("u"), group("g"), account("s", "n")])
_BINDINGS = st.builds(
    BindingRow, _NAMES, st.lists(_SUBJECTS, max_size=2).map(tuple), st.sampled_from(["", "n"]), _NAMES
)
_USERS = st.sampled_from([User("u"), User("u", ("g",)), User("system:serviceaccount:n:s"), User("v", ("g",))])
_REQUESTS = st.builds(
    ResourceRequest, st.sampled_from(["get", "list"]), st.sampled_from(["", "apps"]), st.just("pods"),
    st.sampled_from(["", "log"]), st.sampled_from(["", "n"]), st.sampled_from(["", "x"]),
)  # fmt: skip


@settings(max_examples=300)
@given(rows=st.lists(st.one_of(_ROLES, _BINDINGS), max_size=8), asking=_USERS, request_=_REQUESTS)
def test_the_index_answers_as_a_walk_over_everything_would(
    rows: list[RoleRow | BindingRow], asking: User, request_: Request
) -> None:
    """Also when objects replace others of their name."""
    assert isinstance(request_, ResourceRequest)
    assert index_of(*rows).decide(asking, request_).allowed is _walk(rows, asking, request_)


def _walk(rows: list[RoleRow | BindingRow], asking: User, request: ResourceRequest) -> bool:
    roles: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
    bindings: dict[tuple[str, str], BindingRow] = {}
    for row in rows:
        if isinstance(row, RoleRow):
            roles[row.namespace, row.name] = row.rules
        else:
            bindings[row.namespace, row.name] = row
    mine = {("User", asking.name), *(("Group", name) for name in asking.groups)}
    for row in bindings.values():
        who = {
            ("User", f"system:serviceaccount:{s.namespace}:{s.name}")
            if s.kind == "ServiceAccount"
            else (s.kind, s.name)
            for s in row.subjects
        }
        if row.namespace in ("", request.namespace) and who & mine:
            rules = roles.get((row.namespace, row.role or row.name), ())
            if any(allows_resource(one, request) for one in rules):
                return True
    return False


def test_decision_cost_is_independent_of_grants() -> None:
    rng = random.Random(1)
    rules = [rule("get list", f"resource-{n}", "x.io") for n in range(500)]
    index = index_of(role("long", *rules), binding("long", user("alice")))
    for n in range(2000):
        index.put_binding(binding_view(binding(f"b{n}", user(f"u{n}"), namespace=f"n{rng.randrange(50)}").body()))
    request = ResourceRequest("get", "x.io", "resource-499", namespace="n1")
    began = time.process_time()
    for _ in range(1000):
        assert index.decide(ALICE, request).allowed
    # 5 µs here; the bound only tells lookups from walks, which take hundreds.
    assert time.process_time() - began < 0.1
