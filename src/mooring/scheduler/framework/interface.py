"""Plugin interfaces of the scheduling framework, and the values that plugins and the scheduling cycle exchange.

    prefilter (every plugin) ──► filter (every plugin, all nodes) ──► score ──► reserve on the chosen node

Unlike kube-scheduler's, an extension point is called once for all nodes, with node sets, and every filter runs on
every node: one run both decides and explains. A rejection is a value, never an exception. Pure: no plugin awaits.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from mooring.api.pod_requirements import Requests, requests_of
from mooring.api.quantity import QuantityError
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import PodInterests, QueueingHint, interests_of
from mooring.scheduler.snapshot.resources import ResourceShortfall
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan, PodClaims
from mooring.volumes.topology import EMPTY, NodeSet, union

S = TypeVar("S")

#: One score per slot, 0 to 100; slots outside the feasible set are ignored.
Scores = npt.NDArray[np.float64]


class RejectionCode(enum.Enum):
    """Why a filter plugin rejects nodes. Code compares these; the texts are kube-scheduler's and only shown."""

    UNSCHEDULABLE = "NodeUnschedulable"
    TAINT = "UntoleratedTaint"
    NODE_NAME = "NodeName"
    NODE_AFFINITY = "NodeAffinity"
    DECLARED_FEATURES = "DeclaredFeatures"
    HOST_PORTS = "HostPorts"
    POD_COUNT = "TooManyPods"
    RESOURCE = "InsufficientResource"
    DISK_IN_USE = "DiskInUse"
    CLAIM_IN_USE = "ClaimInUse"
    CLAIM_MISSING = "ClaimMissing"
    VOLUME_LIMIT = "VolumeLimit"
    DRIVER_MISSING = "DriverMissing"
    VOLUME_AFFINITY = "VolumeNodeAffinity"
    VOLUME_ZONE = "VolumeZone"
    VOLUME_MISSING = "VolumeMissing"
    NO_VOLUME = "NoVolume"
    STORAGE_CAPACITY = "NotEnoughStorage"
    SPREADING = "TopologySpread"
    SPREADING_LABEL = "TopologySpreadLabel"
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_POD_ANTI_AFFINITY = "ExistingPodAntiAffinity"
    #: Default for plugins without a code of their own.
    OTHER = "Other"


class NodeRejection(NamedTuple):
    """Nodes that cannot run the pod, and the reason in kube-scheduler's words."""

    nodes: NodeSet
    reason: str
    code: RejectionCode = RejectionCode.OTHER
    #: The resource or CSI driver of the code; "" for other codes.
    subject: str = ""
    #: Whether preemption could help. False is kube-scheduler's UnschedulableAndUnresolvable.
    resolvable: bool = True


class FilterResult(NamedTuple):
    """All rejections of one filter plugin in one cycle."""

    plugin: str
    rejections: tuple[NodeRejection, ...]

    @property
    def nodes(self) -> NodeSet:
        """The rejected nodes."""
        return union(rejection.nodes for rejection in self.rejections)

    @property
    def unresolvable(self) -> NodeSet:
        """The rejected nodes where preemption would not help."""
        return union(rejection.nodes for rejection in self.rejections if not rejection.resolvable)


class PreFilterRejection(NamedTuple):
    """A plugin's prefilter rejected the pod on every node."""

    plugin: str
    reason: str


@dataclass
class CycleState:
    """What plugins read and share within one scheduling cycle of one pod.

    The snapshot does not change while a cycle runs, because a cycle never awaits. Nothing survives the cycle.
    """

    pod: Pod
    snapshot: Snapshot
    #: The policies that scored the pod's volumes; "" if none did.
    volume_policy: str = ""
    _values: dict[type, object] = field(default_factory=dict)
    _restricted: FilterResult | None = None

    @cached_property
    def claims(self) -> PodClaims | str:
        """The pod's claims by binding state, or why the pod is unschedulable because of them."""
        return self.snapshot.volumes.claims_of(self.pod)

    @cached_property
    def requests(self) -> Requests | str:
        """The pod's resource requests, or why they cannot be parsed."""
        try:
            return requests_of(self.pod)
        except QuantityError as error:
            return f"pod's resource requests cannot be parsed: {error}"

    @property
    def known_claims(self) -> PodClaims | None:
        """None if the pod is unschedulable because of its claims."""
        return None if isinstance(self.claims, str) else self.claims

    @property
    def interests(self) -> PodInterests:
        """The objects that an unschedulable pod waits for."""
        return interests_of(self.pod, self.known_claims, self.snapshot.volumes)

    def with_claims(self, claims: PodClaims) -> "CycleState":
        """The state of another cycle on the same snapshot, for the same pod with other claims."""
        state = CycleState(self.pod, self.snapshot)
        state.claims = claims
        return state

    def restrict_nodes(self, plugin: str, code: RejectionCode, nodes: NodeSet) -> None:
        """Called by a prefilter that knows the only possible nodes (kube-scheduler's PreFilterResult)."""
        if excluded := self.snapshot.nodes & ~nodes:
            reason = f"node(s) didn't satisfy plugin(s) [{plugin}]"
            self._restricted = FilterResult(plugin, (NodeRejection(excluded, reason, code, resolvable=False),))

    @property
    def restricted(self) -> tuple[FilterResult, ...]:
        """The result for the nodes that `restrict_nodes` excluded; empty without such a call."""
        return () if self._restricted is None else (self._restricted,)

    def write(self, value: object) -> None:
        """Store one value per type for the plugin's later extension points."""
        self._values[type(value)] = value

    def read(self, kind: type[S]) -> S:
        """The stored value of that type. Raises KeyError when the plugin's prefilter wrote none."""
        value = self._values[kind]
        assert isinstance(value, kind)
        return value


