"""Nodes that claims were sent to and came back from, because nobody could make a volume there. Pure.

Scores alone would choose the same node for ever. The scheduler remembers what became of its own attempts, but
kube-scheduler does not, so here it is read off the claims: whoever gives one back takes the selected node off it. All
replicas that watch see the same.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Final

from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod

REMEMBERED: Final = 4096
"""Claims that came back and are not bound yet; far more than wait at once where anything works."""


class GivenBack:
    def __init__(self) -> None:
        self._by_claim: OrderedDict[str, Counter[str]] = OrderedDict()

    def observe(self, before: Claim | None, after: Claim | None) -> None:
        if before is None:
            return
        if after is None or after.uid != before.uid or after.spec.volume_name:
            self._by_claim.pop(before.key, None)
        elif before.selected_node and after.selected_node != before.selected_node:
            self._by_claim.setdefault(after.key, Counter())[before.selected_node] += 1
            self._by_claim.move_to_end(after.key)
            if len(self._by_claim) > REMEMBERED:
                self._by_claim.popitem(last=False)

    def of(self, pod: Pod) -> Mapping[str, int]:
        """By node, how often a claim of the pod came back from there."""
        if not self._by_claim:
            return {}
        counted: Counter[str] = Counter()
        for key in dict.fromkeys(pod.claim_keys):
            counted.update(self._by_claim.get(key, {}))
        return counted
