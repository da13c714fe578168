"""Result types of `mooring simulate` (`-o json`), the comparison of before and after, and the verdict. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from mooring.api.kinds import CLAIM, NODE, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, STORAGE_CAPACITY, VOLUME, Kind
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageCapacity, Volume
from mooring.api.views.workloads import ReplicaSet, StatefulSet
from mooring.explain.cluster_objects import SCHEDULING_KINDS, ClusterObjects
from mooring.explain.cluster_view import ClusterView
from mooring.explain.group import explain_group
from mooring.explain.pod import explain_pod
from mooring.explain.results import ExplainStruct, GroupReport, NodeVerdict
from mooring.explain.text import counted_noun, pod_paragraphs
from mooring.explain.volume_candidates import quantity_text
from mooring.volumes.capacity import readable_segment
from mooring.volumes.topology import TopologyIndex

V = TypeVar("V", bound=ApiObject)


class SimulationStruct(ExplainStruct, frozen=True, omit_defaults=True):
    """Options all parts share."""


class ClaimOutcome(SimulationStruct, frozen=True):
    """The volume a claim of a placed pod has; `made` says that it was made for it during the simulation."""

    claim: str
    volume: str
    storage_class: str = ""
    size: str = ""
    made: bool = False


class Placement(SimulationStruct, frozen=True):
    """A pod that found a node; `before` is where a pod of its name was, if there was one."""

    pod: str
    node: str
    before: str = ""
    claims: tuple[ClaimOutcome, ...] = ()


class PendingPod(SimulationStruct, frozen=True):
    """A pod without a node, or with one on which it cannot start, and why."""

    pod: str
    reason: str
    #: Where it is or was, as far as that is anywhere.
    node: str = ""
    #: Whether it waited before anything was changed.
    already: bool = False


class Shortfall(SimulationStruct, frozen=True):
    """A workload with fewer pods than it wants, because those to come are not created."""

    workload: str
    desired: int = msgspec.field(name="wanted")
    pods: int
    reason: str = ""
    #: Whether as many pods or more were missing before anything was changed.
    already: bool = False


class LostPod(SimulationStruct, frozen=True):
    """A deleted pod that no controller recreates."""

    pod: str
    node: str
    reason: str


class BlockedEviction(SimulationStruct, frozen=True):
    """A pod that a drain does not get off its node."""

    pod: str
    node: str
    reason: str


class Segment(SimulationStruct, frozen=True):
    """What a capacity object says before and after; None where it was not there. Amounts as Kubernetes writes them."""

    name: str
    storage_class: str
    segment: dict[str, str]
    nodes: int
    before: str | None = None
    after: str | None = None


class Difference(SimulationStruct, frozen=True):
    """What is not as it was: pods by name, where they went from and to, and everything else that came or went."""

    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()
    nodes_drained: tuple[str, ...] = ()
    pods_added: tuple[str, ...] = ()
    pods_moved: tuple[str, ...] = ()
    pods_removed: tuple[str, ...] = ()
    claims_bound: tuple[str, ...] = ()
    volumes_made: tuple[str, ...] = ()
    volumes_removed: tuple[str, ...] = ()


class RejectedNodes(SimulationStruct, frozen=True):
    """Nodes that a pod does not fit on for one reason; `code` and `subject` as in `mooring explain -o json`."""

    reason: str
    nodes: tuple[str, ...]
    code: str = ""
    subject: str = ""


class PendingExplanation(SimulationStruct, frozen=True):
    """Why one pod of several alike stays pending, as `mooring explain` says it."""

    pod: str
    alike: int
    verdict: str
    paragraphs: tuple[str, ...] = ()
    #: What would help, the nearest first.
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())
    #: The reason that most nodes have first.
    rejections: tuple[RejectedNodes, ...] = ()


class SimulationResult(SimulationStruct, frozen=True, omit_defaults=False):
    verdict: str
    ok: bool
    #: Simulated seconds until nothing happened any more.
    seconds: float
    placements: tuple[Placement, ...] = ()
    pending: tuple[PendingPod, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    blocked: tuple[BlockedEviction, ...] = ()
    lost: tuple[LostPod, ...] = ()
    capacity: tuple[Segment, ...] = ()
    difference: Difference = Difference()
    explanations: tuple[PendingExplanation, ...] = ()
    #: PodGroups with pods that stay pending, as `mooring explain` says it.
    groups: tuple[GroupReport, ...] = ()
    notes: tuple[str, ...] = ()


NO_REASON_REPORTED: Final = "no component has reported a reason yet"
NO_CONTROLLER: Final = "it has no controller that recreates it"
IN_ORDER: Final = "the next one is created when those before it are ready"


class Cluster(NamedTuple):
    """What is compared, at one moment."""

    nodes: Collection[Node]
    pods: Collection[Pod]
    claims: Collection[Claim]
    volumes: Collection[Volume]
    capacities: Collection[StorageCapacity]
    stateful_sets: Collection[StatefulSet] = ()
    replica_sets: Collection[ReplicaSet] = ()


class ObjectsOfKind(Protocol):
    def __call__(self, kind: Kind[V], /) -> Collection[V]: ...


def cluster_of(objects: ObjectsOfKind) -> Cluster:
    return Cluster(
        nodes=objects(NODE),
        pods=objects(POD),
        claims=objects(CLAIM),
        volumes=objects(VOLUME),
        capacities=[each for each in objects(STORAGE_CAPACITY) if not each.node_group],
        stateful_sets=objects(STATEFUL_SET),
        replica_sets=objects(REPLICA_SET),
    )


class SimulationMessages(NamedTuple):
    """What was said while it ran: about pods that do not start, evictions, and workloads that make no pods."""

    obstacles: Mapping[str, str]
    refused: Mapping[str, str]
    #: Why a pod has no node, or why a claim of it has no volume; "" if unknown.
    why_waiting: Callable[[Pod], str]
    #: Why a workload of this kind and key cannot make pods; "" where it can.
    why_not_created: Callable[[str, str], str]


class Comparison:
    def __init__(self, before: Cluster, after: Cluster, messages: SimulationMessages) -> None:
        self._before = before
        self._after = after
        self._messages = messages
        self._was = {pod.key: pod for pod in before.pods}
        self._is = {pod.key: pod for pod in after.pods}
        self._claims = {claim.key: claim for claim in after.claims}
        self._volumes = {volume.name: volume for volume in after.volumes}
        self._old_volumes = {volume.name for volume in before.volumes}
        self._placed_before = {pod.uid for pod in before.pods if pod.spec.node_name}

    def placements(self) -> tuple[Placement, ...]:
        """Pods that were given a node and can run there, in the order of nodes and names."""
        new = [pod for pod in self._after.pods if _runs(pod) and pod.uid not in self._placed_before]
        found = [pod for pod in new if pod.key not in self._messages.obstacles]
        return tuple(self._placement(pod) for pod in sorted(found, key=lambda pod: (pod.spec.node_name, pod.key)))

    def pending(self) -> tuple[PendingPod, ...]:
        return tuple(sorted((*self._unplaced(), *self._unstarted()), key=lambda each: (each.already, each.pod)))

    def shortfalls(self) -> tuple[Shortfall, ...]:
        """Workloads whose missing pods are not created; those that wait for a node are pending."""
        owned = Counter(owner.uid for pod in self._after.pods if (owner := pod.controller) and not pod.finished)
        return tuple(sorted(self._short(owned), key=lambda each: each.workload))

    def lost(self) -> tuple[LostPod, ...]:
        gone = [pod for pod in self._before.pods if pod.key not in self._is and _runs(pod) and pod.controller is None]
        gone.sort(key=lambda pod: pod.key)
        return tuple(LostPod(pod.key, pod.spec.node_name, NO_CONTROLLER) for pod in gone)

    def blocked(self) -> tuple[BlockedEviction, ...]:
        stuck = [(self._is[key], why) for key, why in sorted(self._messages.refused.items()) if key in self._is]
        return tuple(BlockedEviction(pod.key, pod.spec.node_name, why) for pod, why in stuck)

    def capacity(self) -> tuple[Segment, ...]:
        topology = TopologyIndex.of(self._after.nodes)
        was = {each.key: each for each in self._before.capacities}
        now = {each.key: each for each in self._after.capacities}
        found = [_segment(was.get(key), now.get(key), topology) for key in was.keys() | now.keys()]
        return tuple(sorted(found, key=lambda each: (each.storage_class, sorted(each.segment.items()), each.name)))

    def difference(self, drained: Collection[str]) -> Difference:
        nodes_were, nodes_are = ({node.name for node in cluster.nodes} for cluster in (self._before, self._after))
        moved = [
            f"{key}: {was.spec.node_name} → {now.spec.node_name or 'nowhere'}"
            for key, now in sorted(self._is.items())
            if (was := self._was.get(key)) is not None and was.spec.node_name not in ("", now.spec.node_name)
        ]
        bound_before, bound_after = (
            {claim.key: claim.spec.volume_name for claim in cluster.claims if claim.spec.volume_name}
            for cluster in (self._before, self._after)
        )
        bound = [f"{key}: {bound_after[key]}" for key in sorted(bound_after.keys() - bound_before.keys())]
        return Difference(
            nodes_added=tuple(sorted(nodes_are - nodes_were)),
            nodes_removed=tuple(sorted(nodes_were - nodes_are)),
            nodes_drained=tuple(sorted(drained)),
            pods_added=tuple(sorted(self._is.keys() - self._was.keys())),
            pods_moved=tuple(moved),
            pods_removed=tuple(sorted(self._was.keys() - self._is.keys())),
            claims_bound=tuple(bound),
            volumes_made=tuple(sorted(self._volumes.keys() - self._old_volumes)),
            volumes_removed=tuple(sorted(self._old_volumes - self._volumes.keys())),
        )

    def _placement(self, pod: Pod) -> Placement:
        was = self._was.get(pod.key)
        before = was.spec.node_name if was is not None else ""
        claims = (self._claim(self._claims[key]) for key in pod.claim_keys if key in self._claims)
        return Placement(pod.key, pod.spec.node_name, before, tuple(claims))

    def _claim(self, claim: Claim) -> ClaimOutcome:
        name = claim.spec.volume_name
        volume = self._volumes.get(name)
        size = quantity_text(volume.size if volume is not None else claim.request)
        is_made = bool(name) and name not in self._old_volumes
        return ClaimOutcome(claim.key, name, claim.storage_class, size, is_made)

    def _unplaced(self) -> Iterator[PendingPod]:
        for pod in self._after.pods:
            if pod.spec.node_name or pod.finished or pod.deleting:
                continue
            was = self._was.get(pod.key)
            already = was is not None and was.uid == pod.uid and not was.spec.node_name
            before = was.spec.node_name if was is not None else ""
            yield PendingPod(pod.key, self._messages.why_waiting(pod) or NO_REASON_REPORTED, before, already)

    def _unstarted(self) -> Iterator[PendingPod]:
        """Pods that have a node and cannot start there."""
        for key, why in self._messages.obstacles.items():
            pod = self._is.get(key)
            if pod is not None and pod.spec.node_name:
                yield PendingPod(key, why, pod.spec.node_name, pod.uid in self._placed_before)

    def _short(self, owned: Mapping[str, int]) -> Iterator[Shortfall]:
        for kind, sets in (("statefulset", self._after.stateful_sets), ("replicaset", self._after.replica_sets)):
            for each in sets:
                wanted, there = each.spec.replicas, owned.get(each.uid, 0)
                if there < wanted and not each.deleting:
                    why = self._messages.why_not_created(kind, each.key)
                    if not why and isinstance(each, StatefulSet) and each.spec.pod_management_policy != "Parallel":
                        why = IN_ORDER
                    already = self._missing_before(each) >= wanted - there
                    yield Shortfall(f"{kind}/{each.key}", wanted, there, why or NO_REASON_REPORTED, already)

    def _missing_before(self, item: StatefulSet | ReplicaSet) -> int:
        """How many pods a set lacked before anything was changed."""
        was = self._sets_before.get(item.uid)
        return 0 if was is None else was.spec.replicas - self._owned_before[item.uid]

    @cached_property
    def _sets_before(self) -> Mapping[str, StatefulSet | ReplicaSet]:
        sets: tuple[StatefulSet | ReplicaSet, ...] = (*self._before.stateful_sets, *self._before.replica_sets)
        return {each.uid: each for each in sets}

    @cached_property
    def _owned_before(self) -> Counter[str]:
        return Counter(owner.uid for pod in self._before.pods if (owner := pod.controller) is not None)


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.finished


def _segment(was: StorageCapacity | None, now: StorageCapacity | None, topology: TopologyIndex) -> Segment:
    shown = now or was
    assert shown is not None, "a key is of one of them"
    room = readable_segment(shown)
    return Segment(
        name=shown.key,
        storage_class=shown.storage_class_name,
        segment=dict(shown.node_topology.match_labels) if shown.node_topology is not None else {},
        nodes=topology.matching(room.segment).bit_count() if room is not None else 0,
        before=_reported(was),
        after=_reported(now),
    )


def _reported(capacity: StorageCapacity | None) -> str | None:
    return None if capacity is None or capacity.capacity is None else quantity_text(capacity.capacity)


#: Groups of pods that are explained; the others keep the scheduler's own sentence.
MAX_EXPLAINED_GROUPS: Final = 5


def explanations(
    pending: Sequence[PendingPod], pod: Callable[[str], Pod | None], items: ObjectsOfKind, *, now: float
) -> tuple[PendingExplanation, ...]:
    """Of pods that found no node; `items` are all objects of a kind at the end."""
    groups: dict[tuple[str, str], list[Pod]] = {}
    for each in pending:
        waiting = pod(each.pod)
        if waiting is not None and not waiting.spec.node_name:
            owner = waiting.controller
            groups.setdefault((owner.uid if owner is not None else "", each.reason), []).append(waiting)
    if not groups:
        return ()
    objects = objects_at_end(items, now=now)
    return tuple(_explained(alike, objects) for alike in [*groups.values()][:MAX_EXPLAINED_GROUPS])


def objects_at_end(items: ObjectsOfKind, *, now: float) -> ClusterObjects:
    objects = ClusterObjects(now=now)
    for kind in (*SCHEDULING_KINDS, POD_GROUP):
        for item in items(kind):
            objects.put(kind, item)
    return objects


def pending_groups(pending: Sequence[PendingPod], items: ObjectsOfKind, *, now: float) -> tuple[GroupReport, ...]:
    """Reports of groups whose pods found no node."""
    names = {each.pod for each in pending}
    keys = dict.fromkeys(pod.group_key for pod in items(POD) if pod.key in names and pod.group_key and pod.waits)
    if not keys:
        return ()
    view = ClusterView(objects_at_end(items, now=now))
    reports = (explain_group(view, key) for key in sorted(keys)[:MAX_EXPLAINED_GROUPS])
    return tuple(report for report in reports if report is not None)


def _explained(alike: Sequence[Pod], objects: ClusterObjects) -> PendingExplanation:
    verdict, _ = explain_pod(alike[0], objects)
    rest = tuple(pod_paragraphs(msgspec.structs.replace(verdict, remedy_texts=())))
    rejections = tuple(_rejections(verdict.nodes))
    return PendingExplanation(alike[0].key, len(alike), verdict.verdict, rest, verdict.remedy_texts, rejections)


def _rejections(nodes: Mapping[str, NodeVerdict]) -> list[RejectedNodes]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, node in nodes.items():
        for one in node.reasons:
            found.setdefault((one.reason, one.code, one.subject), []).append(name)
    alike = [RejectedNodes(reason, tuple(names), code, subject) for (reason, code, subject), names in found.items()]
    return sorted(alike, key=lambda each: (-len(each.nodes), each.reason))


def is_good(result: SimulationResult) -> bool:
    """Whether everything that should run does, except what did not before."""
    pending = any(not each.already for each in result.pending)
    missing = any(not each.already for each in result.shortfalls)
    return not (pending or missing or result.blocked or result.lost)


def all_run(result: SimulationResult) -> bool:
    """Whether everything that should run does, also what did not before."""
    return is_good(result) and not result.pending and not result.shortfalls


def verdict(result: SimulationResult) -> str:
    placed, newly = len(result.placements), sum(not each.already for each in result.pending)
    if is_good(result):
        if all_run(result):
            return f"{_all(placed)} scheduled." if placed else "No pod needs to be scheduled, and none stays pending."
        lead = f"{_all(placed)} scheduled" if placed else "No pod becomes pending"
        return f"{lead}; {' and '.join(_as_before(result))} as before."
    lead = f"{placed} of {placed + newly} pods are scheduled" if newly else f"{_all(placed)} scheduled"
    troubles = " and ".join(_troubles(result))
    before = f", and {' and '.join(as_before)} as before" if (as_before := [*_as_before(result)]) else ""
    return f"{lead}; {troubles}{before}." if placed else f"{troubles[0].upper()}{troubles[1:]}{before}."


def _troubles(result: SimulationResult) -> Iterator[str]:
    if newly := sum(not each.already for each in result.pending):
        yield f"{_pods(newly, 'stays', 'stay')} pending"
    if missing := sum(each.desired - each.pods for each in result.shortfalls if not each.already):
        yield f"{_pods(missing, 'is', 'are')} not created"
    if result.blocked:
        yield _pods(len(result.blocked), "does not leave its node", "do not leave their node")
    if result.lost:
        yield f"{_pods(len(result.lost), 'is', 'are')} lost"


def _as_before(result: SimulationResult) -> Iterator[str]:
    if already := sum(each.already for each in result.pending):
        yield f"{_pods(already, 'stays', 'stay')} pending"
    if missing := sum(each.desired - each.pods for each in result.shortfalls if each.already):
        yield f"{_pods(missing, 'is', 'are')} not created"


def _all(count: int) -> str:
    return "The pod is" if count == 1 else f"All {count} pods are"


def _pods(count: int, verb: str, verb_of_many: str) -> str:
    return f"{counted_noun(count, 'pod')} {verb if count == 1 else verb_of_many}"
