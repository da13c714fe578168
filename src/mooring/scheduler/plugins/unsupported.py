"""Unsupported: says no to pods that ask for what Mooring does not do yet, instead of placing them wrongly.

Upstream has no such plugin. It goes away row by row as PodTopologySpread, DynamicResources and NodePorts arrive.
Topology spread that is only wished for (`ScheduleAnyway`) is let through and has no influence on the choice.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, Hint, PreFilter

SPREAD: Final = "topologySpreadConstraints with whenUnsatisfiable: DoNotSchedule"
DEVICES: Final = "resourceClaims"
HOST_PORTS: Final = "hostPort"


def refusal(*wants: str) -> str:
    return f"mooring does not support {', '.join(wants)} yet"


def _itself(pod: Pod, change: Change) -> bool:
    """Nothing in the cluster helps such a pod; only another pod under its name would."""
    return (change.namespace, change.name) == (pod.namespace, pod.name)


class Unsupported:
    name: ClassVar[str] = "Unsupported"
    wakes_on: ClassVar[tuple[Hint, ...]] = (Hint("Pod", frozenset({changes.UPDATE}), _itself),)

    def prefilter(self, cycle: Cycle) -> str | None:
        wants = tuple(_wants(cycle.pod))
        return refusal(*wants) if wants else None


def _wants(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    if any(one.when_unsatisfiable == "DoNotSchedule" for one in spec.topology_spread_constraints):
        yield SPREAD
    if spec.resource_claims:
        yield DEVICES
    containers = (*spec.containers, *spec.init_containers)
    if any(port.host_port for container in containers for port in container.ports):
        yield HOST_PORTS


_contract: PreFilter = Unsupported()
