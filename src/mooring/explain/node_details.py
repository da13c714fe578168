"""Details behind a plugin's rejection of a node: taints, resource amounts, volume limits, conflicting pods.

Decides nothing. Only listed pods are named, so no pod is shown that the user cannot list.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from mooring.api.kinds import CSI_NODE, NODE, POD
from mooring.api.node_selectors import NODE_NAME_FIELD
from mooring.api.pod_requirements import CPU, FORBIDDING, PODS, HostPort, host_ports, needed_by, tolerated
from mooring.api.selectors import SelectorError
from mooring.api.views.core import Node, Taint
from mooring.api.views.pods import Pod
from mooring.explain.cluster_objects import ClusterObjects, taint_text
from mooring.explain.results import Reason
from mooring.explain.text import listed_names
from mooring.scheduler.framework.interface import CycleState, NodeRejection, RejectionCode
from mooring.scheduler.plugins import pod_topology_spread
from mooring.scheduler.plugins.volume_restrictions import ONE_POD
from mooring.scheduler.snapshot.pod_terms import PodTerms, Term, required_of, terms_of
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.in_tree import driver_of, identity_of, in_zone, zone_requirements_of
from mooring.volumes.shortage import readable_size, topology_text
from mooring.volumes.usage import disks_conflict

#: How many pods are named; the others are counted.
MAX_LISTED: Final = 3

#: Keys of pods by a label of the nodes they are on: its key, then its value.
_ByDomain: TypeAlias = defaultdict[str, defaultdict[str, list[str]]]


class PodsInDomain(NamedTuple):
    """Keys of pods on the nodes that have a label."""

    key: str
    value: str
    pods: list[str]


class ConflictingPods:
    """The pods on nodes, seen by one that looks for a node."""

    def __init__(self, cycle: CycleState, objects: ClusterObjects) -> None:
        self._pod = cycle.pod
        self._snapshot = cycle.snapshot
        self._objects = objects

    def port_holders(self, node: Node) -> list[tuple[HostPort, Pod]]:
        """The host ports of the pod that pods on the node use, with these."""
        return [
            (mine, other)
            for other in self._snapshot.pods_on(node.name)
            for mine in host_ports(self._pod)
            if any(mine.conflicts(theirs) for theirs in host_ports(other))
        ]

    def disk_users(self, node: Node) -> list[str]:
        return [other.key for other in self._snapshot.pods_on(node.name) if disks_conflict(self._pod, other)]

    @cached_property
    def claim_users(self) -> dict[str, list[Pod]]:
        """By claims of the pod that only one pod may use and another pod uses: the listed pods on nodes that do."""
        volumes = self._snapshot.volumes
        claims = ((key, volumes.claim(key)) for key in self._pod.claim_keys)
        return {
            key: [
                pod
                for pod in self._objects.of(POD)
                if key in pod.claim_keys and pod.spec.node_name and not pod.finished and pod.key != self._pod.key
            ]
            for key, claim in claims
            if claim is not None and ONE_POD in claim.spec.access_modes and volumes.in_use(key)
        }

    def excluded(self, node: Node) -> list[PodsInDomain]:
        """The pods near the node that the pod's anti-affinity excludes."""
        return _near(self._excluded, node)

    def excluding(self, node: Node) -> list[PodsInDomain]:
        """The pods near the node whose anti-affinity excludes the pod."""
        return _near(self._excluding, node)

    @cached_property
    def _excluded(self) -> _ByDomain:
        """Worked out once: a cluster has more pods than one can look at for every node."""
        terms = _terms(self._pod).anti_affinity
        return self._by_domain((node, pod, term, pod) for node, pod in self._placed() for term in terms)

    @cached_property
    def _excluding(self) -> _ByDomain:
        return self._by_domain(
            (node, pod, term, self._pod) for node, pod in self._placed() for term in _terms(pod).anti_affinity
        )

    def _placed(self) -> Iterator[tuple[str, Pod]]:
        names = self._snapshot.topology.names(self._snapshot.nodes)
        return ((name, pod) for name in names for pod in self._snapshot.pods_on(name))

    def _by_domain(self, terms: Iterable[tuple[str, Pod, Term, Pod]]) -> _ByDomain:
        """Of nodes with a pod, a term and the pod that the term may select."""
        found: _ByDomain = defaultdict(lambda: defaultdict(list))
        for node, pod, term, selected in terms:
            domain = self._snapshot.topology.labels(node).get(term.topology_key)
            namespace = self._snapshot.pods.namespace_labels(selected.namespace)
            if domain is not None and term.pods.matches(selected, namespace):
                found[term.topology_key][domain].append(pod.key)
        return found


