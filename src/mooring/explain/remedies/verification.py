"""Decides a pod again with changes applied: the proof that a remedy helps.

Edits are applied to the snapshot and reverted, so a trial costs one decision. The number of trials is bounded. Pure.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from mooring.api.kinds import POD
from mooring.api.views.pods import Pod
from mooring.explain.cluster_objects import ClusterObjects, observers_of
from mooring.explain.inspection import PodDecision, decide
from mooring.explain.remedies.changes import ClusterChange, Edit
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.snapshot.snapshot import Snapshot

#: Decisions that one explanation may take to try its remedies.
MAX_TRIALS: Final = 64


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
        with self.scene(changes) as scene:
            return scene is not None and scene.fits(node)

    @contextmanager
    def scene(self, changes: Sequence[ClusterChange]) -> Iterator[PodDecision | None]:
        """The pod decided with these changes, which are taken out again at the end; None after too many trials."""
        if self.left <= 0:
            yield None
            return
        self.left -= 1
        objects, edits = applied(self._objects, changes)
        observers = observers_of(self._snapshot)
        done: list[Edit] = []
        try:
            for edit in edits:
                # A pod without a node is not in the snapshot, and the one in question never is.
                if not (edit.kind is POD and _key(edit) == self._pod.key):
                    observers[edit.kind](edit.before, edit.after)
                    done.append(edit)
            pod = objects.get(POD, self._pod.key) or self._pod
            yield decide(pod, self._snapshot, objects, self._profile)
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
