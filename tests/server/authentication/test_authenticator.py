"""Tokens and certificates."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from mooring.api.errors import Unauthorized
from mooring.server.authentication.authenticator import Authenticator
from mooring.server.authentication.token_file import StaticTokens
from mooring.server.authentication.tokens import BadToken, Identified
from mooring.server.contract import User

ADMIN = User("admin", ("system:masters",))
AUTHENTICATOR = Authenticator(StaticTokens({"admin-token": ADMIN, "bob-token": User("bob")}))

#: As Python's ssl module shows the subject O=system:masters, O=dev, CN=alice.
CERTIFICATE = {
    "subject": (
        (("organizationName", "system:masters"),),
        (("organizationName", "dev"),),
        (("commonName", "alice"),),
    )
}
NAMELESS = {"subject": ((("organizationName", "system:masters"),),)}


async def authenticate(authorization: str = "", certificate: dict[str, Any] | None = None) -> User | None:
    return await AUTHENTICATOR.authenticate(authorization, certificate)


@pytest.mark.parametrize(
    ("authorization", "want"),
    [
        pytest.param("Bearer admin-token", User("admin", ("system:masters", "system:authenticated")), id="token"),
        pytest.param("bearer bob-token", User("bob", ("system:authenticated",)), id="scheme in small letters"),
        pytest.param("Bearer  bob-token ", User("bob", ("system:authenticated",)), id="stray spaces"),
    ],
)
async def test_tokens(authorization: str, want: User) -> None:
    assert await authenticate(authorization) == want


async def test_a_certificate_names_user_and_groups() -> None:
    want = User("alice", ("system:masters", "dev", "system:authenticated"))
    assert await authenticate(certificate=CERTIFICATE) == want


async def test_a_certificate_comes_before_a_token() -> None:
    found = await authenticate("Bearer bob-token", CERTIFICATE)
    assert found is not None
    assert found.name == "alice"


async def test_a_certificate_without_a_name_is_nobodys() -> None:
    found = await authenticate("Bearer bob-token", NAMELESS)
    assert found is not None
    assert found.name == "bob"
    assert await authenticate(certificate=NAMELESS) is None


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("", id="nothing"),
        pytest.param("Bearer", id="no token"),
        pytest.param("Bearer  ", id="blanks"),
        pytest.param("admin-token", id="no scheme"),
        pytest.param("Basic YTpi", id="another scheme"),
    ],
)
async def test_who_shows_nothing_is_nobody(authorization: str) -> None:
    assert await authenticate(authorization) is None


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("wrong", id="unknown"),
        pytest.param("admin-toke", id="part of a token"),
        pytest.param("admin-token2", id="more than a token"),
        pytest.param("\udcff\udcfe", id="bytes that are no text"),
        pytest.param("a.b.c", id="looks signed"),
    ],
)
async def test_who_shows_something_wrong_is_refused(token: str) -> None:
    with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        await authenticate(f"Bearer {token}")


class Suspicious:
    """Knows why a token is bad."""

    async def identify(self, token: str, audiences: object) -> Identified | None:
        raise BadToken("it has expired")


async def test_why_is_for_the_log_and_the_token_for_nobody() -> None:
    with capture_logs() as logs, pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        await Authenticator(Suspicious()).authenticate("Bearer s3cret", None)
    assert [line["why"] for line in logs] == ["it has expired"]
    assert "s3cret" not in repr(logs)
