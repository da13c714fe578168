"""The figures behind what a plugin holds against a node: which taint, how much of what, which pods are in the way.

For people; it decides nothing. kube-scheduler's reasons count nodes and leave all this out. What is behind reasons
about claims is `claims`' work, and about other pods `neighbours`'.
"""

from collections.abc import Callable, Mapping
from typing import Final

from mooring.api.kinds import CSI_NODE, NODE
from mooring.api.label_selector import SelectorError
from mooring.api.node_features import needed_by
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.pod_requests import CPU, PODS
from mooring.api.tolerations import tolerated
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.neighbours import Neighbours
from mooring.explain.verdicts import Reason
from mooring.scheduler.contract import Cycle, Rejection, RejectionCode
from mooring.scheduler.required_nodes import required_of
from mooring.volumes.in_tree import driver_of, identity_of
from mooring.volumes.shortage import readable, where
from mooring.volumes.zones import in_zone, places_of

#: Effects of taints that keep pods off.
FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})


class Figures:
    """What there is to say about reasons against one pod; each is asked about one node."""

    def __init__(self, cycle: Cycle, objects: ClusterObjects) -> None:
        self._cycle = cycle
        self._snapshot = cycle.snapshot
        self._objects = objects
        neighbours = Neighbours(cycle, objects)
        self._tellers: Mapping[RejectionCode, Callable[[Node], str]] = {
            RejectionCode.UNSCHEDULABLE: lambda _: "it is cordoned: spec.unschedulable is true",
            RejectionCode.TAINT: self._taints,
            RejectionCode.NODE_AFFINITY: self._affinity,
            RejectionCode.DECLARED_FEATURES: self._features,
            RejectionCode.HOST_PORTS: neighbours.ports,
            RejectionCode.POD_COUNT: lambda node: self._resource(node, PODS),
            RejectionCode.VOLUME_LIMIT: self._limits,
            RejectionCode.DISK_IN_USE: neighbours.disks,
            RejectionCode.CLAIM_IN_USE: lambda _: neighbours.claim_users,
            RejectionCode.VOLUME_ZONE: self._zones,
            RejectionCode.SPREADING: neighbours.spread,
            RejectionCode.SPREADING_LABEL: neighbours.unlabelled,
            RejectionCode.POD_AFFINITY: lambda _: neighbours.wanted,
            RejectionCode.POD_ANTI_AFFINITY: neighbours.avoided,
            RejectionCode.EXISTING_POD_ANTI_AFFINITY: neighbours.avoiding,
        }

    def of(self, plugin: str, rejection: Rejection, name: str) -> Reason:
        """A rejection on one of its nodes, with what is behind it there."""
        node = self._objects.get(NODE, name)
        detail = "" if node is None else self._detail(rejection, node)
        return Reason(plugin, rejection.reason, detail, rejection.code.value, rejection.subject)

    def _detail(self, rejection: Rejection, node: Node) -> str:
        if rejection.code is RejectionCode.RESOURCE:
            return self._resource(node, rejection.subject)
        teller = self._tellers.get(rejection.code)
        return "" if teller is None else teller(node)

    def _taints(self, node: Node) -> str:
        tolerations = self._cycle.pod.spec.tolerations
        stray = [one for one in node.spec.taints if one.effect in FORBIDDING and not tolerated(tolerations, one)]
        return ", ".join(
            f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}" for one in stray
        )

    def _features(self, node: Node) -> str:
        lacking = [one for one in needed_by(self._cycle.pod) if one not in node.status.declared_features]
        return f"it does not declare {', '.join(lacking)}"

    def _affinity(self, node: Node) -> str:
        try:
            selectors = required_of(self._cycle.pod).selectors
        except SelectorError:
            return ""
        labels = node.metadata.labels
        fields = {NODE_NAME_FIELD: node.name}
        failing = [one for one in selectors if not one.matches(labels, fields=fields)]
        wanted = " and ".join(where(one) for one in failing)
        keys = dict.fromkeys(part.key for one in failing for term in one.terms for part in term.expressions)
        has = ", ".join(f"{key}={labels[key]}" if key in labels else f"no {key}" for key in keys)
        return f"the pod wants {wanted}; the node has {has}" if has else f"the pod wants {wanted}"

    def _resource(self, node: Node, resource: str) -> str:
        columns, slot = self._snapshot.resources, self._snapshot.topology.slot(node.name)
        offered, taken = int(columns.allocatable(resource)[slot]), int(columns.requested(resource)[slot])
        requests = self._cycle.requests
        asked = 1 if resource == PODS or isinstance(requests, str) else requests.amounts.get(resource, 0)
        free = counted(resource, max(offered - taken, 0))
        return f"{counted(resource, asked)} asked for, {free} of {counted(resource, offered)} free"

    def _limits(self, node: Node) -> str:
        listed = self._objects.get(CSI_NODE, node.name)
        mine = drivers_of(self._cycle)
        limits = self._snapshot.volumes.usage.limits
        slot = self._snapshot.topology.slot(node.name)
        said = [
            f"{driver.name} has {limit - int(limits.left(driver.name)[slot])} of {limit} volumes there, the pod needs "
            f"{mine[driver.name]}"
            for driver in (listed.spec.drivers or () if listed is not None else ())
            if driver.name in mine
            and driver.allocatable is not None
            and (limit := driver.allocatable.count) is not None
            and limits.left(driver.name)[slot] < mine[driver.name]
        ]
        return "; ".join(said)

    def _zones(self, node: Node) -> str:
        said: list[str] = []
        for key in self._cycle.pod.claim_keys:
            claim = self._snapshot.volumes.claim(key)
            volume = None if claim is None else self._snapshot.volumes.volume(claim.spec.volume_name)
            if volume is not None and not in_zone(volume, node.metadata.labels):
                places = ", ".join(f"{place.key} in ({','.join(place.values)})" for place in places_of(volume))
                said.append(f"volume {volume.name} of claim {key} is labelled {places}")
        return "; ".join(said)


def drivers_of(cycle: Cycle, pod: Pod | None = None) -> dict[str, int]:
    """How many volumes of which driver a pod needs, the cycle's or another, as far as the node does not matter."""
    volumes = cycle.snapshot.volumes
    needed: dict[str, int] = {}
    for key in dict.fromkeys((pod or cycle.pod).claim_keys):
        claim = volumes.claim(key)
        if claim is None:
            continue
        volume = volumes.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        driver = _driver(volume) or driver_of(volumes.provisioners.provisioner(claim.storage_class))
        if driver:
            needed[driver] = needed.get(driver, 0) + 1
    return needed


def counted(resource: str, amount: int) -> str:
    """An amount as the scheduler counts it, in Kubernetes' spelling."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    return str(amount) if resource == PODS or "/" in resource else readable(amount)


def _driver(volume: Volume | None) -> str:
    identity = None if volume is None else identity_of(volume)
    return "" if identity is None else identity.driver
