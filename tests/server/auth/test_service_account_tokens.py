"""Signing, and everything that must not pass for a signature.

Tokens of service accounts: what makes them good, and what ends them.

The key of the service accounts, on disk.
"""

import json
import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from mooring.api.views.meta import ApiObject
from mooring.server.auth.authenticator import BadToken
from mooring.server.auth.service_account_tokens import (
    ISSUER,
    MAX_CHARACTERS,
    BadSigningKey,
    ServiceAccountTokens,
    SigningKey,
    ensure_signing_key,
    unverified_claims,
)
from mooring.server.contract import DeleteOptions
from mooring.server.objects import Objects
from support.builders import pod_body
from support.server.harness import Harness

KEY = SigningKey.new()
CLAIMS = {"sub": "alice", "exp": 5}
TOKEN = KEY.sign(CLAIMS)


def encoded(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def reassembled(*, header: object = None, claims: object = None, signature: object = None) -> str:
    parts = TOKEN.split(".")
    for index, replaced in enumerate((header, claims, signature)):
        if replaced is not None:
            parts[index] = encoded(replaced)
    return ".".join(parts)


def test_what_was_signed_is_read_back() -> None:
    assert KEY.verify(TOKEN) == CLAIMS
    assert SigningKey.from_pem(KEY.to_pem()).verify(TOKEN) == CLAIMS
    assert unverified_claims(TOKEN) == CLAIMS


def test_the_header_is_what_kubernetes_writes() -> None:
    header = json.loads(urlsafe_b64decode(TOKEN.split(".")[0] + "=="))
    assert header == {"alg": "ES256", "kid": KEY.id}


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(SigningKey.new().sign(CLAIMS), id="another key"),
        pytest.param(reassembled(header={"alg": "none", "kid": KEY.id}), id="no algorithm"),
        pytest.param(reassembled(header={"alg": "none"}, signature=b""), id="no algorithm and no signature"),
        pytest.param(reassembled(header={"alg": "HS256", "kid": KEY.id}), id="an algorithm of the sender's choice"),
        pytest.param(reassembled(header={"alg": ["ES256"]}), id="algorithm of an odd type"),
        pytest.param(reassembled(header={}), id="empty header"),
        pytest.param(reassembled(header=[1]), id="header that is a list"),
        pytest.param(reassembled(claims=CLAIMS | {"sub": "admin"}), id="other claims"),
        pytest.param(reassembled(claims=b"not json"), id="claims that are no JSON"),
        pytest.param(reassembled(claims=b"[" * 5000), id="claims nested beyond reason"),
        pytest.param(reassembled(signature=b"\x00" * 64), id="signature of zeros"),
        pytest.param(reassembled(signature=b"\xff" * 64), id="signature of ones"),
        pytest.param(reassembled(signature=b"\x00" * 63), id="short signature"),
        pytest.param(reassembled(signature=b""), id="empty signature"),
        pytest.param(TOKEN + "=", id="padding"),
        pytest.param(TOKEN + ".", id="a fourth part"),
        pytest.param(TOKEN.rpartition(".")[0], id="two parts"),
        pytest.param(" " + TOKEN, id="a blank before"),
        pytest.param(TOKEN.replace(".", "\n."), id="line breaks"),
        pytest.param("ä.b.c", id="letters that base64 has not"),
        pytest.param("\udcff.b.c", id="no text"),
        pytest.param("", id="nothing"),
        pytest.param("..", id="three times nothing"),
        pytest.param("a" * (MAX_CHARACTERS + 1), id="too long"),
    ],
)
def test_foreign_tokens_are_rejected(token: str) -> None:
    with pytest.raises(BadToken):
        KEY.verify(token)


