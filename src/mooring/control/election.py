"""Leader-election state of one candidate, and election settings. Pure; times are the candidate's monotonic clock.

Two candidates never lead at once: the holder stops acting `renew_deadline` after it *sent* its last acknowledged write;
another acquires the Lease `lease_duration` after it first *observed* that write, by compare-and-swap on it. The
difference is how long the holder may be suspended or take to stop. Beyond that, only the resourceVersion precondition
on every write of a controller protects. Timestamps inside the Lease are never compared: clocks of machines differ.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, NamedTuple

from mooring.api.views.core import Lease

#: client-go's jitter factor of the retry period.
JITTER: Final = 1.2

#: Members of a Lease's `spec`.
Fields = Mapping[str, str | int]


@dataclass(frozen=True)
class Timings:
    """Seconds; the defaults are those of the core Kubernetes components."""

    #: How long other candidates wait after the last renewal. Whole seconds, as the Lease field.
    lease_duration: int = 15
    #: How long the holder acts without a successful renewal.
    renew_deadline: float = 10.0
    #: How often the holder renews, and the minimum pause between two attempts of a candidate.
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError(f"renewDeadline must be greater than retryPeriod*{JITTER}")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")

    @property
    def request_timeout(self) -> float:
        """Half the deadline, as upstream, so that a hung request leaves time for another."""
        return self.renew_deadline / 2


class LeaseWrite(NamedTuple):
    """Fields to set if the Lease still has this resourceVersion; without one, the Lease is created."""

    spec: Fields
    version: str | None = None


class LeaseRecord:
    """What one candidate knows of the Lease; `next_write` is what to do about it, `leads` whether to act.

    `identity` must be unique to a process instance: a Lease that carries it is acquired without waiting.
    """

    def __init__(self, identity: str, timings: Timings) -> None:
        if not identity:
            raise ValueError("a candidate needs an identity: an empty holder means that a lease is free")
        self.identity = identity
        self._timings = timings
        #: The Lease as last read or written; None while it is not known to exist.
        self._lease: Lease | None = None
        #: When the current spec was first observed.
        self._seen = -math.inf
        #: When the last acknowledged write was sent, and whether no other holder was observed since.
        self._term_began = -math.inf
        self._leading = False
        #: Whether a write was sent whose response is missing.
        self._in_doubt = False

    @property
    def holder(self) -> str:
        """Identity of the last known holder, "" without one."""
        return "" if self._lease is None else self._lease.spec.holder_identity

    @property
    def renews_from(self) -> float:
        """When the leader renews for the first time."""
        return self._term_began + self._timings.retry_period

    @property
    def renew_deadline_at(self) -> float:
        """When to stop acting unless a renewal succeeds before; in the past for a non-leader."""
        return self._term_began + self._timings.renew_deadline if self._leading else -math.inf

    @property
    def exclusive_until(self) -> float:
        """When another candidate may start to lead, counted from the last successful renewal."""
        return self._term_began + self._timings.lease_duration

    @property
    def acquirable_at(self) -> float:
        """When the Lease may be acquired; in the past if no other candidate holds it. Uses the duration that the holder
        wrote, which need not be this candidate's."""
        if self._lease is None or self.holder in ("", self.identity):
            return -math.inf
        return self._seen + self._lease.spec.lease_duration_seconds

    @property
    def can_renew_without_read(self) -> bool:
        """Whether this candidate holds the Lease and knows its resourceVersion."""
        return self.holder == self.identity and not self._in_doubt

    @property
    def may_hold_lease(self) -> bool:
        """Whether this candidate holds the Lease or may hold it: it must be released on exit."""
        return self.holder == self.identity or self._in_doubt

    def leads(self, now: float) -> bool:
        return now < self.renew_deadline_at

    def observe(self, lease: Lease | None, *, now: float) -> None:
        """The server returned this Lease, or NotFound."""
        if lease is None or self._lease is None or lease.spec != self._lease.spec:
            self._seen = now
        self._lease = lease
        self._in_doubt = False
        if self.holder != self.identity:
            self._leading = False

    def write_started(self) -> None:
        """Until its response arrives, the Lease may have changed or not."""
        self._in_doubt = True

    def write_acknowledged(self, lease: Lease, *, sent: float) -> None:
        """The server acknowledged an acquisition or renewal that was sent at that moment."""
        self._lease = lease
        self._seen = self._term_began = sent
        self._leading = True
        self._in_doubt = False

    def next_write(self, *, now: float, date: str) -> LeaseWrite | None:
        """Acquire or renew, by what is known; None while another candidate holds the Lease. `date`: its timestamps."""
        if now < self.acquirable_at:
            return None
        renewal: Fields = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timings.lease_duration,
            "renewTime": date,
        }
        if self._lease is None:
            return LeaseWrite({**renewal, "acquireTime": date, "leaseTransitions": 0})
        version = self._lease.metadata.resource_version
        if self.holder == self.identity:
            return LeaseWrite(renewal, version)
        transitions = self._lease.spec.lease_transitions + 1
        return LeaseWrite({**renewal, "acquireTime": date, "leaseTransitions": transitions}, version)

    def release_write(self, *, date: str) -> LeaseWrite | None:
        """Release the Lease so that others acquire it at once; None if not held. Only after acting has stopped."""
        if self._lease is None or self.holder != self.identity:
            return None
        # The API's minimum; without a holder it has no meaning.
        free: Fields = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": date, "acquireTime": date}
        return LeaseWrite(free, self._lease.metadata.resource_version)

    def retry_delay(self, *, now: float, chance: float) -> float:
        """Seconds until the next attempt: a jittered retry period, or less if the Lease expires before. `chance` is a
        random number between 0 and 1."""
        pause = self._timings.retry_period * (1.0 + JITTER * chance)
        return min(pause, self.acquirable_at - now) if now < self.acquirable_at else pause


#: As upstream's components.
LEASE_NAMESPACE: Final = "kube-system"


class BadElection(ValueError):
    """Inconsistent settings; the text names them as configuration files do."""


@dataclass(frozen=True)
class ElectionSettings:
    """Settings from one flag set or configuration file; None where not set. Durations in seconds."""

    leader_elect: bool | None = None
    lease_duration: float | None = None
    renew_deadline: float | None = None
    retry_period: float | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None

    def over(self, other: "ElectionSettings") -> "ElectionSettings":
        """These settings, and the other's where these are not set."""
        return replace(other, **{name: value for name, value in asdict(self).items() if value is not None})

    def settled(self, *, name: str) -> "Election | None":
        """The election with upstream's defaults, `name` being the default Lease name; None without leader election.
        Raises BadElection."""
        if self.leader_elect is False:
            return None
        usual = Timings()
        duration = usual.lease_duration if self.lease_duration is None else self.lease_duration
        if duration != int(duration):
            raise BadElection("leaseDuration must be whole seconds")
        try:
            timings = Timings(
                int(duration),
                usual.renew_deadline if self.renew_deadline is None else self.renew_deadline,
                usual.retry_period if self.retry_period is None else self.retry_period,
            )
        except ValueError as error:
            raise BadElection(str(error)) from error
        lease, namespace = self.resource_name, self.resource_namespace
        if lease == "" or namespace == "":
            raise BadElection("resourceName and resourceNamespace must not be empty")
        return Election(lease or name, namespace or LEASE_NAMESPACE, timings)


@dataclass(frozen=True)
class Election:
    """Name, namespace and timings of the Lease of a component."""

    name: str
    namespace: str
    timings: Timings
