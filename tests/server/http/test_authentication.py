"""Tokens and certificates."""

from typing import Any

import pytest
from multidict import CIMultiDict

from mooring.api.errors import NotImplementedHere, Unauthorized
from mooring.server.contract import User
from mooring.server.http.authentication import Authenticator

ADMIN = User("admin", ("system:masters",))
AUTHENTICATOR = Authenticator({"admin-token": ADMIN, "bob-token": User("bob")})

#: As Python's ssl module shows the subject O=system:masters, O=dev, CN=alice.
CERTIFICATE = {
    "subject": (
        (("organizationName", "system:masters"),),
        (("organizationName", "dev"),),
        (("commonName", "alice"),),
    )
}
NAMELESS = {"subject": ((("organizationName", "system:masters"),),)}


def authenticate(certificate: dict[str, Any] | None = None, **headers: str) -> User:
    return AUTHENTICATOR.authenticate(CIMultiDict(headers), certificate)


@pytest.mark.parametrize(
    ("authorization", "want"),
    [
        pytest.param("Bearer admin-token", User("admin", ("system:masters", "system:authenticated")), id="token"),
        pytest.param("bearer bob-token", User("bob", ("system:authenticated",)), id="scheme in small letters"),
        pytest.param("Bearer  bob-token ", User("bob", ("system:authenticated",)), id="stray spaces"),
    ],
)
def test_tokens(authorization: str, want: User) -> None:
    assert authenticate(Authorization=authorization) == want


def test_a_certificate_names_user_and_groups() -> None:
    assert authenticate(CERTIFICATE) == User("alice", ("system:masters", "dev", "system:authenticated"))


def test_a_certificate_comes_before_a_token() -> None:
    assert authenticate(CERTIFICATE, Authorization="Bearer bob-token").name == "alice"


def test_a_certificate_without_a_name_is_nobody() -> None:
    assert authenticate(NAMELESS, Authorization="Bearer bob-token").name == "bob"
    with pytest.raises(Unauthorized):
        authenticate(NAMELESS)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"Authorization": "Bearer wrong"}, id="unknown token"),
        pytest.param({"Authorization": "Bearer admin-toke"}, id="part of a token"),
        pytest.param({"Authorization": "Bearer"}, id="no token"),
        pytest.param({"Authorization": "Bearer \udcff\udcfe"}, id="bytes that are no text"),
        pytest.param({"Authorization": "admin-token"}, id="no scheme"),
        pytest.param({"Authorization": "Basic YTpi"}, id="another scheme"),
    ],
)
def test_nobody_else_is_let_in(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        authenticate(**headers)


@pytest.mark.parametrize("header", ["Impersonate-User", "impersonate-group", "Impersonate-Extra-Scope"])
def test_impersonation_is_refused_not_ignored(header: str) -> None:
    with pytest.raises(NotImplementedHere, match="impersonation"):
        authenticate(**{"Authorization": "Bearer admin-token", header: "bob"})
