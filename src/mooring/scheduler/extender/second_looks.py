"""A second look before a no, but not too often. Pure.

kube-scheduler asks again when something happens to the cluster, and may hear of it a little earlier than we do. Said at
once, a no then lasts until the next thing happens, which on a quiet cluster may take minutes. So a no that leaves no
node waits a moment for news. kube-scheduler's one loop waits with it; where much happens, the next thing comes soon
anyway and nobody waits.
"""

from typing import Final

#: Seconds: what an event may take to get from the API server to us after kube-scheduler has it.
MOMENT: Final = 0.05
#: Seconds from one look to the next: with a moment's wait each, a tenth of kube-scheduler's time at the most.
APART: Final = 0.5


class SecondLooks:
    def __init__(self) -> None:
        self._next = 0.0

    def take(self, now: float) -> bool:
        """Whether there may be one now; the next one is then some time off."""
        if now < self._next:
            return False
        self._next = now + APART
        return True