def _near(found: _ByDomain, node: Node) -> list[PodsInDomain]:
    labels = node.metadata.labels
    return [
        PodsInDomain(key, labels[key], domains[labels[key]])
        for key, domains in found.items()
        if labels.get(key) in domains
    ]


def _terms(pod: Pod) -> PodTerms:
    try:
        return terms_of(pod)
    except SelectorError:
        # The snapshot counts such a pod as one that says nothing, and says so.
        return PodTerms()


def untolerated_taints(pod: Pod, node: Node) -> list[Taint]:
    return [
        taint for taint in node.spec.taints if taint.effect in FORBIDDING and not tolerated(pod.spec.tolerations, taint)
    ]


def missing_features(pod: Pod, node: Node) -> tuple[str, ...]:
    return tuple(feature for feature in needed_by(pod) if feature not in node.status.declared_features)


class RejectionDetails:
    """What there is to say about reasons against one pod; each is asked about one node."""

    def __init__(self, cycle: CycleState, objects: ClusterObjects) -> None:
        self._cycle = cycle
        self._pod = cycle.pod
        self._snapshot = cycle.snapshot
        self._objects = objects
        self._conflicts = ConflictingPods(cycle, objects)

    def of(self, plugin: str, rejection: NodeRejection, name: str) -> Reason:
        """A rejection on one of its nodes, with what is behind it there."""
        node = self._objects.get(NODE, name)
        detail = "" if node is None else self._detail(rejection, node)
        return Reason(plugin, rejection.reason, detail, rejection.code.value, rejection.subject)

    def _detail(self, rejection: NodeRejection, node: Node) -> str:
        conflicts = self._conflicts
        match rejection.code:
            case RejectionCode.UNSCHEDULABLE:
                return "it is cordoned: spec.unschedulable is true"
            case RejectionCode.TAINT:
                return ", ".join(map(taint_text, untolerated_taints(self._pod, node)))
            case RejectionCode.NODE_AFFINITY:
                return self._affinity(node)
            case RejectionCode.DECLARED_FEATURES:
                return f"it does not declare {', '.join(missing_features(self._pod, node))}"
            case RejectionCode.HOST_PORTS:
                held = (
                    f"{port.protocol} {port.port} is used by {pod.key}" for port, pod in conflicts.port_holders(node)
                )
                return listed_names(dict.fromkeys(held), MAX_LISTED)
            case RejectionCode.POD_COUNT:
                return self._resource(node, PODS)
            case RejectionCode.RESOURCE:
                return self._resource(node, rejection.subject)
            case RejectionCode.VOLUME_LIMIT:
                return self._limits(node)
            case RejectionCode.DISK_IN_USE:
                return f"in use by {listed_names(conflicts.disk_users(node), MAX_LISTED)}"
            case RejectionCode.CLAIM_IN_USE:
                return self._claim_users
            case RejectionCode.VOLUME_ZONE:
                return self._zones(node)
            case RejectionCode.SPREADING:
                return "; ".join(filter(None, (self._uneven(each, node) for each in self._constraints())))
            case RejectionCode.SPREADING_LABEL:
                keys = dict.fromkeys(each.topology_key for each in self._constraints())
                return ", ".join(f"the node has no label {key}" for key in keys if key not in node.metadata.labels)
            case RejectionCode.POD_AFFINITY:
                return "; ".join(
                    f"requires a pod with {str(term.pods.labels) or 'any labels'} in the same {term.topology_key}"
                    for term in _terms(self._pod).affinity
                )
            case RejectionCode.POD_ANTI_AFFINITY:
                return _pods_text(conflicts.excluded(node), "excluded by the pod's anti-affinity")
            case RejectionCode.EXISTING_POD_ANTI_AFFINITY:
                return _pods_text(conflicts.excluding(node), "whose anti-affinity excludes the pod")
            case _:
                return ""

    def _affinity(self, node: Node) -> str:
        try:
            selectors = required_of(self._pod).selectors
        except SelectorError:
            return ""
        labels = node.metadata.labels
        failing = [one for one in selectors if not one.matches(labels, fields={NODE_NAME_FIELD: node.name})]
        affinity_text = " and ".join(topology_text(one) for one in failing)
        keys = dict.fromkeys(part.key for one in failing for term in one.terms for part in term.expressions)
        has = ", ".join(f"{key}={labels[key]}" if key in labels else f"no {key}" for key in keys)
        return f"the pod requires {affinity_text}; the node has {has}" if has else f"the pod requires {affinity_text}"

    def _resource(self, node: Node, resource: str) -> str:
        offered, taken = offered_and_taken(self._snapshot, node.name, resource)
        requests = self._cycle.requests
        asked = 1 if resource == PODS or isinstance(requests, str) else requests.amounts.get(resource, 0)
        free = counted(resource, max(offered - taken, 0))
        return f"{counted(resource, asked)} requested, {free} of {counted(resource, offered)} free"

    def _limits(self, node: Node) -> str:
        mine = drivers_of(self._cycle, self._pod)
        return "; ".join(
            f"{driver} has {limit - left} of {limit} volumes there, the pod needs {mine[driver]}"
            for driver, limit, left in volume_limits(self._snapshot, self._objects, node.name)
            if left < mine[driver]
        )

    @cached_property
    def _claim_users(self) -> str:
        said: list[str] = []
        for claim, pods in self._conflicts.claim_users.items():
            users = [f"{pod.key} on {pod.spec.node_name}" for pod in pods]
            said.append(f"claim {claim} is used by {listed_names(users, MAX_LISTED) or 'a pod that is not listed'}")
        return "; ".join(said)

    def _zones(self, node: Node) -> str:
        said: list[str] = []
        for key in self._pod.claim_keys:
            claim = self._snapshot.volumes.claim(key)
            volume = None if claim is None else self._snapshot.volumes.volume(claim.spec.volume_name)
            if volume is not None and not in_zone(volume, node.metadata.labels):
                places = ", ".join(
                    f"{place.key} in ({','.join(place.values)})" for place in zone_requirements_of(volume)
                )
                said.append(f"volume {volume.name} of claim {key} is labelled {places}")
        return "; ".join(said)

    def _constraints(self) -> tuple[pod_topology_spread.Constraint, ...]:
        try:
            return pod_topology_spread.constraints_of(self._pod, pod_topology_spread.DO_NOT_SCHEDULE)
        except SelectorError:
            return ()

    def _uneven(self, constraint: pod_topology_spread.Constraint, node: Node) -> str:
        snapshot, key = self._snapshot, constraint.topology_key
        if key not in node.metadata.labels:
            return ""
        labelled = snapshot.topology.having(key) & pod_topology_spread.counted_nodes(constraint, self._pod, snapshot)
        census = snapshot.domains.counts(key, pod_topology_spread.pods_by_slot(constraint, snapshot), labelled)
        here = int(census.by_slot[snapshot.topology.slot(node.name)])
        least = int(census.least) if census.domains >= constraint.min_domains else 0
        if here + constraint.matches(self._pod) - least <= constraint.max_skew:
            return ""
        place = f"{key}={node.metadata.labels[key]}"
        return f"{place} has {here} matching pods and the minimum is {least}; maxSkew is {constraint.max_skew}"