@given(place=st.integers(0, len(TOKEN) - 1), letter=st.sampled_from("abcdefghXYZ0189-_.="))
def test_changed_token_is_rejected(place: int, letter: str) -> None:
    """The last letter of base64 has unused bits: they must be unchanged too."""
    changed = TOKEN[:place] + letter + TOKEN[place + 1 :]
    if changed != TOKEN:
        with pytest.raises(BadToken):
            KEY.verify(changed)


@given(token=st.text(max_size=60))
def test_any_text_is_only_refused(token: str) -> None:
    unverified_claims(token)
    with pytest.raises(BadToken):
        KEY.verify(token)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"nonsense", id="no key"),
        pytest.param(pem(ec.generate_private_key(ec.SECP384R1())), id="another curve"),
        pytest.param(pem(rsa.generate_private_key(65537, 2048)), id="RSA"),
    ],
)
def test_other_keys_are_not_taken(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SigningKey.from_pem(content)


class Accounts:
    """The account `default/ci`, its tokens, and things to bind them to."""

    def __init__(self, server: Harness) -> None:
        self.server = server
        self.tokens = ServiceAccountTokens(KEY, Objects(server.store), server.clock)

    async def create(self, kind: Kind[Any], body: dict[str, Any]) -> ApiObject:
        return msgspec.convert(await self.server.create(kind, body), ApiObject)

    async def account(self) -> ApiObject:
        return await self.create(SERVICE_ACCOUNT, {"metadata": {"name": "ci"}})

    def issue(self, account: ApiObject, seconds: int = 600, **bound: ApiObject) -> str:
        issued = self.tokens.issue(account, audiences=(ISSUER,), seconds=seconds, token_id="t-1", bound=bound)
        assert issued.expires == int(self.server.clock.now()) + seconds
        return issued.token

    async def refusal(self, token: str, *audiences: str) -> str:
        with pytest.raises(BadToken) as refused:
            await self.tokens.identify(token, audiences)
        return str(refused.value)


@pytest.fixture
async def accounts(server: Harness) -> Accounts:
    return Accounts(server)


async def test_token_identifies_service_account(accounts: Accounts) -> None:
    account = await accounts.account()
    found = await accounts.tokens.identify(accounts.issue(account), ())
    assert found is not None
    assert found.audiences == (ISSUER,)
    user = found.user
    assert (user.name, user.uid) == ("system:serviceaccount:default:ci", account.uid)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=t-1",)}


async def test_token_expires(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    await accounts.server.clock.sleep(599)
    assert await accounts.tokens.identify(token, ()) is not None
    await accounts.server.clock.sleep(1)
    assert await accounts.refusal(token) == "service account token has expired"


async def test_token_is_invalid_before_nbf(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    accounts.server.clock.seconds -= 60
    assert await accounts.refusal(token) == "service account token is not valid yet"


async def test_token_is_invalid_without_account(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    await accounts.server.delete(SERVICE_ACCOUNT, "ci")
    assert await accounts.refusal(token) == "ServiceAccount ci of the token is gone"
    await accounts.account()
    assert await accounts.refusal(token) == "ServiceAccount ci of the token is gone"


@pytest.mark.parametrize(
    ("claim", "kind"),
    [("", SERVICE_ACCOUNT), ("secret", SECRET), ("node", NODE)],
)
async def test_token_is_invalid_a_minute_after_deletion(accounts: Accounts, claim: str, kind: Kind[Any]) -> None:
    """An object that stays for a finalizer no longer vouches for a token."""
    thing = await accounts.create(kind, {"metadata": {"name": "x", "finalizers": ["example.com/kept"]}})
    account = thing if kind is SERVICE_ACCOUNT else await accounts.account()
    token = accounts.issue(account, **({claim: thing} if claim else {}))
    await accounts.server.delete(kind, "x")
    await accounts.server.clock.sleep(60)
    assert await accounts.tokens.identify(token, ()) is not None
    await accounts.server.clock.sleep(1)
    assert await accounts.refusal(token) == f"{kind.kind} x of the token has been deleted"
    late = accounts.issue(account, **({claim: thing} if claim else {}))
    assert await accounts.refusal(late) == f"{kind.kind} x of the token has been deleted"


@pytest.mark.parametrize(
    ("claim", "kind", "body"),
    [
        pytest.param("pod", POD, pod_body(name="p"), id="pod"),
        pytest.param("secret", SECRET, {"metadata": {"name": "p"}}, id="secret"),
        pytest.param("node", NODE, {"metadata": {"name": "p"}}, id="node"),
    ],
)
async def test_token_is_invalid_without_bound_object(
    accounts: Accounts, claim: str, kind: Kind[Any], body: dict[str, Any]
) -> None:
    account, thing = await accounts.account(), await accounts.create(kind, body)
    token = accounts.issue(account, **{claim: thing})
    found = await accounts.tokens.identify(token, ())
    assert found is not None
    if claim != "secret":
        assert found.user.extra[f"authentication.kubernetes.io/{claim}-name"] == ("p",)
        assert found.user.extra[f"authentication.kubernetes.io/{claim}-uid"] == (thing.uid,)
    await accounts.server.delete(kind, "p", DeleteOptions(grace_seconds=0))
    assert await accounts.refusal(token) == f"{kind.kind} p of the token is gone"


async def test_pod_token_survives_its_node(accounts: Accounts) -> None:
    account, pod = await accounts.account(), await accounts.create(POD, pod_body(name="p"))
    node = await accounts.create(NODE, {"metadata": {"name": "n"}})
    token = accounts.issue(account, pod=pod, node=node)
    await accounts.server.delete(NODE, "n")
    assert await accounts.tokens.identify(token, ()) is not None


async def test_audiences(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    found = await accounts.tokens.identify(token, ("vault", ISSUER))
    assert found is not None
    assert found.audiences == (ISSUER,)
    assert await accounts.refusal(token, "vault") == (
        f'token audiences ["{ISSUER}"] is invalid for the target audiences ["vault"]'
    )


def claims(**changes: object) -> dict[str, Any]:
    private = {"namespace": "default", "serviceaccount": {"name": "ci", "uid": "u"}}
    good = {"iss": ISSUER, "sub": "system:serviceaccount:default:ci", "aud": [ISSUER], "exp": 1 << 40, "nbf": 0}
    return good | {"jti": "t", "kubernetes.io": private} | changes


@pytest.mark.parametrize(
    ("signed", "why"),
    [
        pytest.param(claims(sub="system:serviceaccount:kube-system:admin"), "subject is not", id="another subject"),
        pytest.param(claims(exp="never"), "claims are not those", id="a time that is none"),
        pytest.param(claims(aud="api"), "claims are not those", id="audience that is no list"),
        pytest.param({"iss": ISSUER}, "claims are not those", id="nothing but the issuer"),
        pytest.param(claims(), "ServiceAccount ci of the token is gone", id="an account that never was"),
    ],
)
async def test_a_good_signature_is_not_enough(accounts: Accounts, signed: dict[str, Any], why: str) -> None:
    assert why in await accounts.refusal(KEY.sign(signed))


async def test_tokens_of_others_are_left_to_others(accounts: Accounts) -> None:
    assert await accounts.tokens.identify("opaque", ()) is None
    assert await accounts.tokens.identify(KEY.sign(claims(iss="https://elsewhere")), ()) is None
    assert await accounts.refusal(SigningKey.new().sign(claims())) == "the token was signed with another key"


def test_signing_key_is_created_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    first = ensure_signing_key(folder)
    assert ensure_signing_key(folder).id == first.id
    assert stat.S_IMODE((folder / "sa.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_broken_signing_key_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sa.key").write_text("nonsense")
    with pytest.raises(BadSigningKey, match=r"sa\.key does not contain a key .* remove it to create a new one"):
        ensure_signing_key(tmp_path)
    assert (tmp_path / "sa.key").read_text() == "nonsense"
