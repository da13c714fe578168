"""A pod decided again with changes applied: the proof that a remedy would help.

The changes go into the snapshot that explained the pod, as edits of single objects, and are taken out again; so a
trial costs one decision, however large the cluster. How many trials one explanation may make is bounded. Pure.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from mooring.api.kinds import POD
from mooring.api.views.pod import Pod
from mooring.explain.claims import ClaimsExplained
from mooring.explain.cluster_changes import ClusterChange, Edit
from mooring.explain.cluster_objects import ClusterObjects, observers_of
from mooring.explain.figures import Figures
from mooring.explain.verdicts import NodeVerdict, Reason
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle, Decision, RejectionCode
from mooring.scheduler.profile import Profile
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes import nodeset

#: Decisions that one explanation may take to try its remedies.
MAX_TRIALS: Final = 64

#: Reasons that nothing short of moving data changes; nodes with others are nearer.
FAR: Final = frozenset({RejectionCode.VOLUME_AFFINITY, RejectionCode.VOLUME_MISSING, RejectionCode.VOLUME_ZONE})
FAR_WEIGHT: Final = 10

T = TypeVar("T")


class Scene(NamedTuple):
    """A pod, looked for a node for among these objects, and what was decided."""

    objects: ClusterObjects
    attempt: Cycle
    decision: Decision

    @property
    def pod(self) -> Pod:
        return self.attempt.pod

    @property
    def snapshot(self) -> Snapshot:
        return self.attempt.snapshot

    def against(self, node: str) -> tuple[Reason, ...]:
        """What every plugin holds against a node, with the figures behind it."""
        figures, here = Figures(self.attempt, self.objects), self.snapshot.topology.named(node)
        return tuple(
            figures.of(plugin, rejection, node)
            for plugin, rejections in self.decision.said
            for rejection in rejections
            if rejection.nodes & here
        )

    def nearest(self) -> str:
        """The node with the least against it; "" where there is none."""
        counts: Counter[int] = Counter()
        for _, rejections in self.decision.said:
            for rejection in rejections:
                far = FAR_WEIGHT if rejection.code in FAR else 1
                for slot in nodeset.slots(rejection.nodes):
                    counts[slot] += far
        slots = nodeset.slots(self.snapshot.nodes)
        return min(((counts[slot], self.snapshot.topology.name(slot)) for slot in slots), default=(0, ""))[1]

    def verdict(self, node: str) -> NodeVerdict:
        reasons = self.against(node)
        claims = self.attempt.claims
        volumes = () if isinstance(claims, str) else ClaimsExplained(self.snapshot, claims, self.objects).on(node)
        return NodeVerdict(not reasons and not self.decision.refusals, reasons, volumes)


class Outcome(NamedTuple, Generic[T]):
    fits: bool
    #: What the caller wanted to know of a scene in which the pod does not fit.
    left: T | None = None


class Trials:
    """Tries changes for one pod."""

    def __init__(self, objects: ClusterObjects, pod: Pod, snapshot: Snapshot, profile: Profile) -> None:
        self._objects = objects
        self._pod = pod
        self._snapshot = snapshot
        self._profile = profile
        self.left = MAX_TRIALS

    def fits(self, changes: Sequence[ClusterChange], node: str = "") -> bool:
        """Whether the pod fits with these changes: on this node, or on any."""
        return self.run(changes, node, lambda _: None).fits

    def run(self, changes: Sequence[ClusterChange], node: str, look: Callable[[Scene], T]) -> Outcome[T]:
        """The same; where it does not fit, `look` is shown the scene before the changes are taken out again."""
        if self.left <= 0:
            return Outcome(False)
        self.left -= 1
        with self._changed(changes) as objects:
            pod = objects.get(POD, self._pod.key) or self._pod
            spec = msgspec.structs.replace(pod.spec, node_name="")
            attempt = Cycle(msgspec.structs.replace(pod, spec=spec), self._snapshot)
            decision = cycle.run(attempt, self._profile, random.Random(0))
            if decision.node and (not node or not _rejected(decision, self._snapshot, node)):
                return Outcome(True)
            return Outcome(False, look(Scene(objects, attempt, decision)))

    @contextmanager
    def _changed(self, changes: Sequence[ClusterChange]) -> Iterator[ClusterObjects]:
        objects, edits = applied(self._objects, changes)
        observers = observers_of(self._snapshot)
        done: list[Edit] = []
        try:
            for edit in edits:
                # A pod without a node is not in the snapshot, and the one in question never is.
                if not (edit.kind is POD and _key(edit) == self._pod.key):
                    observers[edit.kind](edit.before, edit.after)
                    done.append(edit)
            yield objects
        finally:
            for edit in reversed(done):
                observers[edit.kind](edit.after, edit.before)


def applied(objects: ClusterObjects, changes: Sequence[ClusterChange]) -> tuple[ClusterObjects, list[Edit]]:
    """The objects as they are after the changes, each made on what those before it left; and the edits in order."""
    changed = objects.copied()
    edits: list[Edit] = []
    for change in changes:
        for made in tuple(change.edits(changed)):
            # What is there under the name of something new is put back afterwards.
            edit = made._replace(before=changed.get(made.kind, _key(made)))
            if edit.after is None:
                changed.drop(edit.kind, _key(edit))
            else:
                changed.put(edit.kind, edit.after)
            edits.append(edit)
    return changed, edits


def _key(edit: Edit) -> str:
    item = edit.after if edit.after is not None else edit.before
    return "" if item is None else item.key


def _rejected(decision: Decision, snapshot: Snapshot, node: str) -> bool:
    here = snapshot.topology.named(node)
    return not here or any(rejection.nodes & here for _, said in decision.said for rejection in said)
