"""Kubernetes' spelling of moments: RFC 3339 in UTC, whole seconds (`Time`) or six digits (`MicroTime`)."""

from datetime import UTC, datetime
from functools import lru_cache


def to_time(epoch: float) -> str:
    """`metav1.Time`: whole seconds, as creationTimestamp carries them."""
    return _second(int(epoch))


# A server asks for the present second thousands of times.
@lru_cache(maxsize=8)
def _second(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_micro_time(epoch: float) -> str:
    """`metav1.MicroTime`: always six fractional digits, as Leases and new-style Events carry them."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_time(text: str) -> float:
    """Seconds since the epoch; raises ValueError for anything that is not RFC 3339 with a zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2026-01-31T12:00:00Z")
    return moment.timestamp()
