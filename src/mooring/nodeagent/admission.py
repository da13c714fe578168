"""Pod admission as the kubelet does it, resource allocations of nodes, and preconditions of mounts. Pure.

A rejected pod fails for good; a pod whose volumes cannot be mounted stays Pending and is retried. Order and texts are
the kubelet's.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Self

from mooring.api import node_selectors, quantity
from mooring.api.kinds import CONFIG_MAP, SECRET, Kind
from mooring.api.node_selectors import NODE_NAME_FIELD
from mooring.api.pod_requirements import NO_EXECUTE, PODS, HostPort, host_ports, requests_of, to_whole_units, tolerated
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import NamedSource, Pod, PodVolume
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.volumes.topology import reaches

#: The kubelet's event reason for volumes that cannot be mounted.
FAILED_MOUNT = "FailedMount"


class StorageLookup(NamedTuple):
    """Claims by key, volumes and classes by name."""

    claim: Callable[[str], Claim | None]
    volume: Callable[[str], Volume | None]
    storage_class: Callable[[str], StorageClass | None]


def mount_blocker(pod: Pod, node: Node, storage: StorageLookup) -> str | None:
    """Why the first of the pod's claims cannot be mounted on the node; None if all can."""
    for mount in pod.spec.volumes:
        name = pod.claim_name(mount)
        reason = _claim_blocker(pod, mount, f"{pod.namespace}/{name}", node, storage) if name else None
        if reason is not None:
            return reason
    return None


def _claim_blocker(pod: Pod, mount: PodVolume, key: str, node: Node, storage: StorageLookup) -> str | None:
    claim = storage.claim(key)
    if claim is None:
        return _unprocessed(mount, key, f'failed to fetch PVC from API server: persistentvolumeclaim "{key}" not found')
    if mount.ephemeral is not None and (claim.controller is None or claim.controller.uid != pod.uid):
        return _unprocessed(mount, key, f"PVC {key} was not created for pod {pod.key} (pod is not owner)")
    if claim.deleting:
        return _unprocessed(mount, key, "PVC is being deleted")
    if not claim.fully_bound or claim.status.phase != "Bound":
        return _unprocessed(mount, key, f"PVC is not bound{_why_unbound(claim, storage)}")
    volume = storage.volume(claim.spec.volume_name)
    reference = volume.spec.claim_ref if volume is not None else None
    if volume is None or reference is None or reference.uid != claim.uid:
        return _unprocessed(mount, key, f"PV {claim.spec.volume_name} is not bound to this claim")
    if not reaches(node.name, node.metadata.labels, volume):
        return f'MountVolume.NodeAffinity check failed for volume "{volume.name}" : no matching NodeSelectorTerms'
    return None


def _why_unbound(claim: Claim, storage: StorageLookup) -> str:
    storage_class = storage.storage_class(claim.storage_class)
    if storage_class is None or not storage_class.delayed or claim.spec.volume_name:
        return ""
    return (
        f": its class {storage_class.name} binds it when a pod that uses it is scheduled, and this pod's nodeName was "
        "set without the scheduler"
    )


def _unprocessed(mount: PodVolume, key: str, reason: str) -> str:
    return (
        f"Unable to attach or mount volumes: unmounted volumes=[{mount.name}], unattached volumes=[], "
        f"failed to process volumes=[{mount.name}]: error processing PVC {key}: {reason}"
    )


class Allocation(NamedTuple):
    """What a pod takes of its node."""

    node: str
    amounts: Mapping[str, int]
    ports: tuple[HostPort, ...]

    @classmethod
    def of(cls, pod: Pod) -> Self:
        """Raises QuantityError."""
        return cls(pod.spec.node_name, {PODS: 1, **requests_of(pod).amounts}, tuple(host_ports(pod)))


