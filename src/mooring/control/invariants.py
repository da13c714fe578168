"""Assertions in the product: what must hold before an irreversible write, checked where the check is cheap.

A violation is a bug of this process or of another writer. It is logged with the object, counted in the metric
`mooring_invariant_violations_total`, and raised as `InvariantViolated`, which stops the handling of that object and of
nothing else: a worker leaves the object alone until it changes, a scheduler sets the pod aside. The simulated world
counts every violation as a failure of the run.

`INVARIANTS` is the list of all of them, with what each protects.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.views.meta import ApiObject

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Logged for every violation.
VIOLATED: Final = "invariant violated"


class Invariant(enum.Enum):
    """The values are those of the metric's label."""

    COMMIT_MATCHES_CLAIM = "commit_matches_claim"
    ROLLBACK_NEVER_BOUND = "rollback_never_bound"
    CLAIMS_BOUND_BEFORE_POD = "claims_bound_before_pod"
    RESERVATION_MATCHES_CLAIM = "reservation_matches_claim"


#: What each protects.
INVARIANTS: Final[Mapping[Invariant, str]] = {
    Invariant.COMMIT_MATCHES_CLAIM: "a held volume is committed to the claim that it is held for, by uid",
    Invariant.ROLLBACK_NEVER_BOUND: "a rollback deletes the storage of a volume only if no claim was ever bound to it",
    Invariant.CLAIMS_BOUND_BEFORE_POD: "a pod is bound to its node only after the claims that wait for it are bound",
    Invariant.RESERVATION_MATCHES_CLAIM: "a volume is reserved for a claim only if it belongs to no other, by uid",
}


class InvariantViolated(Exception):
    """Handling of the object stops here. Already logged and counted."""

    def __init__(self, invariant: Invariant, text: str) -> None:
        super().__init__(f"{invariant.value}: {text}")
        self.invariant = invariant


class InvariantChecks:
    """Counts violations for one process; without `count` they are logged and raised only."""

    def __init__(self, count: Callable[[Invariant], None] = lambda _: None) -> None:
        self._count = count

    def require(self, holds: bool, invariant: Invariant, about: ApiObject, detail: str) -> None:
        """Raises InvariantViolated unless it holds. `detail` says what was found."""
        if holds:
            return
        log.error(
            VIOLATED,
            invariant=invariant.value,
            protects=INVARIANTS[invariant],
            kind=type(about).__name__,
            object=about.key,
            uid=about.uid,
            resource_version=about.metadata.resource_version,
            detail=detail,
        )
        self._count(invariant)
        raise InvariantViolated(invariant, f"{about.key}: {detail}")


UNCOUNTED: Final = InvariantChecks()
