"""What one candidate for leadership knows of the Lease, and what it may do about it.

The pure half of leader election; `leader_election` does the asking and the waiting. It reads no clock: moments are
seconds of the candidate's own monotonic clock, passed in. Dates inside the Lease are for people and are never
compared, since the clocks of two machines need not agree.

Why two never lead at once. The holder counts from the moment it *sent* its last acknowledged write, and stops acting
`renew_deadline` later. Another counts from the moment it first *saw* that write, which is no earlier, and claims the
lease `lease_duration` later, by compare-and-swap on that very write. In between lie `lease_duration - renew_deadline`
seconds: the longest the holder may be frozen, or take to wind down, without overlap. Beyond that no lease can help,
and what keeps order is that every write of a controller carries the version it relies on.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mooring.api.views.lease import Lease

#: Pauses between tries are stretched by up to this share of themselves, so that candidates do not march in step.
#: As client-go has it.
JITTER: Final = 1.2

#: Members of a Lease's `spec`.
Fields = Mapping[str, str | int]


@dataclass(frozen=True)
class Timings:
    """Seconds; the defaults are those of the core Kubernetes components."""

    #: How long others leave a lease alone that does not change. Whole seconds, since the Lease carries it.
    lease_duration: int = 15
    #: How long the holder acts without a successful renewal.
    renew_deadline: float = 10.0
    #: How often the holder renews, and the shortest pause between two tries of a candidate.
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError(f"renewDeadline must be greater than retryPeriod*{JITTER}")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")

    @property
    def patience(self) -> float:
        """How long one request may take: half the deadline, as upstream sets it, so that a hung one leaves time for
        another."""
        return self.renew_deadline / 2


@dataclass(frozen=True)
class Create:
    """There is no Lease: make it."""

    spec: Fields


@dataclass(frozen=True)
class Swap:
    """Set these fields if the Lease still has this version."""

    spec: Fields
    version: str


class Candidacy:
    """`saw` and `won` bring the facts, `move` says what to do with them, `leads` whether to act.

    `identity` must be one incarnation's alone: who finds its own identity in the Lease takes it without waiting.
    """

    def __init__(self, identity: str, timings: Timings) -> None:
        if not identity:
            raise ValueError("a candidate needs an identity: an empty holder means that a lease is free")
        self.identity = identity
        self._timings = timings
        #: The Lease as last seen or written; None while it does not exist as far as is known.
        self._lease: Lease | None = None
        #: When the Lease first looked as it does.
        self._seen = -math.inf
        #: When the last acknowledged write was sent, and whether nothing seen since speaks against it.
        self._term_began = -math.inf
        self._in_office = False
        #: Whether a write was sent of which nothing has been heard.
        self._in_doubt = False

    @property
    def holder(self) -> str:
        """Who holds the lease as far as is known; empty if nobody."""
        return "" if self._lease is None else self._lease.spec.holder_identity

    @property
    def renews_from(self) -> float:
        """The moment at which whoever leads renews for the first time."""
        return self._term_began + self._timings.retry_period

    @property
    def leads_until(self) -> float:
        """The moment at which to stop acting unless a renewal succeeds before it; in the past for who does not lead."""
        return self._term_began + self._timings.renew_deadline if self._in_office else -math.inf

    @property
    def exclusive_until(self) -> float:
        """The moment from which on another may lead, counted from the last successful renewal."""
        return self._term_began + self._timings.lease_duration

    @property
    def claimable_from(self) -> float:
        """The moment from which on the lease may be claimed; in the past if nobody else holds it.

        By the holder's own word on how long its lease lasts, which need not be what this candidate would say.
        """
        if self._lease is None or self.holder in ("", self.identity):
            return -math.inf
        return self._seen + self._lease.spec.lease_duration_seconds

    @property
    def informed(self) -> bool:
        """Whether the lease is ours and its version known, so that a renewal needs no look first."""
        return self.holder == self.identity and not self._in_doubt

    @property
    def entangled(self) -> bool:
        """Whether the lease is ours or may be, so that somebody who leaves has something to give back."""
        return self.holder == self.identity or self._in_doubt

    def leads(self, now: float) -> bool:
        return now < self.leads_until

    def saw(self, lease: Lease | None, *, now: float) -> None:
        """The server answered with this Lease, or that there is none."""
        if lease is None or self._lease is None or lease.spec != self._lease.spec:
            self._seen = now
        self._lease = lease
        self._in_doubt = False
        if self.holder != self.identity:
            self._in_office = False

    def sends(self) -> None:
        """A write goes out: until its answer comes, the Lease may have changed or not."""
        self._in_doubt = True

    def won(self, lease: Lease, *, sent: float) -> None:
        """The server acknowledged a claim or renewal that was sent at that moment."""
        self._lease = lease
        self._seen = self._term_began = sent
        self._in_office = True
        self._in_doubt = False

    def move(self, *, now: float, date: str) -> Create | Swap | None:
        """What to do about the Lease as it is known; None while another holds it.

        `date` is what people shall read as the time of it.
        """
        if now < self.claimable_from:
            return None
        renewal: Fields = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timings.lease_duration,
            "renewTime": date,
        }
        if self._lease is None:
            return Create({**renewal, "acquireTime": date, "leaseTransitions": 0})
        version = self._lease.metadata.resource_version
        if self.holder == self.identity:
            return Swap(renewal, version)
        transitions = self._lease.spec.lease_transitions + 1
        return Swap({**renewal, "acquireTime": date, "leaseTransitions": transitions}, version)

    def resignation(self, *, date: str) -> Swap | None:
        """How to give the lease back for others to take at once; None if it is not ours. For who has stopped acting."""
        if self._lease is None or self.holder != self.identity:
            return None
        # One second is the least a Lease may say; without a holder it means nothing.
        free: Fields = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": date, "acquireTime": date}
        return Swap(free, self._lease.metadata.resource_version)

    def rest(self, *, now: float, chance: float) -> float:
        """Seconds until the next try for the lease, `chance` being a random number between 0 and 1.

        A jittered retry period, or less if the lease of a silent holder ends before that.
        """
        pause = self._timings.retry_period * (1.0 + JITTER * chance)
        return min(pause, self.claimable_from - now) if now < self.claimable_from else pause
