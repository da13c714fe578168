"""What a pod requires of a node: resource requests, host ports, tolerations and declared node features. Pure.

Requests are added up as in kube-scheduler: containers run together, so they add; init containers run one after the
other, so the largest counts, on top of the sidecars started before it. Pod-level requests replace that sum, the
overhead of the runtime class is added, and during a resize the largest of the sums of desired, actual and allocated
resources counts. CPU is in milli units, all else in whole units. The scheduler and the node agent must agree on this.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.quantity import QuantityError
from mooring.api.views.core import Taint
from mooring.api.views.meta import Amount
from mooring.api.views.pods import Container, ContainerStatus, Pod, Toleration

#: Node features (`status.declaredFeatures`) of Kubernetes, whose list changes with its versions.
RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
#: Sorted, as kubelets declare them.
ALL: Final = (RESTART_ALL, USERS_ON_HOST_NETWORK)

_RESTART_ALL_ACTION: Final = "RestartAllContainers"


def needed_by(pod: Pod) -> tuple[str, ...]:
    """The features a node must declare to run a pod."""
    spec = pod.spec
    needed: tuple[str, ...] = ()
    if any(
        rule.action == _RESTART_ALL_ACTION
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    ):
        needed += (RESTART_ALL,)
    if spec.host_network and spec.host_users is False:
        needed += (USERS_ON_HOST_NETWORK,)
    return needed


CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
#: Prefix of the resource names of huge pages.
HUGE_PAGES: Final = "hugepages-"
#: Every pod requests one.
PODS: Final = "pods"
#: A host port without an address is allocated on every address of the node.
ANY_ADDRESS: Final = "0.0.0.0"  # a name, not a listening address

#: Assumed usage of a container without requests when nodes are scored; kube-scheduler's values.
ASSUMED_CPU: Final = 100
ASSUMED_MEMORY: Final = 200 * 1024 * 1024

_MILLI: Final = 1000
#: The same in milli units.
_ASSUMED: Final[Mapping[str, int]] = {CPU: ASSUMED_CPU, MEMORY: ASSUMED_MEMORY * _MILLI}

_SIDECAR: Final = "Always"
#: Resources of pod-level requests.
_OF_PODS: Final = frozenset({CPU, MEMORY})
#: Pod condition of a waiting resize, and its reason if the node will never grant it.
_RESIZE_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"


class Requests(NamedTuple):
    """A pod's requests, computed once and cached with the pod."""

    #: By resource name, without zeros.
    amounts: Mapping[str, int]
    #: CPU and memory for scoring, with assumed usage for containers without requests.
    scored_cpu: int
    scored_memory: int


NOTHING: Final = Requests({}, 0, 0)


