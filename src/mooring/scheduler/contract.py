"""The plugin contract: plain classes with optional methods, each answering for all nodes at once.

A plugin says at which points it acts by having the method; the lines `_contract: Filter = …` at the foot of each
plugin let the type checker prove the shape. Order of a cycle:

    prefilter (every plugin) ──► filter (every plugin, all nodes) ──► score ──► reserve on the chosen node

Saying no is a value. `prefilter` may refuse the pod as a whole; `filter` rejects sets of nodes. All plugins are
asked, also about nodes that others rejected, so that one run both decides and explains.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from mooring.api.pod_requests import Requests, requests_of
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.scheduler.interests import Interests, Topic, interests_of
from mooring.scheduler.room import Room
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan
from mooring.volumes.pod_claims import PodClaims

S = TypeVar("S")

#: One score per slot, 0 to 100; slots outside the feasible set are ignored.
Scores = npt.NDArray[np.float64]


class RejectionCode(enum.Enum):
    """Why a filter plugin rejects nodes, for code that reads decisions: texts are upstream's and are never compared."""

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
    #: A plugin that gives no code of its own.
    OTHER = "Other"


class Rejection(NamedTuple):
    """These nodes cannot take the pod, for this reason, in upstream's words."""

    nodes: NodeSet
    reason: str
    code: RejectionCode = RejectionCode.OTHER
    #: The resource or the CSI driver that the code is about; "" for codes that are about neither.
    subject: str = ""
    #: Whether evicting other pods could change it. False is upstream's UnschedulableAndUnresolvable.
    resolvable: bool = True


class Said(NamedTuple):
    """All that one plugin said about the nodes in one cycle."""

    plugin: str
    rejections: tuple[Rejection, ...]


class Refusal(NamedTuple):
    """One plugin found that the pod cannot go anywhere."""

    plugin: str
    reason: str


class Change(NamedTuple):
    """Something that happened to an object of a kind: what parked pods are woken by.

    `kind` is the Kubernetes kind; `what` is add, update or delete. `namespace` and `name` say which object, and
    `object` how it reads now, or read last.
    """

    kind: str
    what: str
    namespace: str = ""
    name: str = ""
    #: Of an update: what changed, in the words of `changes`.
    parts: frozenset[str] = frozenset()
    object: ApiObject | None = None
    #: What pods may have written down as what they wait for.
    topics: tuple[Topic, ...] = ()

    @property
    def key(self) -> str:
        """As objects have it: `namespace/name`, or the name of what is in no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Hint(NamedTuple):
    """A row of a plugin's `wakes_on`: which changes could make it change its mind about a pod.

    `helps` narrows the row to the pods the change can help; None means every pod the plugin rejected. `parts`
    narrows updates to those that changed one of them; empty means any update. `about` narrows the row to the pods that
    wait for one of the change's topics of that kind, which the queue finds without looking at the others, and `suits`
    further, by what these wait for.
    """

    kind: str
    what: frozenset[str]
    helps: Callable[[Pod, Change], bool] | None = None
    parts: frozenset[str] = frozenset()
    about: str = ""
    suits: Callable[[Interests, Change], bool] | None = None

    def wakes(self, pod: Pod, interests: Interests, change: Change) -> bool:
        """Whether the change may help this pod, which waits for these."""
        if change.kind != self.kind or change.what not in self.what:
            return False
        if self.parts and not self.parts & change.parts:
            return False
        if self.about and interests.topics.isdisjoint(self.topics_of(change)):
            return False
        if self.suits is not None and not self.suits(interests, change):
            return False
        return self.helps is None or self.helps(pod, change)

    def topics_of(self, change: Change) -> list[Topic]:
        """Those of the change's topics that this row goes by."""
        return [topic for topic in change.topics if topic.kind == self.about]


