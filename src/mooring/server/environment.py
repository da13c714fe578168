"""What every verb works with: the objects, the time, where unpredictable names come from, and who asks."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from mooring.api.timestamps import to_time
from mooring.clock import Clock
from mooring.server.contract import User
from mooring.server.objects import Objects
from mooring.server.security import Security

#: Letters of generated names, without vowels and look-alikes so that no words and no confusion arise; upstream's.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
#: What a generateName is cut to: a DNS label (63) less the suffix.
_MAX_PREFIX: Final = 58

#: The bits of a UUID that are random in version 4, and those that say it is one.
_UUID_FREE: Final = ~(0xF000 << 64 | 0xC000 << 48)
_UUID_VERSION_4: Final = 0x4000 << 64 | 0x8000 << 48

_NOBODY: Final = User("")

#: From this size on, of a body or of a stored object, steps leave the event loop. Reading and judging JSON takes some
#: hundred nanoseconds a byte where it is dear.
LARGE_BYTES: Final = 32 * 1024

T = TypeVar("T")


class Compute(Protocol):
    """Runs a step of a request that is a pure function."""

    async def __call__(self, step: Callable[[], T], /) -> T: ...


async def at_once(step: Callable[[], T], /) -> T:
    """Where the step is: in the simulated world, and wherever a server has no thread to spare."""
    return step()


@dataclass(frozen=True)
class Environment:
    objects: Objects
    clock: Clock
    rng: random.Random
    security: Security = field(default_factory=Security)
    #: Who asks; nobody outside of a request.
    user: User = _NOBODY
    #: Whether claims that no pod has used may lose their volumes: the feature gate ClaimRollback.
    claim_rollback: bool = False
    #: Runs the steps of large requests, beside the event loop where there is one to keep free.
    off_loop: Compute = at_once

    def of(self, user: User) -> "Environment":
        """The same for one request of this user."""
        return Environment(self.objects, self.clock, self.rng, self.security, user, self.claim_rollback, self.off_loop)

    async def run(self, step: Callable[[], T], size: int) -> T:
        """The result of a step that works on so many bytes. It must be pure: it may run in another thread."""
        return step() if size < LARGE_BYTES else await self.off_loop(step)

    def now(self) -> str:
        """The moment, as objects spell it."""
        return to_time(self.clock.now())

    def new_uid(self) -> str:
        """A random UUID (RFC 9562, version 4), spelt here because `uuid.UUID` takes five times as long."""
        digits = f"{self.rng.getrandbits(128) & _UUID_FREE | _UUID_VERSION_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def new_name(self, prefix: str) -> str:
        """A name for `generateName`."""
        return prefix[:_MAX_PREFIX] + "".join(self.rng.choices(_ALPHABET, k=_SUFFIX_LENGTH))
