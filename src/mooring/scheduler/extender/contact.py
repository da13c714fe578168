"""Whether kube-scheduler calls at all. Pure.

An extender that is installed but missing from kube-scheduler's configuration looks healthy and does nothing. What gives
it away are pods: each one that gets a node must have been asked about before. One that was not may have been another
replica's business; when many come and nobody has called for long, something is wrong.
"""

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from mooring.api.views.pod import Pod

REMEMBERED: Final = 4096
"""Pods asked about of which it is not known yet what became of them: more than kube-scheduler has under way at once."""


class Contact:
    def __init__(self, names: Collection[str], *, within: float, now: float) -> None:
        """`names` are the schedulers whose pods count, `within` the seconds between two calls that are too many."""
        self._names = frozenset(names)
        self._within = within
        self._last = now
        self._called = False
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._since = 0
        #: Pods that got a node without anybody asking us.
        self.unasked = 0

    def asked(self, uid: str, now: float) -> bool:
        """Somebody called about a pod; whether that is news after long silence, or the first call of all."""
        is_news = not self._called or now - self._last >= self._within
        self._last, self._called, self._since = now, True, 0
        self._asked[uid] = None
        self._asked.move_to_end(uid)
        if len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        return is_news

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """A pod changed. Pods that had their node when first seen were placed in somebody else's time."""
        if before is None or before.spec.node_name:
            return
        if after is None:
            self._asked.pop(before.uid, None)
        elif after.spec.node_name and after.spec.scheduler_name in self._names:
            if after.uid in self._asked:
                del self._asked[after.uid]
            else:
                self.unasked += 1
                self._since += 1

    def silence(self, now: float) -> str | None:
        """What is wrong, for people; None while nothing seems to be."""
        if not self._since or now - self._last < self._within:
            return None
        heard = f"for {now - self._last:.0f} s" if self._called else "yet"
        return (
            f"no kube-scheduler has called {heard}, but {self._since} pods of {', '.join(sorted(self._names))} got "
            "their nodes: is this extender in the extenders of its configuration, and is another replica called?"
        )