class HostPort(NamedTuple):
    """A port of the node that a container uses."""

    protocol: str
    port: int
    address: str

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be allocated on one node."""
        same_address = self.address == other.address or ANY_ADDRESS in (self.address, other.address)
        return (self.protocol, self.port) == (other.protocol, other.port) and same_address


def host_ports(pod: Pod) -> Iterator[HostPort]:
    """The host ports of a running pod: of its containers and sidecars."""
    for container in (*_sidecars(pod), *pod.spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)


def requests_of(pod: Pod) -> Requests:
    """Raises QuantityError for an invalid or negative amount."""
    exact = _sum(pod, {})
    # With pod-level requests nothing is assumed for resources that the pod or one of its containers requests.
    has_pod_requests = any(is_of_pods(name) for name in pod.spec.resources.requests)
    scored = _sum(pod, {name: m for name, m in _ASSUMED.items() if name not in exact} if has_pod_requests else _ASSUMED)
    return Requests(
        {name: amount for name, milli in exact.items() if (amount := to_whole_units(name, milli)) > 0},
        to_whole_units(CPU, scored.get(CPU, 0)),
        to_whole_units(MEMORY, scored.get(MEMORY, 0)),
    )


def asks_less(before: Pod, after: Pod) -> bool:
    """Whether an updated pod requests less of its node than before."""
    try:
        if before.spec == after.spec and _resize_state(before) == _resize_state(after):
            return False
        was, now = requests_of(before).amounts, requests_of(after).amounts
    except QuantityError:
        # Invalid requests count as nothing, so resources may have become free.
        return True
    return any(now.get(name, 0) < amount for name, amount in was.items())


def to_whole_units(name: str, milli: int) -> int:
    """In the unit the resource is counted in, rounded up."""
    return milli if name == CPU else -(-milli // _MILLI)


def _sum(pod: Pod, assumed: Mapping[str, int]) -> dict[str, int]:
    """In milli units, the finest the API server stores, so that sums are exact."""
    total = containers_ask(pod, assumed)
    asked, status = pod.spec.resources.requests, pod.status
    if any(map(is_of_pods, asked)):
        most = _amounts(asked)
        if status.resources is not None:
            most = {} if _resize_infeasible(pod) else most
            _raise_to(most, _amounts(status.resources.requests))
            _raise_to(most, _amounts(status.allocated_resources))
        total |= {name: amount for name, amount in most.items() if is_of_pods(name)}
    return _added(total, (_amounts(pod.spec.overhead),))


def is_of_pods(resource: str) -> bool:
    """Whether pod-level requests may contain it."""
    return resource in _OF_PODS or resource.startswith(HUGE_PAGES)


def containers_ask(pod: Pod, assumed: Mapping[str, int] = NOTHING.amounts) -> dict[str, int]:
    """Milli units of what its containers request together, `assumed` for resources they do not request.

    During a resize the largest of three sums counts: of what they request, of what the node allocated, and of what they
    have. A resize that the node will never grant does not count.
    """
    desired = _sum_of_containers(pod, assumed, lambda container: container.resources.requests)
    status, infeasible = pod.status, _resize_infeasible(pod)
    if status.allocated_resources and status.resources is not None and status.resources.requests:
        others = [_amounts(status.allocated_resources), _amounts(status.resources.requests)]
    elif infeasible or _is_resized(pod):
        others = [_sum_of_containers(pod, assumed, requests) for requests in _allocated_and_actual(pod, infeasible)]
    else:
        return desired
    most = {} if infeasible else desired
    for total in others:
        _raise_to(most, total)
    return most


#: What counts as the requests of a container.
_RequestsFn = Callable[[Container], Mapping[str, Amount]]


def _sum_of_containers(pod: Pod, assumed: Mapping[str, int], requests: _RequestsFn) -> dict[str, int]:
    total = _added({}, ({**assumed, **_amounts(requests(container))} for container in pod.spec.containers))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        asked = {**assumed, **_amounts(requests(container))}
        if container.restart_policy == _SIDECAR:
            total = _added(total, (asked,))
            sidecars = _added(sidecars, (asked,))
            running = sidecars
        else:
            running = _added(sidecars, (asked,))
        _raise_to(peak, running)
    _raise_to(total, peak)
    return total


def _allocated_and_actual(pod: Pod, infeasible: bool) -> tuple[_RequestsFn, _RequestsFn]:
    """What the node allocated to a container, and what the container has; its requests before the node reports it."""
    statuses = {one.name: one for one in _statuses(pod)}

    def allocated(container: Container) -> Mapping[str, Amount]:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources:
            return status.allocated_resources
        return {} if infeasible else container.resources.requests

    def actual(container: Container) -> Mapping[str, Amount]:
        status = statuses.get(container.name)
        has = None if status is None else status.resources
        return has.requests if has is not None and has.requests else allocated(container)

    return allocated, actual


def _raise_to(most: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        most[name] = max(most.get(name, 0), amount)


def _sidecars(pod: Pod) -> Iterator[Container]:
    return (container for container in pod.spec.init_containers if container.restart_policy == _SIDECAR)


def _statuses(pod: Pod) -> Iterator[ContainerStatus]:
    return chain(pod.status.container_statuses, pod.status.init_container_statuses)


def _resize_state(pod: Pod) -> tuple[object, ...]:
    """What the status says about resizes."""
    containers = [(one.name, one.resources, one.allocated_resources) for one in _statuses(pod)]
    return containers, pod.status.resources, pod.status.allocated_resources, _resize_infeasible(pod)


def _is_resized(pod: Pod) -> bool:
    """Whether a container has, or was allocated, something else than it requests."""
    if not pod.status.container_statuses and not pod.status.init_container_statuses:
        return False
    asked = {one.name: one.resources.requests for one in (*pod.spec.containers, *pod.spec.init_containers)}
    for one in _statuses(pod):
        if (desired := asked.get(one.name)) is None:
            continue
        if one.allocated_resources and one.allocated_resources != desired:
            return True
        if one.resources is not None and one.resources.requests and one.resources.requests != desired:
            return True
    return False


def _resize_infeasible(pod: Pod) -> bool:
    return any(one.type == _RESIZE_PENDING and one.reason == _INFEASIBLE for one in pod.status.conditions)


def _amounts(requests: Mapping[str, Amount]) -> dict[str, int]:
    amounts = {name: quantity.to_milli(amount) for name, amount in requests.items()}
    for name, milli in amounts.items():
        if milli < 0:
            raise QuantityError(str(requests[name]), "is negative")
    return amounts


def _added(total: Mapping[str, int], more: Iterable[Mapping[str, int]]) -> dict[str, int]:
    summed = dict(total)
    for amounts in more:
        for name, amount in amounts.items():
            summed[name] = summed.get(name, 0) + amount
    return summed


#: Taint effects: no new pods; no running pods either.
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
#: Effects that prevent scheduling.
FORBIDDING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect or key matches any; an unknown operator tolerates nothing."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)
