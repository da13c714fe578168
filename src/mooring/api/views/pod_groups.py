"""Views of PodGroup and Workload: groups of pods that are scheduled together, and templates of such groups."""

from typing import Final

from mooring.api.views.meta import ApiObject, Condition, View

#: Condition of a PodGroup that the scheduler writes; once True it stays True.
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
#: Reasons of that condition.
SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class BasicPolicy(View, frozen=True, gc=False):
    """Its presence is all it means: the pods are scheduled one by one."""


class GangPolicy(View, frozen=True, gc=False):
    min_count: int = 0


class SchedulingPolicy(View, frozen=True, gc=False):
    """Exactly one of the two is set."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyKey(View, frozen=True, gc=False):
    #: Key of a node label: all pods of the group run on nodes with one value of it.
    key: str = ""


class SchedulingConstraints(View, frozen=True, gc=False):
    #: At most one.
    topology: tuple[TopologyKey, ...] = ()


class EmptyMode(View, frozen=True, gc=False):
    """A disruption mode without fields."""


class DisruptionMode(View, frozen=True, gc=False):
    """Exactly one of the two is set: whether members may be evicted one by one, or only all together."""

    single: EmptyMode | None = None
    all: EmptyMode | None = None


class WorkloadReference(View, frozen=True, gc=False):
    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(View, frozen=True, gc=False):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    workload_ref: WorkloadReference | None = None
    priority_class_name: str = ""
    priority: int = 0
    #: Only where the API server has the gate PodGroupPreemptionPolicy.
    preemption_policy: str | None = None
    #: Only where the API server has the gate CompositePodGroup.
    parent_composite_pod_group_name: str | None = None


class PodGroupStatus(View, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


class PodGroup(ApiObject, frozen=True, gc=False):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def is_gang(self) -> bool:
        return self.spec.scheduling_policy.gang is not None

    @property
    def min_count(self) -> int:
        """Members that must be schedulable together; a basic group is a gang of one."""
        gang = self.spec.scheduling_policy.gang
        return gang.min_count if gang is not None else 1

    @property
    def topology_key(self) -> str:
        """Key of the node label whose value all members share; empty without a constraint."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""

    @property
    def disrupted_together(self) -> bool:
        """Whether a preemptor evicts all members or none."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def scheduled(self) -> Condition | None:
        """The condition PodGroupInitiallyScheduled."""
        return next((each for each in self.status.conditions if each.type == INITIALLY_SCHEDULED), None)


class PodGroupTemplate(PodGroupSpec, frozen=True, gc=False):
    """A template has no workloadRef and no parent: they are absent in valid objects."""

    name: str = ""


class PodGroupTemplates(View, frozen=True, gc=False):
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(ApiObject, frozen=True, gc=False):
    """Templates from which other controllers create PodGroups; the scheduler does not read it."""

    spec: PodGroupTemplates = PodGroupTemplates()
