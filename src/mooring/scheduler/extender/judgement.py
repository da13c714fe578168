"""What this scheduler thinks of a pod's volumes on nodes that kube-scheduler asks about. Pure.

The plugins, the snapshot and the volume library are the scheduler's own, so a node passes here exactly if their cycle
lets it pass. Only two plugins are asked: VolumeBinding, and NodeVolumeLimits, which counts volumes yet to be bound.
VolumeRestrictions and VolumeZone are kube-scheduler's business in either mode: it judges the same, and from fresher
news of pods and nodes than anybody it asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from mooring.api.views.pod import Pod
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle, Plugin, Said
from mooring.scheduler.cycle import NEVER, NO_NOMINATIONS
from mooring.scheduler.extender.wire import HIGHEST_SCORE
from mooring.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from mooring.scheduler.plugins.volume_binding import PREFERENCE_WEIGHT, VolumeBinding
from mooring.scheduler.profile import Profile
from mooring.scheduler.scores import HIGHEST
from mooring.scheduler.snapshot import Absence, Snapshot
from mooring.volumes.nodeset import EMPTY, NodeSet, to_mask
from mooring.volumes.scoring import CapacityPolicy

#: What the extender's weight should be in kube-scheduler's configuration, so that scores count as they do here.
WEIGHT: Final = PREFERENCE_WEIGHT

GIVEN_BACK: Final = "node(s) from which a claim came back without a volume: others are tried first"
UNKNOWN_NODE: Final = "node(s) not known to the volume extender yet"


class Filtered(NamedTuple):
    """Which of the nodes will do, and why the others will not."""

    passing: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class NotKnownYet(NamedTuple):
    """No verdict: kube-scheduler has seen something that has not arrived here. Asking again is all that helps: a no
    would last until something else happens to the cluster."""

    reason: str


class Judgement:
    """Answers from one snapshot, which does not change while it is asked."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        policy: CapacityPolicy = CapacityPolicy.SPREAD,
        gatekeepers: Sequence[Plugin] = (),
    ) -> None:
        """`gatekeepers` are plugins that feature gates put before the others."""
        self._snapshot = snapshot
        self._binding = VolumeBinding(policy=policy)
        #: For who reserves what was judged.
        self.profile = Profile((*gatekeepers, self._binding, NodeVolumeLimits()))

    def filter(
        self, pod: Pod, names: Sequence[str], *, given_back: Mapping[str, int] = NEVER
    ) -> Filtered | NotKnownYet:
        """`given_back` counts how often claims of the pod came back from a node: such nodes come last."""
        attempt = Cycle(pod, self._snapshot)
        if not pod.spec.volumes:
            return Filtered(tuple(names), {}, {})
        if refused := self._refused(attempt):
            if self._lacks_claims(pod):
                return NotKnownYet(refused)
            return Filtered((), {}, dict.fromkeys(names, refused))
        return _without_given_back(self._sorted(names, self._said(attempt)), given_back)

    def scores(self, pod: Pod, names: Sequence[str]) -> list[int]:
        """One for each name, 0 to 10; all 0 where volumes give no reason to prefer one."""
        attempt = Cycle(pod, self._snapshot)
        claims = attempt.claims
        scores = None if isinstance(claims, str) or claims.none else self._binding.score(attempt, self._snapshot.nodes)
        if scores is None:
            return [0] * len(names)
        whole = np.floor(scores * HIGHEST_SCORE / HIGHEST + 0.5).astype(np.int64)
        topology = self._snapshot.topology
        return [int(whole[topology.slot(name)]) if name in topology else 0 for name in names]

    def worth_preempting(self, pod: Pod, victims: Mapping[str, frozenset[str]]) -> list[str]:
        """Of nodes with the uids of those who would have to leave them: where the pod could go once they are gone.

        That they go frees no volume; it may free room for volumes on the node.
        """
        attempt = Cycle(pod, self._snapshot)
        if not pod.spec.volumes:
            return list(victims)
        if self._refused(attempt):
            return []
        rejected, hopeless = _rejected(self._said(attempt))
        topology = self._snapshot.topology
        worth: list[str] = []
        for name, uids in victims.items():
            node = topology.named(name)
            if node & ~rejected or (node & ~hopeless and self._would_do(attempt, name, uids)):
                worth.append(name)
        return worth

    def why_not(self, attempt: Cycle, node: str) -> str:
        """Why a pod cannot go to one node because of its volumes; "" where it can."""
        if refused := self._refused(attempt):
            return refused
        if node not in self._snapshot.topology:
            return f'node "{node}" not found'
        topology = self._snapshot.topology
        return _Reasons(self._said(attempt), topology.width).of(topology.slot(node))

    def _would_do(self, attempt: Cycle, name: str, uids: frozenset[str]) -> bool:
        leaving = [one for one in self._snapshot.pods_on(name) if one.uid in uids]
        with Absence(self._snapshot, leaving):
            rejected, _ = _rejected(self._said(attempt))
        return not self._snapshot.topology.named(name) & rejected

    def _refused(self, attempt: Cycle) -> str:
        """Why the pod cannot go anywhere; "" where it is a matter of nodes."""
        plugins = self.profile.concerning(attempt.pod).prefilters
        return next((reason for plugin in plugins if (reason := plugin.prefilter(attempt)) is not None), "")

    def _said(self, attempt: Cycle) -> tuple[Said, ...]:
        return cycle.ask(attempt, self.profile.concerning(attempt.pod), NO_NOMINATIONS)

    def _lacks_claims(self, pod: Pod) -> bool:
        return any(self._snapshot.volumes.claim(key) is None for key in pod.claim_keys)

    def _sorted(self, names: Sequence[str], said: Sequence[Said]) -> Filtered:
        topology = self._snapshot.topology
        rejected, hopeless = (to_mask(nodes, topology.width).tolist() for nodes in _rejected(said))
        reasons = _Reasons(said, topology.width)
        passing: list[str] = []
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for name in names:
            if name not in topology:
                failed[name] = UNKNOWN_NODE
                continue
            slot = topology.slot(name)
            if not rejected[slot]:
                passing.append(name)
            else:
                (unresolvable if hopeless[slot] else failed)[name] = reasons.of(slot)
        return Filtered(tuple(passing), failed, unresolvable)