class NodeAllocations:
    """Resources and host ports of admitted pods, by uid, from admission until the pod ends or is deleted: pods that are
    bound at the same time are admitted one after the other."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Allocation] = {}
        self._by_node: defaultdict[str, dict[str, Allocation]] = defaultdict(dict)
        self._used: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def allocate(self, pod: Pod) -> None:
        """Idempotent. Raises QuantityError."""
        if pod.uid not in self._by_uid:
            self.add(pod.uid, Allocation.of(pod))

    def add(self, uid: str, allocation: Allocation) -> None:
        self._by_uid[uid] = self._by_node[allocation.node][uid] = allocation
        self._used[allocation.node].update(allocation.amounts)

    def release(self, uid: str) -> None:
        allocation = self._by_uid.pop(uid, None)
        if allocation is None:
            return
        del self._by_node[allocation.node][uid]
        self._used[allocation.node].subtract(allocation.amounts)
        if not self._by_node[allocation.node]:
            del self._by_node[allocation.node], self._used[allocation.node]

    def used(self, node: str) -> Mapping[str, int]:
        return self._used.get(node, {})

    def ports(self, node: str) -> Iterator[HostPort]:
        return (port for allocation in self._by_node.get(node, {}).values() for port in allocation.ports)


class AdmissionFailure(NamedTuple):
    reason: str
    message: str


def admit(pod: Pod, node: Node, allocations: NodeAllocations) -> AdmissionFailure | None:
    """Allocate the pod's resources, or return why the node rejects it besides the pods that it has admitted."""
    allocation = Allocation.of(pod)
    failure = (
        _insufficient_resources(allocation.amounts, node, allocations.used(node.name))
        or _affinity_mismatch(pod, node)
        or _port_conflict(allocation.ports, node, allocations)
        or _untolerated_taint(pod, node)
    )
    if failure is None:
        allocations.add(pod.uid, allocation)
    return failure


def _insufficient_resources(
    requests: Mapping[str, int], node: Node, used: Mapping[str, int]
) -> AdmissionFailure | None:
    for name, amount in requests.items():
        if "/" in name and name not in node.status.allocatable:
            # A cluster-level extended resource, which the kubelet does not check.
            continue
        offered = to_whole_units(name, quantity.to_milli(node.status.allocatable.get(name, 0)))
        allocation = used.get(name, 0)
        if amount > offered - allocation:
            figures = f"requested: {amount}, used: {allocation}, capacity: {offered}"
            return AdmissionFailure(f"OutOf{name}", f"Node didn't have enough resource: {name}, {figures}")
    return None


def _affinity_mismatch(pod: Pod, node: Node) -> AdmissionFailure | None:
    labels = node.metadata.labels
    fits = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None:
        selector = node_selectors.node_selector_from_view(required.node_selector_terms)
        fits = fits and selector.matches(labels, fields={NODE_NAME_FIELD: node.name})
    return None if fits else _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")


def _port_conflict(
    requested: tuple[HostPort, ...], node: Node, allocations: NodeAllocations
) -> AdmissionFailure | None:
    if any(port.conflicts(used) for port in requested for used in allocations.ports(node.name)):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return None


def _untolerated_taint(pod: Pod, node: Node) -> AdmissionFailure | None:
    """Only NoExecute taints: the others concern the scheduler."""
    for taint in node.spec.taints:
        if taint.effect == NO_EXECUTE and not tolerated(pod.spec.tolerations, taint):
            return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(predicate: str, reason: str) -> AdmissionFailure:
    return AdmissionFailure(predicate, f"Predicate {predicate} failed: {reason}")


class MountSource(NamedTuple):
    """A ConfigMap or Secret that must exist before the volume can be set up.

    Read by name when a pod needs it, so that the agent needs no right to list Secrets.
    """

    volume: str
    kind: Kind[ApiObject]
    name: str

    @property
    def missing(self) -> str:
        """The kubelet's event text."""
        return f'MountVolume.SetUp failed for volume "{self.volume}" : {self.kind.singular} "{self.name}" not found'


def sources(pod: Pod) -> Iterator[MountSource]:
    """Those that are not optional, in the order of the pod's volumes."""
    for volume in pod.spec.volumes:
        yield from _source(volume.name, CONFIG_MAP, volume.config_map)
        yield from _source(volume.name, SECRET, volume.secret)
        for part in volume.projected.sources if volume.projected is not None else ():
            yield from _source(volume.name, CONFIG_MAP, part.config_map)
            yield from _source(volume.name, SECRET, part.secret)


def _source(volume: str, kind: Kind[ApiObject], named: NamedSource | None) -> Iterator[MountSource]:
    if named is not None and not named.optional:
        yield MountSource(volume, kind, named.secret_name or named.name)
