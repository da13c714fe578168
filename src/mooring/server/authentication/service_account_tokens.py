"""Tokens of service accounts: what they claim, how they are issued, and when they are still good.

A token names its account by uid and may be bound to a pod, a secret or a node: it is good until it expires, and no
longer than the account and what it is bound to exist. Both are looked up at every use, so a deletion counts at once;
an object that stays for its finalizers counts as gone a minute after it should have gone.
Claims are spelled as kube-apiserver spells them; signing is `json_web_tokens`'.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from mooring.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from mooring.api.timestamps import from_time
from mooring.api.views.meta import ApiObject
from mooring.clock import Clock
from mooring.server.authentication.json_web_tokens import SigningKey, unverified_claims
from mooring.server.authentication.service_accounts import service_account, user_name
from mooring.server.authentication.tokens import BadToken, Identified, Tokens, authenticated
from mooring.server.contract import User
from mooring.server.objects import Objects

#: kube-apiserver's usual issuer, and the audience tokens have that name none.
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"

#: What tokens may be bound to, by the name of the claim.
BINDABLE: Final[Mapping[str, Kind[Any]]] = {"pod": POD, "secret": SECRET, "node": NODE}

#: Tokens whose signature was found good lately. Checking one takes a tenth of a millisecond.
_REMEMBERED: Final = 256

#: Seconds after its deletion time for which an object that is still there counts; upstream's leeway for clocks.
_LEEWAY: Final = 60.0

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
    """Issues and checks. `audiences` are the names this API server answers to; the first is the default."""

    def __init__(
        self, key: SigningKey, objects: Objects, clock: Clock, *, issuer: str = ISSUER, audiences: Sequence[str] = ()
    ) -> None:
        self._key = key
        self._objects = objects
        self._clock = clock
        self._issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._verified = lru_cache(_REMEMBERED)(self._verify)

    def issue(
        self,
        account: ApiObject,
        *,
        audiences: Sequence[str],
        seconds: int,
        token_id: str,
        bound: Mapping[str, ApiObject] | None = None,
    ) -> Issued:
        """`bound` is what the token shall not outlive, under the names of `BINDABLE`."""
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
            "sub": user_name(account.namespace, account.name),
        }
        return Issued(self._key.sign(claims), float(now + seconds))

    async def identify(self, token: str, audiences: Sequence[str]) -> Identified | None:
        if (unverified_claims(token) or {}).get("iss") != self._issuer:
            return None
        claims = self._verified(token)
        asked = tuple(audiences) or self.audiences
        good_for = tuple(audience for audience in asked if audience in claims.aud)
        if not good_for:
            raise BadToken(
                f"token audiences {_listed(claims.aud)} is invalid for the target audiences {_listed(asked)}"
            )
        now = self._clock.now()
        if now >= claims.exp:
            raise BadToken("service account token has expired")
        if now < claims.nbf:
            raise BadToken("service account token is not valid yet")
        await self._check_objects(claims.private)
        return Identified(authenticated(_user(claims)), good_for)

    def _verify(self, token: str) -> Claims:
        """Raises BadToken."""
        given = self._key.verify(token)
        try:
            claims = msgspec.convert(given, Claims)
        except msgspec.ValidationError as error:
            raise BadToken(f"the token's claims are not those of a service account: {error}") from error
        if claims.sub != user_name(claims.private.namespace, claims.private.serviceaccount.name):
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
        """A pod bound to a node takes its token with it: then the pod alone is looked at, as upstream does."""
        found = await self._objects.view(kind, namespace, reference.name)
        if found is None or found.uid != reference.uid:
            raise BadToken(f"{kind.kind} {reference.name} of the token is gone")
        deleted = found.metadata.deletion_timestamp
        if deleted is not None and from_time(deleted) < self._clock.now() - _LEEWAY:
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


def _listed(audiences: Sequence[str]) -> str:
    return "[" + " ".join(f'"{audience}"' for audience in audiences) + "]"


_contract: type[Tokens] = ServiceAccountTokens