def _pods_text(domains: Iterable[PodsInDomain], how: str) -> str:
    return "; ".join(
        f"{key}={value} has {listed_names(dict.fromkeys(pods), MAX_LISTED)}, {how}" for key, value, pods in domains
    )


def offered_and_taken(snapshot: Snapshot, node: str, resource: str) -> tuple[int, int]:
    """Of a resource on a node: what is allocatable and what pods request, as the scheduler counts it."""
    columns, slot = snapshot.resources, snapshot.topology.slot(node)
    return int(columns.allocatable(resource)[slot]), int(columns.requested(resource)[slot])


def volume_limits(snapshot: Snapshot, objects: ClusterObjects, node: str) -> Iterator[tuple[str, int, int]]:
    """The drivers with a volume limit on a node: name, limit and how many volumes are left."""
    csi_node, limits = objects.get(CSI_NODE, node), snapshot.volumes.limits
    for driver in csi_node.spec.drivers or () if csi_node is not None else ():
        if driver.allocatable is not None and (limit := driver.allocatable.count) is not None:
            yield driver.name, limit, int(limits.left(driver.name)[snapshot.topology.slot(node)])


def drivers_of(cycle: CycleState, pod: Pod) -> Counter[str]:
    """How many volumes of which driver a pod needs, as far as the node does not matter."""
    volumes = cycle.snapshot.volumes
    needed: Counter[str] = Counter()
    for key in dict.fromkeys(pod.claim_keys):
        if (claim := volumes.claim(key)) is not None:
            volume = volumes.volume(claim.spec.volume_name)
            identity = None if volume is None else identity_of(volume)
            provisioner = volumes.provisioners.provisioner(claim.storage_class)
            if driver := driver_of(provisioner) if identity is None else identity.driver:
                needed[driver] += 1
    return needed


def counted(resource: str, amount: int) -> str:
    """An amount as the scheduler counts it, in Kubernetes' spelling."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    return str(amount) if resource == PODS or "/" in resource else readable_size(amount)
