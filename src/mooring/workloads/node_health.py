"""What the silence of nodes means: which of them are lost, and how fast their pods may be moved.

Pure, with the time as an argument. Figures and words are those of upstream's node lifecycle controller. A node is
judged by changes of its Lease and its status, counted on our own clock: dates written elsewhere are never compared.

Zones are judged as a whole. Where most of a zone fell silent at once, the fault is more likely ours or the network's
than that of every machine, so pods are moved slowly or not at all; where no node of the cluster is heard of, nothing
is moved, and what was begun is called off.
"""

import enum
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mooring.api import keys
from mooring.api.views.lease import Lease
from mooring.api.views.node import Node

#: How long a node may be silent; --node-monitor-grace-period. A Lease that says it lasts longer is believed.
GRACE_SECONDS: Final = 50.0
#: How long a node that never reported may take; --node-startup-grace-period.
STARTUP_SECONDS: Final = 60.0
#: Nodes a second of one zone whose pods are sent away; --node-eviction-rate and its secondary.
RATE: Final = 0.1
SECONDARY_RATE: Final = 0.01
#: Zones up to this size are not touched at all once they are partly disrupted; --large-cluster-size-threshold.
LARGE_ZONE: Final = 50
#: The share of unhealthy nodes, of more than two, from which on a zone is; --unhealthy-zone-threshold.
UNHEALTHY_SHARE: Final = 0.55
_FEW: Final = 2

#: The conditions a kubelet reports; all of them are unknown once it is silent.
REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class Disruption(enum.Enum):
    NONE = "normal"
    PARTIAL = "partial disruption"
    FULL = "full disruption"


def readiness(node: Node) -> str:
    """`True`, `False`, `Unknown`, or "" for a node that never said."""
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "")


def zone_of(node: Node) -> str:
    labels = node.metadata.labels
    return f"{labels.get(keys.REGION, '')}/{labels.get(keys.ZONE, '')}"


class _Sign(NamedTuple):
    uid: str
    said: str
    seen: float


def _word(node: Node) -> str:
    """What a node without a Lease says of itself; what it is unknown to be is our word."""
    return " ".join(f"{c.type}={c.status}" for c in node.status.conditions if c.status != "Unknown")


class Silence:
    """Since when nothing was heard of each node, the longest silent first: thousands speak, few are silent."""

    def __init__(self) -> None:
        self._signs: OrderedDict[str, _Sign] = OrderedDict()

    def observe(self, node: Node, lease: Lease | None, *, now: float) -> float:
        """Seconds since the node last gave a sign of life, as far as this observer has seen."""
        said = lease.spec.renew_time or "" if lease is not None else _word(node)
        sign = self._signs.get(node.name)
        if sign is None or sign.uid != node.uid or sign.said != said:
            sign = self._signs[node.name] = _Sign(node.uid, said, now)
            self._signs.move_to_end(node.name)
        return now - sign.seen

    def silent(self, seconds: float, *, now: float) -> Iterator[str]:
        """Names of the nodes not heard of for longer than that."""
        for name, sign in self._signs.items():
            if now - sign.seen <= seconds:
                return
            yield name

    def forget(self, name: str) -> None:
        self._signs.pop(name, None)


def grace(node: Node, lease: Lease | None) -> float:
    if not readiness(node):
        return STARTUP_SECONDS
    lasts = lease.spec.lease_duration_seconds if lease is not None else 0
    # As much longer than the Lease as upstream's grace period is longer than a kubelet's Lease.
    return max(GRACE_SECONDS, lasts + 10.0)


def unknown(node: Node, *, now: str) -> list[dict[str, Any]]:
    """The conditions of a node that fell silent, as a strategic patch; empty if they say so already."""
    known = {condition.type: condition for condition in node.status.conditions}
    changed = []
    for kind in REPORTED:
        before = known.get(kind)
        if before is not None and before.status == "Unknown":
            continue
        never = before is None
        word = "never posted" if never else "stopped posting"
        changed.append(
            {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                "message": f"Kubelet {word} node status.",
                "lastTransitionTime": now,
            }
        )
    return changed


def disruption(nodes: Iterable[Node]) -> Disruption:
    """How bad it is in one zone."""
    well = ill = 0
    for node in nodes:
        if readiness(node) == "True":
            well += 1
        else:
            ill += 1
    if ill and not well:
        return Disruption.FULL
    if ill > _FEW and ill / (ill + well) >= UNHEALTHY_SHARE:
        return Disruption.PARTIAL
    return Disruption.NONE


class Pace(NamedTuple):
    """Nodes a second whose pods may be sent away, by zone; None calls everything off."""

    rates: Mapping[str, float] | None


def pace(nodes: Iterable[Node]) -> Pace:
    zones: dict[str, list[Node]] = {}
    for node in nodes:
        zones.setdefault(zone_of(node), []).append(node)
    states = {zone: disruption(members) for zone, members in zones.items()}
    if states and all(state is Disruption.FULL for state in states.values()):
        return Pace(None)
    rates = {}
    for zone, state in states.items():
        partly = SECONDARY_RATE if len(zones[zone]) > LARGE_ZONE else 0.0
        rates[zone] = partly if state is Disruption.PARTIAL else RATE
    return Pace(rates)
