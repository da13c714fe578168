"""Service account tokens: JSON Web Tokens (ES256 only), their signing key, issue and verification.

A token is valid until it expires and while its account and the object it is bound to exist (by uid). Both are read at
every use, so a deletion takes effect at once. Claims are those of kube-apiserver. The header cannot choose key or
algorithm. Imports `cryptography`, so import this module only where it is needed.
"""

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from mooring.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from mooring.api.times import from_time
from mooring.api.views.meta import ApiObject
from mooring.clock import Clock
from mooring.server.auth.authenticator import AuthenticatedUser, BadToken, authenticated
from mooring.server.auth.rbac import quoted, service_account, service_account_user_name
from mooring.server.auth.server_files import write_private
from mooring.server.contract import User
from mooring.server.objects import Objects

ALGORITHM: Final = "ES256"
#: Tokens of this server have about a kilobyte.
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
            raise BadToken("the token's signature has the wrong length")
        r, s = int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big")
        signed = token.rpartition(".")[0].encode()
        try:
            self._public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature as error:
            raise BadToken("the token's signature is wrong") from error
        return claims


def unverified_claims(token: str) -> dict[str, Any] | None:
    """The claims before verification, to find the issuer; None if it is not a JSON Web Token."""
    try:
        return _split(token)[1]
    except BadToken:
        return None


def _split(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Header, claims and signature. Raises BadToken."""
    parts = token.split(".") if len(token) <= MAX_CHARACTERS else []
    if len(parts) != 3:
        raise BadToken("the token is not a JSON Web Token")
    try:
        header, claims = (msgspec.json.decode(_decode(part), type=dict[str, Any]) for part in parts[:2])
        return header, claims, _decode(parts[2])
    except (ValueError, RecursionError) as error:  # binascii's and msgspec's errors are ValueErrors
        raise BadToken("the token is not a JSON Web Token") from error


def _encode(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")


def _decode(part: str) -> bytes:
    """Strict: with a second encoding of a value, a changed token would stay valid. Raises ValueError."""
    raw = urlsafe_b64decode(part.encode("ascii") + b"=" * (-len(part) % 4))
    if _encode(raw) != part.encode("ascii"):
        raise binascii.Error("not base64url")
    return raw


def _key_id(key: ec.EllipticCurvePublicKey) -> str:
    """As in kube-apiserver: the digest of the public key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).digest()
    return _encode(digest).decode()


#: kube-apiserver's usual issuer, and the default audience.
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"

#: Kinds a token may be bound to, by claim.
BINDABLE: Final[Mapping[str, Kind[Any]]] = {"pod": POD, "secret": SECRET, "node": NODE}

#: Tokens with a verified signature; verification takes a tenth of a millisecond.
_CACHE_SIZE: Final = 256

#: For which an object with finalizers still counts after its deletionTimestamp; kube-apiserver's clock leeway.
_LEEWAY_SECONDS: Final = 60.0

_EXTRA: Final = "authentication.kubernetes.io/"


