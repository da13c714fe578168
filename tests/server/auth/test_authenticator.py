"""Tokens and certificates.

kube-apiserver's file of tokens.
"""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mooring.api.errors import Unauthorized
from mooring.server.auth.authenticator import (
    AuthenticatedUser,
    Authenticator,
    BadToken,
    BadTokenFile,
    StaticTokens,
    read_token_file,
)
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


async def test_certificate_without_common_name_is_ignored() -> None:
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
async def test_request_without_credentials_has_no_user(authorization: str) -> None:
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
async def test_invalid_token_is_unauthorized(token: str) -> None:
    with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        await authenticate(f"Bearer {token}")


class Suspicious:
    """Knows why a token is bad."""

    async def identify(self, token: str, audiences: object) -> AuthenticatedUser | None:
        raise BadToken("it has expired")


async def test_reason_is_logged_without_token() -> None:
    with capture_logs() as logs, pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        await Authenticator(Suspicious()).authenticate("Bearer s3cret", None)
    assert [line["reason"] for line in logs] == ["it has expired"]
    assert "s3cret" not in repr(logs)


def written(folder: Path, text: str) -> Path:
    file = folder / "tokens.csv"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("t,alice,1\n", {"t": User("alice", (), "1")}, id="without groups"),
        pytest.param('t,alice,1,"dev,ops"\n', {"t": User("alice", ("dev", "ops"), "1")}, id="groups in quotes"),
        pytest.param("t,alice,1,dev\n", {"t": User("alice", ("dev",), "1")}, id="one group"),
        pytest.param("t, alice , 1 , dev\n", {"t": User("alice", ("dev",), "1")}, id="blanks"),
        pytest.param("t,alice,1,dev,more\n", {"t": User("alice", ("dev",), "1")}, id="more columns than are read"),
        pytest.param("\nt,alice,\n\nu,bob,2\n", {"t": User("alice"), "u": User("bob", (), "2")}, id="several, gaps"),
        pytest.param("", {}, id="empty"),
    ],
)
def test_token_file_rows(tmp_path: Path, text: str, want: dict[str, User]) -> None:
    assert read_token_file(written(tmp_path, text)) == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("s3cret,alice\n", r"row 1: must have at least 3 columns", id="too few columns"),
        pytest.param("a,b,c\n,alice,1\n", r"row 2: neither the token nor the user name", id="no token"),
        pytest.param("s3cret,,1\n", r"row 1: neither the token nor the user name", id="no user"),
        pytest.param("s3cret,a,1\ns3cret,b,2\n", r"row 2: same token as in an earlier row", id="a token twice"),
        pytest.param('s3cret,"a"b,1\n', r"is not a CSV file", id="bad quotes"),
    ],
)
def test_invalid_token_file_is_rejected_without_content(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadTokenFile, match=why) as refused:
        read_token_file(written(tmp_path, text))
    assert "s3cret" not in str(refused.value)


async def test_tokens_are_for_this_server_only() -> None:
    tokens = StaticTokens({"t": User("alice")}, audiences=("api",))
    found = await tokens.identify("t", ())
    assert found is not None
    assert found.audiences == ("api",)
    assert await tokens.identify("t", ("api", "other")) is not None
    assert await tokens.identify("t", ("other",)) is None


def test_no_token_is_kept_in_the_clear() -> None:
    assert "s3cret" not in repr(vars(StaticTokens({"s3cret": User("alice")})))
