"""Impersonation headers and the rights they need."""

import pytest
from multidict import CIMultiDict

from mooring.api.errors import BadRequest, Forbidden
from mooring.server.auth.access import impersonated
from mooring.server.auth.policy import rule
from mooring.server.contract import User
from support.server.policies import Policy

BOSS = User("boss", ("system:authenticated",))
EVERYTHING = Policy(defaults=False).grant("boss", rule("impersonate", "*", "*"))


def headers(*pairs: tuple[str, str]) -> CIMultiDict[str]:
    return CIMultiDict([(f"Impersonate-{name}", value) for name, value in pairs])


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param([], BOSS, id="no headers"),
        pytest.param([("User", "bob")], User("bob", ("system:authenticated",)), id="a user"),
        pytest.param(
            [("User", "bob"), ("Group", "dev"), ("Group", "ops")],
            User("bob", ("dev", "ops", "system:authenticated")),
            id="a user in groups",
        ),
        pytest.param(
            [("User", "system:serviceaccount:ci:bot")],
            User(
                "system:serviceaccount:ci:bot",
                ("system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"),
            ),
            id="a service account is in its groups",
        ),
        pytest.param(
            [("User", "system:serviceaccount:ci:bot"), ("Group", "dev")],
            User("system:serviceaccount:ci:bot", ("dev", "system:authenticated")),
            id="unless others are named",
        ),
        pytest.param(
            [("User", "system:anonymous")], User("system:anonymous", ("system:unauthenticated",)), id="anonymous"
        ),
        pytest.param(
            [("User", "bob"), ("Uid", "77"), ("Extra-Scopes", "a"), ("Extra-scopes", "b"), ("Extra-Acme.io%2Fx", "c")],
            User("bob", ("system:authenticated",), "77", {"scopes": ("a", "b"), "acme.io/x": ("c",)}),
            id="uid and extra fields",
        ),
        pytest.param(
            [("User", "bob"), ("Group", "system:unauthenticated")],
            User("bob", ("system:unauthenticated",)),
            id="not authenticated, if that is what was asked",
        ),
    ],
)
async def test_impersonated_user(asked: list[tuple[str, str]], want: User) -> None:
    assert await impersonated(headers(*asked), BOSS, EVERYTHING) == want


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        pytest.param(
            [("User", "bob")], 'users "bob" is forbidden: User "boss" cannot impersonate resource "users"', id="user"
        ),
        pytest.param([("User", "al"), ("Group", "ops")], 'groups "ops" is forbidden', id="group"),
        pytest.param([("User", "al"), ("Uid", "7")], 'uids.authentication.k8s.io "7" is forbidden', id="uid"),
        pytest.param(
            [("User", "al"), ("Extra-Scopes", "b")],
            'cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io"',
            id="extra field",
        ),
        pytest.param(
            [("User", "system:serviceaccount:ci:bot")],
            'serviceaccounts "bot" is forbidden: User "boss" cannot impersonate resource "serviceaccounts" '
            'in API group "" in the namespace "ci"',
            id="service account",
        ),
        pytest.param(
            [("User", "system:serviceaccount:ci:bot:x")],
            'users "system:serviceaccount:ci:bot:x"',
            id="not one of those",
        ),
    ],
)
async def test_each_impersonated_attribute_needs_a_right(asked: list[tuple[str, str]], missing: str) -> None:
    policy = Policy(defaults=False).grant(
        "boss",
        rule("impersonate", "users", names="al"),
        rule("impersonate", "groups", names="dev"),
        rule("impersonate", "userextras/scopes", "authentication.k8s.io", names="a"),
    )
    await impersonated(headers(("User", "al"), ("Group", "dev"), ("Extra-Scopes", "a")), BOSS, policy)
    with pytest.raises(Forbidden) as refused:
        await impersonated(headers(*asked), BOSS, policy)
    assert missing in refused.value.message


@pytest.mark.parametrize(
    "asked", [("Group", "system:masters"), ("Uid", "1"), ("Extra-x", "y"), ("Foo", "bar"), ("User", "")]
)
async def test_only_whole_users_can_be_impersonated(asked: tuple[str, str]) -> None:
    """Also what is not understood is refused: ignoring it would act with the rights of the caller."""
    with pytest.raises(BadRequest, match="without impersonating a user name"):
        await impersonated(headers(asked), BOSS, EVERYTHING)
