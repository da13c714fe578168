"""Pods a controller has asked for and not seen yet, so that a slow cache does not make it ask twice.

Pure. Names are chosen before they are sent, so that also a request whose answer got lost is remembered. What is not
seen for a while is asked about by name; a name that does not exist was never made.
"""

from typing import Final

#: How long news of a pod may take before somebody asks; watches take milliseconds.
PATIENCE: Final = 2.0


class Expectations:
    """By the owner's uid."""

    def __init__(self) -> None:
        self._awaited: dict[str, dict[str, float]] = {}

    def expect(self, owner: str, pod: str, *, now: float) -> None:
        self._awaited.setdefault(owner, {})[pod] = now

    def met(self, owner: str, pod: str) -> None:
        """Seen, or known not to be. Others are not affected."""
        awaited = self._awaited.get(owner)
        if awaited is not None:
            awaited.pop(pod, None)
            if not awaited:
                del self._awaited[owner]

    def forget(self, owner: str) -> None:
        self._awaited.pop(owner, None)

    def awaited(self, owner: str) -> frozenset[str]:
        return frozenset(self._awaited.get(owner, ()))

    def overdue(self, owner: str, *, now: float) -> list[str]:
        """Those to ask about."""
        return [pod for pod, since in self._awaited.get(owner, {}).items() if now - since >= PATIENCE]
