"""View of Pod, and the in-tree disk sources of pods and PersistentVolumes."""

import msgspec

from mooring.api.views.meta import (
    Amount,
    ApiObject,
    Condition,
    LabelSelectorView,
    NodeSelectorTermView,
    NodeSelectorView,
    View,
)


class DiskById(View, frozen=True, gc=False):
    """An EBS, Cinder or Portworx volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class GcePersistentDisk(View, frozen=True, gc=False):
    pd_name: str = ""
    read_only: bool = False


class AzureDisk(View, frozen=True, gc=False):
    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")


class RbdImage(View, frozen=True, gc=False):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class IscsiDisk(View, frozen=True, gc=False):
    iqn: str = ""
    read_only: bool = False


class Disks(View, frozen=True, gc=False):
    """In-tree disk sources of a PersistentVolume or pod volume; at most one is set."""

    aws_elastic_block_store: DiskById | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: DiskById | None = None
    portworx_volume: DiskById | None = None


class Resources(View, frozen=True, gc=False):
    requests: dict[str, Amount] = {}
    limits: dict[str, Amount] = {}


class ContainerPort(View, frozen=True, gc=False):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class RestartRule(View, frozen=True, gc=False):
    action: str = ""


class Container(View, frozen=True, gc=False):
    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    #: Always for sidecars, else empty.
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()


class PreferredNodeTerm(View, frozen=True, gc=False):
    weight: int = 0
    preference: NodeSelectorTermView = NodeSelectorTermView()


class NodeAffinityView(View, frozen=True, gc=False):
    required_during_scheduling_ignored_during_execution: NodeSelectorView | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTerm, ...] = ()


class PodAffinityTerm(View, frozen=True, gc=False):
    topology_key: str = ""
    label_selector: LabelSelectorView | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelectorView | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(View, frozen=True, gc=False):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True, gc=False):
    """Pod affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(View, frozen=True, gc=False):
    node_affinity: NodeAffinityView | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(View, frozen=True, gc=False):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ClaimSource(View, frozen=True, gc=False):
    claim_name: str = ""
    read_only: bool = False


class EphemeralSource(View, frozen=True, gc=False):
    """A generic ephemeral volume; its claim is named `<pod>-<volume>`."""

    #: Raw JSON, including fields that views lack: the claim is created from it.
    volume_claim_template: msgspec.Raw = msgspec.Raw(b"{}")


class InlineCsi(View, frozen=True, gc=False):
    """A CSI ephemeral inline volume."""

    driver: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] = {}


class NamedSource(View, frozen=True, gc=False):
    """A ConfigMap by `name`, or a Secret by `secretName` in a secret volume and by `name` in a projected volume."""

    name: str = ""
    secret_name: str = ""
    optional: bool = False


class ProjectedPart(View, frozen=True, gc=False):
    config_map: NamedSource | None = None
    secret: NamedSource | None = None


class ProjectedSource(View, frozen=True, gc=False):
    sources: tuple[ProjectedPart, ...] = ()


class ImageSource(View, frozen=True, gc=False):
    """A volume with the content of a container image."""

    reference: str = ""


class PodVolume(Disks, frozen=True, gc=False):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    csi: InlineCsi | None = None
    config_map: NamedSource | None = None
    secret: NamedSource | None = None
    projected: ProjectedSource | None = None
    rbd: RbdImage | None = None
    iscsi: IscsiDisk | None = None
    image: ImageSource | None = None


class SchedulingGate(View, frozen=True, gc=False):
    name: str = ""


class TopologySpreadConstraint(View, frozen=True, gc=False):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelectorView | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ResourceClaim(View, frozen=True, gc=False):
    """A device claim; only its presence is read."""

    name: str = ""


class SchedulingGroup(View, frozen=True, gc=False):
    """The group of pods that is scheduled together or not at all."""

    pod_group_name: str = ""


class PodSpec(View, frozen=True, gc=False):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, Amount] = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    resource_claims: tuple[ResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    #: Pod-level resources.
    resources: Resources = Resources()
    host_network: bool = False
    #: False if the pod has its own user namespace.
    host_users: bool | None = None


class WaitingState(View, frozen=True, gc=False):
    reason: str = ""


class RunningState(View, frozen=True, gc=False):
    started_at: str | None = None


class TerminatedState(View, frozen=True, gc=False):
    exit_code: int = 0
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(View, frozen=True, gc=False):
    """At most one of the three is set."""

    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(View, frozen=True, gc=False):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    #: Actual and allocated resources; None and empty before the container runs.
    resources: Resources | None = None
    allocated_resources: dict[str, Amount] = {}


class PodStatus(View, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    #: Pod-level, as in ContainerStatus.
    resources: Resources | None = None
    allocated_resources: dict[str, Amount] = {}


class Pod(ApiObject, frozen=True, gc=False):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def unplaced(self) -> bool:
        """Not bound to a node and not finished."""
        return not self.spec.node_name and not self.finished

    @property
    def waits(self) -> bool:
        """To be scheduled: not bound, finished or being deleted."""
        return self.unplaced and not self.deleting

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    def claim_name(self, volume: PodVolume) -> str:
        """The claim of a volume of this pod, or ""."""
        if volume.persistent_volume_claim is not None:
            return volume.persistent_volume_claim.claim_name
        if volume.ephemeral is not None:
            return f"{self.name}-{volume.name}"
        return ""

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """Keys of all claims of this pod, in the order of its volumes."""
        names = (self.claim_name(volume) for volume in self.spec.volumes)
        return tuple(f"{self.namespace}/{name}" for name in names if name)

    @property
    def group_key(self) -> str:
        """Key of the PodGroup of this pod, or ""."""
        group = self.spec.scheduling_group
        return f"{self.namespace}/{group.pod_group_name}" if group is not None and group.pod_group_name else ""