class Plugin(Protocol):
    """A plugin with `volumes_only = True` is skipped for pods without volumes."""

    name: ClassVar[str]
    #: The cluster events that can make a pod schedulable which this plugin rejected; empty if it never rejects.
    events_to_register: ClassVar[tuple[QueueingHint, ...]]


@runtime_checkable
class PreFilter(Plugin, Protocol):
    def prefilter(self, state: CycleState) -> str | None:
        """The reason to reject the pod on every node, or None. May `write` what `filter` needs."""


@runtime_checkable
class Filter(Plugin, Protocol):
    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        """The nodes that cannot run the pod. A node may be in several rejections."""


@runtime_checkable
class PodDependentFilter(Filter, Protocol):
    """A filter that knows on which nodes its result depends on the pods there; of other filters, all nodes."""

    def pod_dependent_nodes(self, state: CycleState) -> NodeSet:
        """The nodes whose result may change when some of their pods are evicted."""


class PodIndependentFilter(PodDependentFilter, Protocol):
    """A filter whose result depends on no pod: preemption need not run it again."""

    def pod_dependent_nodes(self, state: CycleState) -> NodeSet:
        return EMPTY


@runtime_checkable
class ResourceFilter(Filter, Protocol):
    """A filter that only compares amounts: preemption computes its result without some pods arithmetically."""

    def resource_shortfalls(self, state: CycleState) -> ResourceShortfall:
        """How much of each resource the pod lacks on each node."""


@runtime_checkable
class Score(Plugin, Protocol):
    @property
    def weight(self) -> int:
        """Factor of this plugin's scores in a node's total."""

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        """Scores of the feasible nodes, 0 to 100; None when all are equal to the plugin."""


@runtime_checkable
class Reserve(Plugin, Protocol):
    def reserve(self, state: CycleState, node: str) -> BindingPlan:
        """Reserve volumes for the pod on the node, so that later cycles see them in use."""


class ScoreSummary(NamedTuple):
    """The chosen node's total score, and the runner-up among the feasible nodes."""

    feasible: int = 0
    score: float = 0.0
    #: "" if no other node was feasible.
    runner_up: str = ""
    runner_up_score: float = 0.0
    #: The policies that scored the pod's volumes; "" if none did.
    volume_policy: str = ""


NOT_SCORED: Final = ScoreSummary()


class Decision(NamedTuple):
    """The outcome of one scheduling cycle, read by events, metrics and `mooring explain`."""

    pod: Pod
    #: The chosen node; "" if the pod is unschedulable.
    node: str
    evaluated_nodes: int
    refusals: tuple[PreFilterRejection, ...]
    filter_results: tuple[FilterResult, ...]
    ranking: ScoreSummary = NOT_SCORED

    @property
    def rejected(self) -> bool:
        """Whether any filter plugin rejected a node."""
        for _, rejections in self.filter_results:  # noqa: SIM110  a generator costs a call per plugin and pod
            if rejections:
                return True
        return False

    @property
    def without_capacity(self) -> NodeSet:
        """The nodes that lack storage capacity for the pod's claims, and that nothing else rejects."""
        short, others = EMPTY, EMPTY
        for _, rejections in self.filter_results:
            for rejection in rejections:
                if rejection.code is RejectionCode.STORAGE_CAPACITY:
                    short |= rejection.nodes
                else:
                    others |= rejection.nodes
        return short & ~others

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins whose result must change before a retry can succeed: those that were first to reject a node.

        A prefilter rejection covers every node. Of a node that an earlier plugin rejects, later results are irrelevant.
        """
        if self.refusals:
            return frozenset({self.refusals[0].plugin})
        settled, first = EMPTY, set[str]()
        for result in self.filter_results:
            if result.nodes & ~settled:
                first.add(result.plugin)
            settled |= result.nodes
        return frozenset(first)
