"""What a pod asks of a node, as kube-scheduler adds it up: pure arithmetic over one pod.

Containers run together, so they add; init containers run one after the other before them, so only the largest
counts, on top of the sidecars started before it; the overhead of the runtime class comes on top. CPU is counted in
thousandths, everything else in whole units. The scheduler and the node agent must agree on this, so it is here; what
nodes offer and whether it is enough is theirs.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.quantity import QuantityError
from mooring.api.views.pod import Container, Pod

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
#: Every pod takes one of these, whatever else it asks for.
PODS: Final = "pods"

#: What a container that asks for nothing is taken to use when nodes are compared; upstream's figures.
ASSUMED_CPU: Final = 100
ASSUMED_MEMORY: Final = 200 * 1024 * 1024

_MILLI: Final = 1000
#: The same in the thousandths that are added up.
_ASSUMED: Final[Mapping[str, int]] = {CPU: ASSUMED_CPU, MEMORY: ASSUMED_MEMORY * _MILLI}

_SIDECAR: Final = "Always"


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
    scored = _sum(pod, _ASSUMED)
    return Requests(
        {name: amount for name, milli in exact.items() if (amount := whole(name, milli)) > 0},
        whole(CPU, scored.get(CPU, 0)),
        whole(MEMORY, scored.get(MEMORY, 0)),
    )


def whole(name: str, milli: int) -> int:
    """The unit a resource is counted in; fractions round up, as a node cannot give less."""
    return milli if name == CPU else -(-milli // _MILLI)


def _sum(pod: Pod, assumed: Mapping[str, int]) -> dict[str, int]:
    """Thousandths of everything: the server keeps nothing finer, so sums are exact."""
    spec = pod.spec
    total = _added({}, (_asked(container, assumed) for container in spec.containers))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        asked = _asked(container, assumed)
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
    overhead = {name: quantity.to_milli(amount) for name, amount in spec.overhead.items()}
    return _added(total, (overhead,))


def _asked(container: Container, assumed: Mapping[str, int]) -> dict[str, int]:
    asked: dict[str, int] = dict(assumed)
    for name, amount in container.resources.requests.items():
        asked[name] = quantity.to_milli(amount)
        if asked[name] < 0:
            raise QuantityError(str(amount), "is negative")
    return asked


def _added(total: Mapping[str, int], more: Iterable[Mapping[str, int]]) -> dict[str, int]:
    summed = dict(total)
    for amounts in more:
        for name, amount in amounts.items():
            summed[name] = summed.get(name, 0) + amount
    return summed
