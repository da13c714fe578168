"""Node heartbeats, zone disruption and condition taints, as upstream's node lifecycle controller. Pure.

Heartbeats are changes of the Lease or the status, timed by this process's clock; foreign timestamps are never compared.
If most of a zone is lost at once, the network is more likely at fault than every machine: eviction is slowed down or
stopped, and it is reverted when all zones are lost. Taints set by users are kept.
"""

import enum
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mooring.api import well_known
from mooring.api.pod_requirements import NO_EXECUTE, NO_SCHEDULE
from mooring.api.views.core import Lease, Node, Taint
from mooring.controllers.workloads.pod_rules import condition_body

#: --node-monitor-grace-period; extended for longer Leases.
GRACE_SECONDS: Final = 50.0
#: For nodes that never reported; --node-startup-grace-period.
STARTUP_SECONDS: Final = 60.0
#: Nodes per second and zone that are tainted; --node-eviction-rate and --secondary-node-eviction-rate.
RATE: Final = 0.1
SECONDARY_RATE: Final = 0.01
#: No eviction in partially disrupted zones up to this size; --large-cluster-size-threshold.
LARGE_ZONE: Final = 50
#: Share of unhealthy nodes (more than two) of a partially disrupted zone; --unhealthy-zone-threshold.
UNHEALTHY_SHARE: Final = 0.55
_FEW: Final = 2

#: Conditions that a kubelet reports.
REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class Disruption(enum.Enum):
    NONE = "normal"
    PARTIAL = "partial disruption"
    FULL = "full disruption"


def readiness(node: Node) -> str:
    """Status of the Ready condition, "" without one."""
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "")


def zone_of(node: Node) -> str:
    labels = node.metadata.labels
    return f"{labels.get(well_known.REGION, '')}/{labels.get(well_known.ZONE, '')}"


class _Heartbeat(NamedTuple):
    uid: str
    heartbeat: str
    seen: float


class HeartbeatTracker:
    """Time of each node's last heartbeat, oldest first."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, _Heartbeat] = OrderedDict()

    def observe(self, node: Node, lease: Lease | None, *, now: float) -> float:
        """Record the node's state; return the seconds since its last heartbeat."""
        if lease is not None:
            heartbeat = lease.spec.renew_time or ""
        else:
            # The conditions, without those that this controller set to Unknown.
            heartbeat = " ".join(f"{c.type}={c.status}" for c in node.status.conditions if c.status != "Unknown")
        sign = self._last.get(node.name)
        if sign is None or sign.uid != node.uid or sign.heartbeat != heartbeat:
            sign = self._last[node.name] = _Heartbeat(node.uid, heartbeat, now)
            self._last.move_to_end(node.name)
        return now - sign.seen

    def missing(self, seconds: float, *, now: float) -> Iterator[str]:
        """Names of nodes without a heartbeat for longer than this."""
        for name, sign in self._last.items():
            if now - sign.seen <= seconds:
                return
            yield name

    def forget(self, name: str) -> None:
        self._last.pop(name, None)


def grace_seconds(node: Node, lease: Lease | None) -> float:
    if not readiness(node):
        return STARTUP_SECONDS
    lasts = lease.spec.lease_duration_seconds if lease is not None else 0
    # Upstream's grace period exceeds a kubelet's Lease duration by 10 s.
    return max(GRACE_SECONDS, lasts + 10.0)


def unknown_conditions(node: Node, *, now: str) -> list[dict[str, Any]]:
    """Conditions to set to Unknown, as a strategic patch."""
    known = {condition.type: condition for condition in node.status.conditions}
    changed = []
    for kind in REPORTED:
        before = known.get(kind)
        if before is not None and before.status == "Unknown":
            continue
        reason = "NodeStatusNeverUpdated" if before is None else "NodeStatusUnknown"
        message = f"Kubelet {'never posted' if before is None else 'stopped posting'} node status."
        changed.append(condition_body((), kind, "Unknown", reason, message, date=now))
    return changed


def disruption(nodes: Iterable[Node]) -> Disruption:
    """Disruption of one zone."""
    ready = [readiness(node) == "True" for node in nodes]
    healthy, unhealthy = ready.count(True), ready.count(False)
    if unhealthy and not healthy:
        return Disruption.FULL
    if unhealthy > _FEW and unhealthy / (unhealthy + healthy) >= UNHEALTHY_SHARE:
        return Disruption.PARTIAL
    return Disruption.NONE


def zone_eviction_rates(nodes: Iterable[Node]) -> Mapping[str, float] | None:
    """Nodes per second by zone; None if all zones are fully disrupted, which reverts evictions."""
    zones: dict[str, list[Node]] = {}
    for node in nodes:
        zones.setdefault(zone_of(node), []).append(node)
    states = {zone: disruption(members) for zone, members in zones.items()}
    if states and all(state is Disruption.FULL for state in states.values()):
        return None
    partly = {zone: SECONDARY_RATE if len(members) > LARGE_ZONE else 0.0 for zone, members in zones.items()}
    return {zone: partly[zone] if state is Disruption.PARTIAL else RATE for zone, state in states.items()}


#: Condition and status -> taint, as upstream.
_BY_CONDITION: Final = {
    ("Ready", "False"): well_known.NOT_READY,
    ("Ready", "Unknown"): well_known.UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OURS: Final = frozenset({*_BY_CONDITION.values(), well_known.UNSCHEDULABLE})
#: Also used with NoExecute.
_LOST: Final = frozenset({well_known.NOT_READY, well_known.UNREACHABLE})


def no_execute_key(node: Node) -> str | None:
    """Key of the NoExecute taint of a node that is not ready; None for other nodes."""
    return next((key for c in node.status.conditions if (key := _BY_CONDITION.get((c.type, c.status))) in _LOST), None)


def has_eviction_taint(node: Node) -> bool:
    """Whether this controller tainted the node with NoExecute."""
    return any(taint.key in _LOST and taint.effect == NO_EXECUTE for taint in node.spec.taints)


def desired_taints(node: Node, *, evict: bool, now: str) -> list[dict[str, Any]] | None:
    """All taints of the node; None if they are up to date. `evict` adds the NoExecute taint."""
    kept = [taint for taint in node.spec.taints if not _ours(taint)]
    keys = [_BY_CONDITION.get((c.type, c.status)) for c in node.status.conditions]
    keys.append(well_known.UNSCHEDULABLE if node.spec.unschedulable else None)
    mine = [Taint(key=key, effect=NO_SCHEDULE) for key in keys if key is not None]
    key = no_execute_key(node) if evict else None
    if key is not None:
        mine.append(Taint(key=key, effect=NO_EXECUTE, time_added=now))
    if _names(mine) == _names(taint for taint in node.spec.taints if _ours(taint)):
        return None
    before = {(taint.key, taint.effect): taint for taint in node.spec.taints}
    return [_body(before.get((taint.key, taint.effect), taint)) for taint in (*kept, *mine)]


def _ours(taint: Taint) -> bool:
    if taint.effect == NO_EXECUTE:
        return taint.key in _LOST
    return taint.effect == NO_SCHEDULE and taint.key in _OURS


def _names(taints: Iterable[Taint]) -> set[tuple[str, str]]:
    return {(taint.key, taint.effect) for taint in taints}


def _body(taint: Taint) -> dict[str, Any]:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {field: value for field, value in fields.items() if value}
