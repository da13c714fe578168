"""A cluster made ready for questions: the listed objects, what was told about them, and the scheduler's snapshot.

Worked out once, however many pods and claims are explained.
"""

from functools import cached_property

from mooring.api.views.pod import Pod
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.events import Events
from mooring.explain.standings import Standings
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot


class Situation:
    def __init__(self, objects: ClusterObjects, *, profile: Profile = DEFAULT) -> None:
        self.objects = objects
        self.profile = profile
        self.events = Events(objects)
        self.standings = Standings(objects, self.events)

    def seen_by(self, pod: Pod) -> tuple[Snapshot, tuple[str, ...]]:
        """What the scheduler would know when it placed this pod, and what of it makes no sense. A pod that has a node
        would be in its own way there."""
        if not pod.spec.node_name:
            return self.as_listed
        snapshot, problems = self.objects.snapshot(without=pod.key)
        return snapshot, tuple(problems)

    @cached_property
    def as_listed(self) -> tuple[Snapshot, tuple[str, ...]]:
        snapshot, problems = self.objects.snapshot()
        return snapshot, tuple(problems)
