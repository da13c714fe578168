"""A node that turned a pod down after it was given to it: how that shows in the pod, and what it means. Pure.

Two schedulers on one cluster do not ask each other. Each counts the pods of the other as soon as it hears of them, and
until then may give away what is gone. The kubelet checks once more before it starts anything, and is the one who says
no: the pod fails for good, and whoever owns it makes another. Here such failures are told from all others. Counting
and telling is `rejection_watch`'s work; `explain` says the same of any pod.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from mooring.api.views.pod import Pod

#: Followed by the resource there was not enough of: OutOfcpu, OutOfpods.
OUT_OF: Final = "OutOf"

#: What the kubelet's other reasons mean, where somebody else got there first.
_TAKEN: Final[Mapping[str, str]] = {
    "NodePorts": "a port of the node that it needs was taken",
    "UnexpectedAdmissionError": "devices or other things that the node hands out itself could not be given to it",
    "TopologyAffinityError": "what it needs was no longer free in one part of the node",
}
#: And where the node is not what it was.
_CHANGED: Final[Mapping[str, str]] = {
    "NodeAffinity": "the labels of the node are no longer those it asks for",
    "TaintToleration": "the node has a taint now that it does not tolerate",
    "NodeShutdown": "the node is being shut down",
    "InvalidNodeInfo": "the node did not know itself well enough",
}


class KubeletRejection(NamedTuple):
    """A node said no to a pod that it had been given."""

    node: str
    #: The kubelet's, as in the pod's status.
    reason: str
    message: str

    @property
    def lost_a_race(self) -> bool:
        """Whether what the pod needs was given to another, rather than the node having changed."""
        return self.reason.startswith(OUT_OF) or self.reason in _TAKEN

    @property
    def meaning(self) -> str:
        """What happened, in a few words about the pod."""
        if self.reason.startswith(OUT_OF):
            return f"there was not enough {self.reason.removeprefix(OUT_OF)} left when it arrived"
        return _TAKEN.get(self.reason) or _CHANGED[self.reason]


def rejection_of(pod: Pod) -> KubeletRejection | None:
    """How a node turned the pod down; None for a pod that runs, waits, or failed in another way."""
    status = pod.status
    known = status.reason.startswith(OUT_OF) or status.reason in _TAKEN or status.reason in _CHANGED
    if status.phase != "Failed" or not pod.spec.node_name or not known:
        return None
    return KubeletRejection(pod.spec.node_name, status.reason, status.message)


def of_others(pods: Iterable[Pod], ours: Collection[str]) -> Counter[str]:
    """How many of the pods came by schedulers of other names than ours, by name."""
    return Counter(pod.spec.scheduler_name for pod in pods if pod.spec.scheduler_name not in ours)


def in_words(rejection: KubeletRejection, others: Mapping[str, int]) -> str:
    """All there is to say to people. `others` counts the pods on the node that came by other schedulers, as
    `of_others` does."""
    told = [f"node {rejection.node} turned the pod down ({rejection.reason}): {rejection.meaning}"]
    if rejection.lost_a_race and others:
        counted = ", ".join(f"{count} of {name}" for name, count in sorted(others.items()))
        told.append(f"pods of other schedulers are on the node ({counted}), which may have been given the same room")
    elif rejection.lost_a_race:
        told.append("the node has less room than its status says, or a pod was put there past all schedulers")
    told.append("the pod stays failed: its owner makes another, which is placed anew")
    return "; ".join(told)
