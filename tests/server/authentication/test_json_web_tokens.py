"""Signing, and everything that must not pass for a signature."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from mooring.server.authentication.json_web_tokens import MAX_CHARACTERS, SigningKey, unverified_claims
from mooring.server.authentication.tokens import BadToken

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
def test_what_is_not_ours_is_refused(token: str) -> None:
    with pytest.raises(BadToken):
        KEY.verify(token)


@given(place=st.integers(0, len(TOKEN) - 1), letter=st.sampled_from("abcdefghXYZ0189-_.="))
def test_no_letter_can_be_changed(place: int, letter: str) -> None:
    """The last letter of base64 has bits nobody reads: it too must be as it was written."""
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