def _without_given_back(verdict: Filtered, given_back: Mapping[str, int]) -> Filtered:
    """Of the nodes that pass, those that were given back least."""
    if not given_back or not verdict.passing:
        return verdict
    fewest = min(given_back.get(name, 0) for name in verdict.passing)
    kept = tuple(name for name in verdict.passing if given_back.get(name, 0) == fewest)
    others = {name: GIVEN_BACK for name in verdict.passing if given_back.get(name, 0) > fewest}
    return verdict._replace(passing=kept, failed={**verdict.failed, **others})


def _rejected(said: Iterable[Said]) -> tuple[NodeSet, NodeSet]:
    """The nodes that somebody rejects, and those among them where evicting pods would not help."""
    rejected, hopeless = EMPTY, EMPTY
    for _, rejections in said:
        for rejection in rejections:
            rejected |= rejection.nodes
            if not rejection.resolvable:
                hopeless |= rejection.nodes
    return rejected, hopeless


class _Reasons:
    """What was said, by slot. Columns, since thousands of nodes may be asked about."""

    def __init__(self, said: Iterable[Said], width: int) -> None:
        self._columns = [
            [(rejection.reason, to_mask(rejection.nodes, width).tolist()) for rejection in rejections]
            for _, rejections in said
        ]

    def of(self, slot: int) -> str:
        """All that the first plugin that rejects the node has against it, as kube-scheduler counts; "" for nothing."""
        for columns in self._columns:
            reasons = [reason for reason, column in columns if column[slot]]
            if reasons:
                return ", ".join(reasons)
        return ""