class _Reference(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Private(msgspec.Struct, frozen=True):
    namespace: str
    serviceaccount: _Reference
    pod: _Reference | None = None
    secret: _Reference | None = None
    node: _Reference | None = None


class Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: tuple[str, ...]
    exp: int
    nbf: int
    jti: str
    private: _Private = msgspec.field(name="kubernetes.io")


class Issued(msgspec.Struct, frozen=True):
    token: str
    #: Seconds since the epoch.
    expires: float


class ServiceAccountTokens:
    """Issues and verifies tokens. `audiences` are those of this API server; the first is the default."""

    def __init__(
        self, key: SigningKey, objects: Objects, clock: Clock, *, issuer: str = ISSUER, audiences: Sequence[str] = ()
    ) -> None:
        self._key = key
        self._objects = objects
        self._clock = clock
        self._issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._verified = lru_cache(_CACHE_SIZE)(self._verify)

    def issue(
        self,
        account: ApiObject,
        *,
        audiences: Sequence[str],
        seconds: int,
        token_id: str,
        bound: Mapping[str, ApiObject] | None = None,
    ) -> Issued:
        """`bound` are the objects the token is bound to, by the claims of `BINDABLE`."""
        now = int(self._clock.now())
        private = {"namespace": account.namespace, "serviceaccount": _named(account)}
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self._issuer,
            "jti": token_id,
            "kubernetes.io": private | {claim: _named(obj) for claim, obj in (bound or {}).items()},
            "nbf": now,
            "sub": service_account_user_name(account.namespace, account.name),
        }
        return Issued(self._key.sign(claims), float(now + seconds))

    async def identify(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        if (unverified_claims(token) or {}).get("iss") != self._issuer:
            return None
        claims = self._verified(token)
        asked = tuple(audiences) or self.audiences
        good_for = tuple(audience for audience in asked if audience in claims.aud)
        if not good_for:
            raise BadToken(f"token audiences {quoted(claims.aud)} is invalid for the target audiences {quoted(asked)}")
        now = self._clock.now()
        if now >= claims.exp:
            raise BadToken("service account token has expired")
        if now < claims.nbf:
            raise BadToken("service account token is not valid yet")
        await self._check_objects(claims.private)
        return AuthenticatedUser(authenticated(_user(claims)), good_for)

    def _verify(self, token: str) -> Claims:
        """Raises BadToken."""
        verified = self._key.verify(token)
        try:
            claims = msgspec.convert(verified, Claims)
        except msgspec.ValidationError as error:
            raise BadToken(f"the token's claims are not those of a service account: {error}") from error
        if claims.sub != service_account_user_name(claims.private.namespace, claims.private.serviceaccount.name):
            raise BadToken("the token's subject is not its service account")
        return claims

    async def _check_objects(self, private: _Private) -> None:
        namespace = private.namespace
        await self._check(SERVICE_ACCOUNT, namespace, private.serviceaccount)
        for claim, kind in BINDABLE.items():
            reference = getattr(private, claim)
            if reference is not None and not (claim == "node" and private.pod is not None):
                await self._check(kind, namespace if kind.namespaced else "", reference)

    async def _check(self, kind: Kind[ApiObject], namespace: str, reference: _Reference) -> None:
        """The node of a pod's token is not checked, as upstream does: the pod is."""
        found = await self._objects.view(kind, namespace, reference.name)
        if found is None or found.uid != reference.uid:
            raise BadToken(f"{kind.kind} {reference.name} of the token is gone")
        deleted = found.metadata.deletion_timestamp
        if deleted is not None and from_time(deleted) < self._clock.now() - _LEEWAY_SECONDS:
            raise BadToken(f"{kind.kind} {reference.name} of the token has been deleted")


def _user(claims: Claims) -> User:
    private = claims.private
    extra = {f"{_EXTRA}credential-id": (f"JTI={claims.jti}",)}
    for claim, reference in (("node", private.node), ("pod", private.pod)):
        if reference is not None:
            extra |= {f"{_EXTRA}{claim}-name": (reference.name,), f"{_EXTRA}{claim}-uid": (reference.uid,)}
    return service_account(private.namespace, private.serviceaccount.name, private.serviceaccount.uid, extra)


def _named(obj: ApiObject) -> dict[str, str]:
    return {"name": obj.name, "uid": obj.uid}


NAME = "sa.key"


class BadSigningKey(Exception):
    """The file does not contain a signing key; the text says what to do."""


def ensure_signing_key(directory: Path) -> SigningKey:
    """The key of the folder, created if missing; a new key invalidates all tokens. Raises BadSigningKey."""
    file = directory / NAME
    try:
        return SigningKey.from_pem(file.read_bytes())
    except FileNotFoundError:
        key = SigningKey.new()
        write_private(file, key.to_pem())
        return key
    except ValueError as error:
        raise BadSigningKey(
            f"{file} does not contain a key for service account tokens ({error}): restore it, or remove it to create "
            f"a new one, which invalidates all issued tokens."
        ) from error
