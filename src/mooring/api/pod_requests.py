"""What a pod asks of a node, as kube-scheduler adds it up: pure arithmetic over one pod.

Containers run together, so they add; init containers run one after the other before them, so only the largest
counts, on top of the sidecars started before it. What the pod asks for as a whole counts instead, where it does; the
overhead of the runtime class comes on top. Who is being resized takes the most of what it shall have, what it has and
what the node keeps for it. CPU is counted in thousandths, everything else in whole units. The scheduler and
the node agent must agree on this, so it is here; what nodes offer and whether it is enough is theirs.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import Amount
from mooring.api.views.pod import Container, Pod

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
#: The beginning of the names of huge pages, a size each.
HUGE_PAGES: Final = "hugepages-"
#: Every pod takes one of these, whatever else it asks for.
PODS: Final = "pods"

#: What a container that asks for nothing is taken to use when nodes are compared; upstream's figures.
ASSUMED_CPU: Final = 100
ASSUMED_MEMORY: Final = 200 * 1024 * 1024

_MILLI: Final = 1000
#: The same in the thousandths that are added up.
_ASSUMED: Final[Mapping[str, int]] = {CPU: ASSUMED_CPU, MEMORY: ASSUMED_MEMORY * _MILLI}

_SIDECAR: Final = "Always"
#: What a pod may ask for as a whole.
_OF_PODS: Final = frozenset({CPU, MEMORY})
#: The condition of a pod whose resize waits, and why it may do so for ever.
_RESIZE_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"


class Requests(NamedTuple):
    """A pod's requests, computed once and kept beside the pod."""

    #: What must be free, by resource name; amounts of zero are left out.
    amounts: Mapping[str, int]
    #: CPU and memory for comparing nodes, where a container that asks for nothing still weighs something.
    scored_cpu: int
    scored_memory: int


NOTHING: Final = Requests({}, 0, 0)


def requests_of(pod: Pod) -> Requests:
    """Raises QuantityError for an amount that is none, or less than none."""
    exact = _sum(pod, {})
    # Of a pod that asks as a whole nothing is assumed where it, or any of its containers, says something.
    whole_says = any(is_of_pods(name) for name in pod.spec.resources.requests)
    scored = _sum(pod, {name: m for name, m in _ASSUMED.items() if name not in exact} if whole_says else _ASSUMED)
    return Requests(
        {name: amount for name, milli in exact.items() if (amount := whole(name, milli)) > 0},
        whole(CPU, scored.get(CPU, 0)),
        whole(MEMORY, scored.get(MEMORY, 0)),
    )


def asks_less(before: Pod, after: Pod) -> bool:
    """Whether a pod that is where it was leaves more room there."""
    try:
        if before.spec == after.spec and _told(before) == _told(after):
            return False
        was, now = requests_of(before).amounts, requests_of(after).amounts
    except QuantityError:
        # SEEN: what cannot be understood counts as nothing, so that there may be more room now.
        return True
    return any(now.get(name, 0) < amount for name, amount in was.items())


def whole(name: str, milli: int) -> int:
    """The unit a resource is counted in; fractions round up, as a node cannot give less."""
    return milli if name == CPU else -(-milli // _MILLI)


def _sum(pod: Pod, assumed: Mapping[str, int]) -> dict[str, int]:
    """Thousandths of everything: the server keeps nothing finer, so sums are exact."""
    total = containers_ask(pod, assumed)
    asked, status = pod.spec.resources.requests, pod.status
    if asked:
        has = asked if status.resources is None else status.resources.requests
        taken = _taken(asked, has, status.allocated_resources, in_vain=_resizes_in_vain(pod))
        total |= {name: taken.get(name, 0) for name in asked if is_of_pods(name)}
    return _added(total, (_amounts(pod.spec.overhead),))


def is_of_pods(resource: str) -> bool:
    """Whether it can be asked for by a pod as a whole."""
    return resource in _OF_PODS or resource.startswith(HUGE_PAGES)


def containers_ask(pod: Pod, assumed: Mapping[str, int] = NOTHING.amounts) -> dict[str, int]:
    """Thousandths of what its containers ask for together, or are `assumed` to where they do not say."""
    spec, resized = pod.spec, _resized(pod)
    total = _added({}, (_asked(container, assumed, resized) for container in spec.containers))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        asked = _asked(container, assumed, resized)
        if container.restart_policy == _SIDECAR:
            total = _added(total, (asked,))
            sidecars = _added(sidecars, (asked,))
            running = sidecars
        else:
            running = _added(sidecars, (asked,))
        for name, amount in running.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    return total


def _told(pod: Pod) -> tuple[object, ...]:
    """What its node says of resizes."""
    status = pod.status
    return _resized(pod), status.resources, status.allocated_resources, _resizes_in_vain(pod)


def _resized(pod: Pod) -> Mapping[str, Mapping[str, int]]:
    """By name, what containers take whose node has something else for them than they ask for."""
    spec, told = pod.spec, (*pod.status.container_statuses, *pod.status.init_container_statuses)
    if not told:
        return {}
    sidecars = (container for container in spec.init_containers if container.restart_policy == _SIDECAR)
    asked = {container.name: container.resources.requests for container in (*spec.containers, *sidecars)}
    in_vain = _resizes_in_vain(pod)
    found: dict[str, Mapping[str, int]] = {}
    for one in told:
        if one.resources is None or one.name not in asked:
            continue
        wanted, has, kept = asked[one.name], one.resources.requests, one.allocated_resources
        if wanted != has or (kept and wanted != kept):
            found[one.name] = _taken(wanted, has, kept, in_vain=in_vain)
    return found


def _resizes_in_vain(pod: Pod) -> bool:
    """What will never be granted is not taken."""
    return any(one.type == _RESIZE_PENDING and one.reason == _INFEASIBLE for one in pod.status.conditions)


def _taken(
    wanted: Mapping[str, Amount], has: Mapping[str, Amount], kept: Mapping[str, Amount], *, in_vain: bool
) -> dict[str, int]:
    most: dict[str, int] = {}
    for requests in (has, kept) if in_vain else (wanted, has, kept):
        for name, milli in _amounts(requests).items():
            most[name] = max(most.get(name, 0), milli)
    return most


def _asked(
    container: Container, assumed: Mapping[str, int], resized: Mapping[str, Mapping[str, int]]
) -> Mapping[str, int]:
    own = resized.get(container.name)
    return {**assumed, **(_amounts(container.resources.requests) if own is None else own)}


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
