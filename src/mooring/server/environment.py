"""What every verb works with: the objects, the time, where unpredictable names come from, who asks, and who is creating
where."""

import random
import uuid
from dataclasses import dataclass, field
from typing import Final

from mooring.api.timestamps import to_time
from mooring.clock import Clock
from mooring.server.contract import User
from mooring.server.namespace_gates import NamespaceGates
from mooring.server.objects import Objects
from mooring.server.security import Security

#: Letters of generated names, without vowels and look-alikes so that no words and no confusion arise; upstream's.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
#: What a generateName is cut to: a DNS label (63) less the suffix.
_MAX_PREFIX: Final = 58


_NOBODY: Final = User("")


@dataclass(frozen=True)
class Environment:
    objects: Objects
    clock: Clock
    rng: random.Random
    gates: NamespaceGates = field(default_factory=NamespaceGates)
    security: Security = field(default_factory=Security)
    #: Who asks; nobody outside of a request.
    user: User = _NOBODY

    def of(self, user: User) -> "Environment":
        """The same for one request of this user."""
        return Environment(self.objects, self.clock, self.rng, self.gates, self.security, user)

    def now(self) -> str:
        """The moment, as objects spell it."""
        return to_time(self.clock.now())

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def new_name(self, prefix: str) -> str:
        """A name for `generateName`."""
        return prefix[:_MAX_PREFIX] + "".join(self.rng.choices(_ALPHABET, k=_SUFFIX_LENGTH))
