"""Checks before irreversible writes.

A violation is a bug of this process or of another writer. It is logged with the object and its history, counted in
`mooring_invariant_violations_total`, and raised as `InvariantViolated`, which stops only the handling of that object
until it changes. A simulated run fails on any violation.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.views.meta import ApiObject

log: FilteringBoundLogger = structlog.get_logger(__name__)

VIOLATED: Final = "invariant violated"


class Invariant(enum.Enum):
    """Values are metric labels."""

    COMMIT_MATCHES_CLAIM = "commit_matches_claim"
    ROLLBACK_NEVER_BOUND = "rollback_never_bound"
    CLAIMS_BOUND_BEFORE_POD = "claims_bound_before_pod"
    RESERVATION_MATCHES_CLAIM = "reservation_matches_claim"


INVARIANTS: Final[Mapping[Invariant, str]] = {
    Invariant.COMMIT_MATCHES_CLAIM: "a held volume is committed to the claim that it is held for, by uid",
    Invariant.ROLLBACK_NEVER_BOUND: "a rollback deletes the storage of a volume only if no claim was ever bound to it",
    Invariant.CLAIMS_BOUND_BEFORE_POD: "a pod is bound to its node only after the claims that wait for it are bound",
    Invariant.RESERVATION_MATCHES_CLAIM: "a volume is reserved for a claim only if it belongs to no other, by uid",
}


class InvariantViolated(Exception):
    """Already logged and counted."""

    def __init__(self, invariant: Invariant, text: str) -> None:
        super().__init__(f"{invariant.value}: {text}")
        self.invariant = invariant


class InvariantChecks:
    """Logs, counts and raises violations."""

    def __init__(self, count: Callable[[Invariant], None] = lambda _: None) -> None:
        self._count = count

    def require(
        self,
        holds: bool,
        invariant: Invariant,
        about: ApiObject,
        detail: str,
        history: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Raises InvariantViolated unless `holds`. `detail` describes the state found; `history` is called only then,
        for the changes of the object that this process has observed."""
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
            history=history(),
        )
        self._count(invariant)
        raise InvariantViolated(invariant, f"{about.key}: {detail}")


UNCOUNTED: Final = InvariantChecks()
