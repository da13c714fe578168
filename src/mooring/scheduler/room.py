"""What a pod lacks on nodes, in sums that can be done again without some of the pods there.

Preemption asks for hundreds of nodes what would be if this or that pod were gone. Where only amounts decide, that is
arithmetic, and nothing has to be taken out of the snapshot for it. Filled by the plugin NodeResourcesFit, which alone
knows what counts and how it is called. Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mooring.api.pod_requests import PODS, Requests
from mooring.scheduler.columns import Vector


class Need(NamedTuple):
    """One resource that a pod needs some of."""

    resource: str
    #: What is said where there is not enough.
    reason: str
    #: For every slot how much is missing; zero or less where there is enough.
    missing: Vector


class Room:
    """The needs of one pod on all nodes, as they were when this was made."""

    def __init__(self, needs: Iterable[Need]) -> None:
        # Every pod takes one of the places for pods, whatever else it asks for.
        self._takes: list[tuple[str, int]] = []
        self._reasons: list[str] = []
        self._missing: list[list[float]] = []
        for resource, reason, missing in needs:
            self._takes.append((resource, int(resource == PODS)))
            self._reasons.append(reason)
            # Python's numbers: one at a time, NumPy's cost three times as much.
            self._missing.append(missing.tolist())

    def on(self, slot: int) -> "NodeRoom":
        return NodeRoom(self._takes, self._reasons, [column[slot] for column in self._missing])


#: Where nobody counts amounts.
NO_NEEDS: Final = Room(())


class NodeRoom:
    """The needs of the pod on one node, while other pods leave it and come back."""

    __slots__ = ("_gone", "_missing", "_reasons", "_takes")

    def __init__(self, takes: list[tuple[str, int]], reasons: list[str], missing: list[float]) -> None:
        self._takes = takes
        self._reasons = reasons
        self._missing = missing
        #: What those take that left together last: a list for each need.
        self._gone: list[list[int]] = []

    def leave(self, pods: Sequence[Requests]) -> None:
        """Pods with these requests are gone."""
        self._gone = [[one.amounts.get(resource, 0) + always for one in pods] for resource, always in self._takes]
        self._missing = [before - sum(taken) for before, taken in zip(self._missing, self._gone, strict=True)]

    def take_back(self) -> list[bool]:
        """Those that left together last come back one after the other, as long as there is room for the pod as well:
        who did."""
        back: list[bool] = []
        for taken in zip(*self._gone, strict=True):
            missing = [before + more for before, more in zip(self._missing, taken, strict=True)]
            fits = max(missing) <= 0
            back.append(fits)
            if fits:
                self._missing = missing
        return back

    def take(self, requests: Requests) -> bool:
        """A pod with these requests is back, if there is room for both then; otherwise it stays gone."""
        missing = [
            before + requests.amounts.get(resource, 0) + always
            for before, (resource, always) in zip(self._missing, self._takes, strict=True)
        ]
        fits = max(missing, default=0) <= 0
        if fits:
            self._missing = missing
        return fits

    def against(self) -> tuple[str, ...]:
        """Why the pod does not fit now; nothing when it does."""
        return tuple(reason for reason, missing in zip(self._reasons, self._missing, strict=True) if missing > 0)
