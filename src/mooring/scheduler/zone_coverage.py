"""Zones in which a pod's node selection allows nodes, beside the zones of its volumes and classes. Pure.

Administrators restrict a class to zones, users restrict a pod to zones, and neither sees the other: without a common
zone the pod is never scheduled, and with few it cannot follow its volume when a zone fails. The scheduler's warning and
`explain` come from here. Only restrictions count: a class without allowedTopologies, or a volume without node
affinity, is usable everywhere.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mooring.api import well_known
from mooring.api.selectors import SelectorError
from mooring.api.views.pods import Pod
from mooring.api.views.storage import StorageClass
from mooring.scheduler.snapshot.pod_terms import required_of
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import PodClaims
from mooring.volumes.in_tree import allowed_topologies
from mooring.volumes.topology import NodeSet

#: Reason of the event on a pod.
NO_COMMON_ZONE: Final = "NoCommonZone"

_ZONE_KEYS: Final = frozenset({well_known.ZONE, well_known.ZONE_BETA})


class ZoneCoverage(NamedTuple):
    """The zones of one claim of a pod, and of the pod."""

    claim: str
    #: The class that restricts new volumes; "" for a volume that exists.
    storage_class: str
    #: Where the volume is, or may be provisioned.
    volume_zones: frozenset[str]
    #: Where nodes exist that the pod's selectors, affinity and tolerations allow.
    pod_zones: frozenset[str]

    @property
    def common(self) -> frozenset[str]:
        return self.volume_zones & self.pod_zones

    @property
    def uncovered(self) -> frozenset[str]:
        """Zones of the volume in which the pod cannot run."""
        return self.volume_zones - self.pod_zones

    def __str__(self) -> str:
        source = f"class {self.storage_class} allows" if self.storage_class else "its volume is in"
        theirs, own = _listed(self.volume_zones), _listed(self.pod_zones)
        if not self.common:
            return f"claim {self.claim}: {source} {theirs}, but the pod can only run in {own}: they have no common zone"
        if self.uncovered:
            lost = _listed(self.common)
            return (
                f"claim {self.claim}: {source} {theirs}, and the pod cannot run in {_listed(self.uncovered)}: when "
                f"{lost} fails, it cannot be scheduled to another zone of its volume"
            )
        return f"claim {self.claim}: {source} {theirs}, and the pod could run in every one of them"


def zone_coverage(pod: Pod, claims: PodClaims, snapshot: Snapshot) -> list[ZoneCoverage]:
    """Of the claims whose volumes are restricted to zones; none if the pod's own zones are unknown."""
    try:
        selected = required_of(pod).matching(snapshot.topology)
    except SelectorError:
        return []
    own = _zones_of(snapshot, selected & ~snapshot.untolerated_nodes(pod))
    return list(_coverage(claims, snapshot, own)) if own else []


def _coverage(claims: PodClaims, snapshot: Snapshot, own: frozenset[str]) -> Iterator[ZoneCoverage]:
    volumes = snapshot.volumes
    for claim in claims.bound:
        volume = volumes.volume(claim.spec.volume_name)
        if volume is not None and volume.required_affinity is not None:
            zones = _zones_of(snapshot, volumes.reaching(volume))
            if zones:
                yield ZoneCoverage(claim.key, "", zones, own)
    for needs in claims.unbound:
        storage_class = volumes.storage_class(needs.storage_class)
        if storage_class is not None and allowed_topologies(storage_class):
            allowed = _zones_of(snapshot, volumes.provisioners.allowed(storage_class.name))
            zones = allowed | _named_zones(storage_class)
            if zones:
                yield ZoneCoverage(needs.claim.key, storage_class.name, zones, own)


def _zones_of(snapshot: Snapshot, nodes: NodeSet) -> frozenset[str]:
    return frozenset(zone for zone, inside in snapshot.topology.by_value(well_known.ZONE).items() if inside & nodes)


def _named_zones(storage_class: StorageClass) -> frozenset[str]:
    """Also of zones that have no node at present."""
    expressions = (one for term in allowed_topologies(storage_class) for one in term.match_label_expressions)
    return frozenset(value for one in expressions if one.key in _ZONE_KEYS for value in one.values)


def _listed(zones: frozenset[str]) -> str:
    return f"{'zone' if len(zones) == 1 else 'zones'} {', '.join(sorted(zones))}"
