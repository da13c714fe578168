"""Claims that belong together although they do not say so: those of one namespace with equal labels.

A StatefulSet puts its selector's labels on every claim it makes, so the claims of its replicas are kin, whether their
pods run or not. Kept by `state.VolumeState`; who asks is whoever spreads volumes over zones. Claims without labels
have no kin.
"""

from collections.abc import Iterator

from mooring.api.views.claim import Claim

_Likeness = tuple[str, frozenset[tuple[str, str]]]


class ClaimKin:
    """Keys of claims by what they have in common."""

    def __init__(self) -> None:
        self._kin: dict[_Likeness, dict[str, None]] = {}
        self._likeness: dict[str, _Likeness] = {}

    def observe(self, key: str, now: Claim | None) -> None:
        """A claim came, changed or went."""
        likeness = None if now is None or not now.metadata.labels else _likeness(now)
        before = self._likeness.get(key)
        if likeness == before:
            return
        if before is not None:
            del self._likeness[key]
            del self._kin[before][key]
            if not self._kin[before]:
                del self._kin[before]
        if likeness is not None:
            self._likeness[key] = likeness
            self._kin.setdefault(likeness, {})[key] = None

    def of(self, key: str) -> Iterator[str]:
        """The others like the claim with this key."""
        likeness = self._likeness.get(key)
        return (other for other in self._kin[likeness] if other != key) if likeness is not None else iter(())


def _likeness(claim: Claim) -> _Likeness:
    return claim.namespace, frozenset(claim.metadata.labels.items())
