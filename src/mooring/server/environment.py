"""RequestContext and AdmissionRequest: what verbs and admission steps work with; buffered system randomness."""

import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from mooring.api.documents import Body
from mooring.api.errors import Cause, Details, Forbidden
from mooring.api.kinds import Kind
from mooring.api.times import to_time
from mooring.clock import Clock
from mooring.server.auth.access import Authorizer
from mooring.server.auth.authorizer import Security
from mooring.server.contract import User
from mooring.server.encoding import meta
from mooring.server.objects import Objects

#: Sixteen bytes a uid: one system call for 256 of them.
BLOCK_BYTES: Final = 4096


class SystemEntropy(random.SystemRandom):
    """`random.SystemRandom` with one system call per block. Not thread-safe. Reproducible runs pass a seeded Random."""

    def __init__(self) -> None:
        super().__init__()
        self._block = b""
        self._used = 0

    def getrandbits(self, k: int, /) -> int:
        size = (k + 7) // 8
        return int.from_bytes(self.randbytes(size)) >> (size * 8 - k)

    def randbytes(self, n: int) -> bytes:
        if n > BLOCK_BYTES:
            return os.urandom(n)
        if self._used + n > len(self._block):
            self._block, self._used = os.urandom(BLOCK_BYTES), 0
        taken = self._block[self._used : self._used + n]
        self._used += n
        return taken


#: Kubernetes' letters of generated names, without vowels and look-alikes.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
#: Of a generateName: a DNS label (63) less the suffix.
_MAX_PREFIX_CHARACTERS: Final = 58

#: Random bits of a version 4 UUID, and its version bits.
_UUID_FREE: Final = ~(0xF000 << 64 | 0xC000 << 48)
_UUID_VERSION_4: Final = 0x4000 << 64 | 0x8000 << 48

_NO_USER: Final = User("")

#: Bodies and stored objects from this size on are processed off the event loop. Decoding and validating takes up to
#: some hundred nanoseconds per byte.
LARGE_BYTES: Final = 32 * 1024

T = TypeVar("T")


class Compute(Protocol):
    """Runs a pure step of a request."""

    async def __call__(self, step: Callable[[], T], /) -> T: ...


async def at_once(step: Callable[[], T], /) -> T:
    """On the event loop: for simulated clusters and servers without a worker thread."""
    return step()


@dataclass(frozen=True)
class RequestContext:
    objects: Objects
    clock: Clock
    rng: random.Random
    security: Security = field(default_factory=Security)
    user: User = _NO_USER
    #: The feature gate ClaimRollback.
    claim_rollback: bool = False
    #: Runs the steps of large requests.
    off_loop: Compute = at_once

    def of(self, user: User) -> "RequestContext":
        """The context of one request of this user."""
        return RequestContext(
            self.objects, self.clock, self.rng, self.security, user, self.claim_rollback, self.off_loop
        )

    async def run(self, step: Callable[[], T], size: int) -> T:
        """Run a step on `size` bytes. It must be pure: it may run in another thread."""
        return step() if size < LARGE_BYTES else await self.off_loop(step)

    def now(self) -> str:
        """The time in RFC 3339, as in objects."""
        return to_time(self.clock.now())

    def new_uid(self) -> str:
        """A random UUID (RFC 9562, version 4), formatted here because `uuid.UUID` takes five times as long."""
        digits = f"{self.rng.getrandbits(128) & _UUID_FREE | _UUID_VERSION_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def new_name(self, prefix: str) -> str:
        """A name for `generateName`."""
        return prefix[:_MAX_PREFIX_CHARACTERS] + "".join(self.rng.choices(_ALPHABET, k=_SUFFIX_LENGTH))


@dataclass(frozen=True)
class AdmissionRequest:
    """One write in admission. Steps change `new` in place and append to `warnings`."""

    kind: Kind[Any]
    namespace: str
    new: Body
    environment: RequestContext
    #: The stored object; None for a create.
    old: Body | None = None
    warnings: list[str] = field(default_factory=list)
    #: The name in the request's URL; "" for a POST to a collection.
    requested_name: str = ""
    #: The metadata of the request, before system fields were set.
    sent_metadata: Body = field(default_factory=dict)

    @property
    def objects(self) -> Objects:
        return self.environment.objects

    @property
    def user(self) -> User:
        return self.environment.user

    @property
    def access(self) -> Authorizer:
        return self.environment.security.access

    def forbidden(self, reason: str, *causes: Cause) -> Forbidden:
        """kube-apiserver's Forbidden error."""
        kind, name = self.kind, meta(self.new).get("name") or meta(self.new).get("generateName", "")
        resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        return Forbidden(
            f'{resource} "{name}" is forbidden: {reason}',
            details=Details(name=name, group=kind.group, kind=kind.plural, causes=causes),
        )


Step: TypeAlias = Callable[[AdmissionRequest], Awaitable[None]]
