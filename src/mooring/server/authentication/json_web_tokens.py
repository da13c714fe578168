"""JSON Web Tokens, as much of them as service accounts need: one algorithm, ES256, and no choices for the sender.

A token is judged by keys we hold and the algorithm they are for; what its header says about either can only make it
be refused. Claims are the caller's business. Imports `cryptography`, so import it where it is needed and not before.
"""

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from mooring.server.authentication.tokens import BadToken

ALGORITHM: Final = "ES256"
#: Ours are about a kilobyte. Whatever is longer is not worth a look.
MAX_CHARACTERS: Final = 16 * 1024
#: r and s of a P-256 signature, which JOSE writes one after the other.
_HALF: Final = 32


class SigningKey:
    """The key pair of one issuer."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        if not isinstance(key.curve, ec.SECP256R1):
            raise ValueError(f"service account tokens are signed with a P-256 key, not with {key.curve.name}")
        self._key = key
        self._public = key.public_key()
        self.id = _key_id(self._public)

    @classmethod
    def new(cls) -> "SigningKey":
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def from_pem(cls, pem: bytes) -> "SigningKey":
        """Raises ValueError."""
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except TypeError as error:
            raise ValueError("the key is encrypted") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("service account tokens are signed with a P-256 key")
        return cls(key)

    def to_pem(self) -> bytes:
        form = serialization.PrivateFormat.PKCS8
        return self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())

    def sign(self, claims: Mapping[str, Any]) -> str:
        header = {"alg": ALGORITHM, "kid": self.id}
        signed = b".".join(_encode(msgspec.json.encode(part)) for part in (header, claims))
        r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_HALF, "big") + s.to_bytes(_HALF, "big")
        return (signed + b"." + _encode(signature)).decode()

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that this key signed. Raises BadToken."""
        header, claims, signature = _split(token)
        if header.get("alg") != ALGORITHM or header.get("kid", self.id) != self.id:
            raise BadToken("the token was signed with another key")
        if len(signature) != 2 * _HALF:
            raise BadToken("the token's signature is not one")
        r, s = int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big")
        signed = token.rpartition(".")[0].encode()
        try:
            self._public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature as error:
            raise BadToken("the token's signature is wrong") from error
        return claims


def unverified_claims(token: str) -> dict[str, Any] | None:
    """What a token says of itself, for deciding whose it might be; None where it is no JSON Web Token."""
    try:
        return _split(token)[1]
    except BadToken:
        return None


def _split(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Header, claims and signature. Raises BadToken."""
    parts = token.split(".") if len(token) <= MAX_CHARACTERS else []
    if len(parts) != 3:
        raise BadToken("this is no JSON Web Token")
    try:
        header, claims = (msgspec.json.decode(_decode(part), type=dict[str, Any]) for part in parts[:2])
        return header, claims, _decode(parts[2])
    except (ValueError, RecursionError) as error:  # binascii's and msgspec's errors are ValueErrors
        raise BadToken("this is no JSON Web Token") from error


def _encode(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")


def _decode(part: str) -> bytes:
    """Strict: one value has one spelling, or a token could be changed and still be good. Raises ValueError."""
    raw = urlsafe_b64decode(part.encode("ascii") + b"=" * (-len(part) % 4))
    if _encode(raw) != part.encode("ascii"):
        raise binascii.Error("not base64url")
    return raw


def _key_id(key: ec.EllipticCurvePublicKey) -> str:
    """As kube-apiserver names keys: the digest of the public one."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).digest()
    return _encode(digest).decode()
