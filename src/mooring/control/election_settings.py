"""What flags and configuration files say about leader election, and what follows when they are laid over each other.

Pure; `leader_election` does the electing. A source that says nothing about a setting leaves it to the next one.
"""

from dataclasses import dataclass, fields
from typing import Final

from mooring.control.candidacy import Timings

#: Where upstream's components keep their leases.
LEASE_NAMESPACE: Final = "kube-system"


class BadElection(ValueError):
    """Settings that cannot work together; the text names them as configuration files do."""


@dataclass(frozen=True)
class ElectionSettings:
    """None is a setting nobody has made. Durations are seconds."""

    leader_elect: bool | None = None
    lease_duration: float | None = None
    renew_deadline: float | None = None
    retry_period: float | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None

    def over(self, other: "ElectionSettings") -> "ElectionSettings":
        """These settings, and the other's where these say nothing."""
        names = [each.name for each in fields(self)]
        return ElectionSettings(
            **{name: getattr(other if getattr(self, name) is None else self, name) for name in names}
        )

    def settled(self, *, name: str) -> "Election | None":
        """The election these settings ask for, with upstream's defaults and this name for the Lease; None where
        every instance shall act. Raises BadElection."""
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
    """The Lease on which several instances agree who acts."""

    name: str
    namespace: str
    timings: Timings