@dataclass
class Cycle:
    """One attempt to place one pod: what plugins see, and what they keep for each other within it.

    `snapshot` does not change while a cycle runs: a cycle never awaits. Nothing survives into the next one.
    """

    pod: Pod
    snapshot: Snapshot
    _memory: dict[type, object] = field(default_factory=dict)
    _claims: PodClaims | str | None = None
    _requests: Requests | str | None = None
    _narrowed: Said | None = None

    @property
    def claims(self) -> PodClaims | str:
        """The pod's claims as the volume library sorts them, or why it cannot be placed because of them."""
        if self._claims is None:
            self._claims = self.snapshot.volumes.claims_of(self.pod)
        return self._claims

    @property
    def requests(self) -> Requests | str:
        """What the pod asks of a node, or why that cannot be understood."""
        if self._requests is None:
            try:
                self._requests = requests_of(self.pod)
            except QuantityError as error:
                self._requests = f"pod's resource requests cannot be understood: {error}"
        return self._requests

    @property
    def interests(self) -> Interests:
        """What the pod waits for if no node takes it."""
        return interests_of(self.pod, self.claims, self.snapshot.volumes)

    def supposing(self, claims: PodClaims) -> "Cycle":
        """Another attempt at the same moment, for the same pod with other claims."""
        return Cycle(self.pod, self.snapshot, _claims=claims)

    def narrow(self, plugin: str, code: RejectionCode, nodes: NodeSet) -> None:
        """A plugin's prefilter names the only nodes that can take the pod: no filter has a say about the others."""
        reason = f"node(s) didn't satisfy plugin(s) [{plugin}]"
        self._narrowed = Said(plugin, (Rejection(self.snapshot.nodes & ~nodes, reason, code, resolvable=False),))

    @property
    def narrowed(self) -> tuple[Said, ...]:
        """What was said of the nodes that were left out; nothing where all were asked about."""
        return () if self._narrowed is None else (self._narrowed,)

    def remember(self, value: object) -> None:
        """Keep one value per type for this plugin's later methods."""
        self._memory[type(value)] = value

    def recall(self, kind: type[S]) -> S:
        """The value of that type; KeyError when the plugin's prefilter did not leave one."""
        value = self._memory[kind]
        assert isinstance(value, kind)
        return value


class Plugin(Protocol):
    """A plugin whose class also says `only_volumes = True` is not asked about pods without volumes."""

    name: ClassVar[str]
    #: What could change this plugin's mind. A test asserts that every plugin that rejects declares some.
    wakes_on: ClassVar[tuple[Hint, ...]]


@runtime_checkable
class PreFilter(Plugin, Protocol):
    def prefilter(self, cycle: Cycle) -> str | None:
        """A reason to refuse the pod on every node, or None. May `remember` what `filter` will need."""
        ...


@runtime_checkable
class Filter(Plugin, Protocol):
    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        """Which nodes cannot take the pod, and why. A node may be named by several rejections."""
        ...


@runtime_checkable
class HeedsPods(Filter, Protocol):
    """A filter that knows where the pods on a node matter to it. Of others it is taken that they do everywhere."""

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        """The nodes about which `filter` might say something else if some of the pods there were gone."""
        ...


@runtime_checkable
class AddsUp(Filter, Protocol):
    """A filter that only compares amounts: what it says without some of the pods on a node can be worked out."""

    def room(self, cycle: Cycle) -> Room:
        """What the pod lacks on which node, and in which words."""
        ...


@runtime_checkable
class Score(Plugin, Protocol):
    @property
    def weight(self) -> int:
        """How much this plugin's scores count among the others'."""
        ...

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        """Preference among the feasible nodes, 0 to 100 each; None when the plugin has no opinion."""
        ...


@runtime_checkable
class Reserve(Plugin, Protocol):
    def reserve(self, cycle: Cycle, node: str) -> BindingPlan:
        """Promise the node what the pod needs of it, so that later cycles see it as taken."""
        ...

    def unreserve(self, snapshot: Snapshot, plan: BindingPlan) -> None:
        """Take the promise back, in a later state of the same snapshot. Idempotent."""
        ...


class Ranking(NamedTuple):
    """How the chosen node came first: its total, and who came second among so many."""

    feasible: int = 0
    score: float = 0.0
    #: "" where there was no other.
    runner_up: str = ""
    runner_up_score: float = 0.0


UNRANKED: Final = Ranking()


class Decision(NamedTuple):
    """Everything one cycle found. `explain`, events and metrics only read it."""

    pod: Pod
    #: Where the pod goes; "" when it goes nowhere.
    node: str
    #: How many nodes were looked at.
    considered: int
    refusals: tuple[Refusal, ...]
    said: tuple[Said, ...]
    #: Weighted totals of the feasible nodes, by name; for people who ask why this node.
    totals: Mapping[str, float]
    ranking: Ranking = UNRANKED

    @property
    def rejected(self) -> bool:
        """Whether anybody said no to any node."""
        for _, rejections in self.said:  # noqa: SIM110  asked for every pod; a generator costs a call per plugin
            if rejections:
                return True
        return False

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins that must change their mind before another attempt makes sense: those first to reject a node.

        While one refuses the pod on every node, what the others think of single nodes does not matter. Nor does it
        matter what a later plugin thinks of a node: as long as an earlier one rejects it, the pod cannot go there.
        """
        if self.refusals:
            return frozenset({self.refusals[0].plugin})
        settled, first = EMPTY, set[str]()
        for plugin, rejections in self.said:
            rejected = settled
            for rejection in rejections:
                rejected |= rejection.nodes
            if rejected != settled:
                first.add(plugin)
            settled = rejected
        return frozenset(first)
