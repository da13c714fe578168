"""CSI migration of in-tree volumes, drivers per node, and zones in labels and StorageClass parameters. Pure.

In-tree disks are translated in memory to the driver and handle that took over; objects are never rewritten. Zone and
region labels of volumes, and the parameters `zone` and `zones` of classes, are read as the topology they mean.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from mooring.api import well_known
from mooring.api.node_selectors import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm
from mooring.api.selectors import Operator, Requirement
from mooring.api.views.pods import Disks, Pod
from mooring.api.views.storage import (
    CsiNode,
    StorageClass,
    TopologyRequirement,
    TopologyTerm,
    Volume,
    VolumeNodeAffinity,
)
from mooring.volumes.topology import MAX_CACHED_AFFINITY_WORDS, Affinity, NodeSet, TopologyIndex, affinity_of

#: Between the zones of a disk that has a copy in each.
ZONES_JOINED_BY: Final = "__"

_ZONE_LABELS: Final = (well_known.ZONE_BETA, well_known.ZONE)
#: Distinct translated affinities kept; disks have one per zone or set of zones.
_AFFINITY_CACHE_SIZE: Final = 4096
#: Letters of the zones of one that is remembered.
_MAX_CACHED_ZONES: Final = 1024


class VolumeIdentity(NamedTuple):
    """A volume as a driver knows it: what counts once on a node, however many pods use it."""

    driver: str
    handle: str


class InTreePlugin(NamedTuple):
    """One way to name a disk, and the driver that looks after such disks now."""

    name: str
    driver: str
    #: The node label by which the driver speaks of zones; "" where it does not.
    zone_key: str
    #: The driver's handle of a disk in these zones, or None where the disk is another plugin's.
    handle: Callable[[Disks, str], str | None]


def _ebs(disks: Disks, zone: str) -> str | None:
    disk = disks.aws_elastic_block_store
    # Written as aws://zone/vol-1 by old versions.
    return None if disk is None else disk.volume_id.rpartition("/")[2]


def _gce(disks: Disks, zone: str) -> str | None:
    disk = disks.gce_persistent_disk
    if disk is None:
        return None
    if ZONES_JOINED_BY in zone:
        region = zone.partition(ZONES_JOINED_BY)[0].rpartition("-")[0]
        return f"projects/UNSPECIFIED/regions/{region}/disks/{disk.pd_name}"
    return f"projects/UNSPECIFIED/zones/{zone or 'UNSPECIFIED'}/disks/{disk.pd_name}"


def _azure(disks: Disks, zone: str) -> str | None:
    return None if disks.azure_disk is None else disks.azure_disk.disk_uri


def _cinder(disks: Disks, zone: str) -> str | None:
    return None if disks.cinder is None else disks.cinder.volume_id


def _portworx(disks: Disks, zone: str) -> str | None:
    return None if disks.portworx_volume is None else disks.portworx_volume.volume_id


IN_TREE_PLUGINS: Final = (
    InTreePlugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone", _ebs),
    InTreePlugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone", _gce),
    InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "topology.disk.csi.azure.com/zone", _azure),
    InTreePlugin("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone", _cinder),
    InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "", _portworx),
)

_DRIVERS: Final = {plugin.name: plugin.driver for plugin in IN_TREE_PLUGINS}


def plugin_of(disks: Disks) -> InTreePlugin | None:
    """The plugin whose disk this is; None where it is none that a driver took over."""
    return next((plugin for plugin in IN_TREE_PLUGINS if plugin.handle(disks, "") is not None), None)


def identity_of_disk(disks: Disks, *, zone: str = "") -> VolumeIdentity | None:
    """A disk that a pod names itself, as its driver knows it."""
    plugin = plugin_of(disks)
    handle = None if plugin is None else plugin.handle(disks, zone)
    return None if plugin is None or handle is None else VolumeIdentity(plugin.driver, handle)


def identity_of(volume: Volume) -> VolumeIdentity | None:
    """A volume as its driver knows it; None where no driver does."""
    csi = volume.spec.csi
    if csi is not None:
        return VolumeIdentity(csi.driver, csi.volume_handle)
    return identity_of_disk(volume.spec, zone=_zones(volume))


def disks_with_drivers(pod: Pod) -> Iterator[VolumeIdentity]:
    """The disks a pod names itself that a driver looks after."""
    for volume in pod.spec.volumes:
        identity = identity_of_disk(volume)
        if identity is not None:
            yield identity


def driver_of(provisioner: str) -> str:
    """The CSI driver behind a provisioner; "" where it is an in-tree plugin that no driver took over."""
    if provisioner.startswith("kubernetes.io/"):
        return _DRIVERS.get(provisioner, "")
    return provisioner


def migrated_on(csi_node: CsiNode | None) -> frozenset[str]:
    """The plugins whose disks a node leaves to drivers."""
    listed = "" if csi_node is None else csi_node.metadata.annotations.get(well_known.MIGRATED_PLUGINS, "")
    return frozenset(listed.split(",")) if listed else frozenset()


def affinity_on(volume: Volume, csi_node: CsiNode | None) -> Affinity:
    """The nodes that reach a volume, in the words that hold on a node with these drivers."""
    plugin = plugin_of(volume.spec)
    migrated = plugin is not None and plugin.name in migrated_on(csi_node)
    return translated(volume, plugin) if plugin is not None and migrated else affinity_of(volume)


def reaches_on(node: str, labels: Mapping[str, str], volume: Volume, csi_node: CsiNode | None) -> bool:
    """Whether a node with this name, these labels and these drivers can use a volume."""
    required = affinity_on(volume, csi_node)
    return required is None or required.matches(labels, fields={NODE_NAME_FIELD: node})


def translated(volume: Volume, plugin: InTreePlugin) -> Affinity:
    """The nodes that reach a disk, in the driver's words: its own label for zones instead of the general ones."""
    required, zones = affinity_of(volume), _zones(volume)
    if not plugin.zone_key:
        return required
    words = 0 if required is None else required.words
    is_short = words <= MAX_CACHED_AFFINITY_WORDS and len(zones) <= _MAX_CACHED_ZONES
    return (_translated if is_short else _translated.__wrapped__)(required, plugin.zone_key, zones)


@lru_cache(maxsize=_AFFINITY_CACHE_SIZE)
def _translated(required: Affinity, zone_key: str, zones: str) -> Affinity:
    if required is not None:
        return NodeSelector(tuple(_renamed(term, zone_key) for term in required.terms))
    if not zones:
        return None
    values = tuple(sorted(set(zones.split(ZONES_JOINED_BY))))
    return NodeSelector((NodeSelectorTerm((Requirement(zone_key, Operator.IN, values),)),))


def _renamed(term: NodeSelectorTerm, zone_key: str) -> NodeSelectorTerm:
    renamed = (structs.replace(one, key=zone_key) if one.key in _ZONE_LABELS else one for one in term.expressions)
    return structs.replace(term, expressions=tuple(sorted(renamed)))


def _zones(volume: Volume) -> str:
    labels = volume.metadata.labels
    return next((labels[key] for key in _ZONE_LABELS if labels.get(key)), "")


class CsiNodes:
    """The nodes that leave disks to drivers, by plugin."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._plugins: dict[str, frozenset[str]] = {}
        self._drivers: dict[str, frozenset[str]] = {}
        #: By node and driver, the labels by which the driver tells where volumes are reached from.
        self._topology_keys: dict[str, dict[str, tuple[str, ...]]] = {}
        self._answers: dict[str, NodeSet] = {}
        self._version = topology.version

    def observe(self, name: str, now: CsiNode | None) -> None:
        drivers = frozenset(driver.name for driver in now.spec.drivers or ()) if now is not None else frozenset()
        for listed, names in ((self._drivers, drivers), (self._plugins, migrated_on(now))):
            if names != listed.get(name, frozenset()):
                self._answers.clear()
            if names:
                listed[name] = names
            else:
                listed.pop(name, None)
        keys = {} if now is None else {driver.name: driver.topology_keys for driver in now.spec.drivers or ()}
        if keys:
            self._topology_keys[name] = keys
        else:
            self._topology_keys.pop(name, None)

    def provisioned_reach(self, driver: str, node: str) -> NodeSet | None:
        """The nodes that would reach a volume that the driver provisions for a node: those with the same values of the
        driver's topology keys, all if it has none. None where the node's CSINode does not list the driver."""
        keys = self._topology_keys.get(node, {}).get(driver)
        if keys is None or node not in self._topology:
            return None
        labels = self._topology.labels(node)
        same = tuple(Requirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels)
        return self._topology.matching(NodeSelector((NodeSelectorTerm(same),)) if same else None)

    def reaching(self, volume: Volume) -> NodeSet:
        """The nodes that can use a volume. Where a driver looks after it, the driver's label says where it is."""
        raw = self._topology.matching(affinity_of(volume))
        plugin = plugin_of(volume.spec)
        if plugin is None:
            return raw
        migrated = self._listing(plugin.name, self._plugins)
        return raw & ~migrated | migrated & self._topology.matching(translated(volume, plugin))

    def having(self, driver: str) -> NodeSet:
        """The nodes that list a driver."""
        return self._listing(driver, self._drivers)

    def _listing(self, required: str, listed: Mapping[str, frozenset[str]]) -> NodeSet:
        """The nodes that list a driver or a plugin: no driver has a plugin's name."""
        if self._version != self._topology.version:
            self._answers.clear()
            self._version = self._topology.version
        nodes = self._answers.get(required)
        if nodes is None:
            nodes = self._answers[required] = sum(
                self._topology.named(name) for name, names in listed.items() if required in names
            )
        return nodes


ZONE_PARAMETERS: Final = ("zone", "zones")

#: Who took these parameters: in-tree plugins, and the drivers that took over.
ZONE_PARAMETER_PLUGINS: Final = ("kubernetes.io/gce-pd", "kubernetes.io/aws-ebs")
ZONE_PARAMETER_PROVISIONERS: Final = frozenset((*ZONE_PARAMETER_PLUGINS, *map(driver_of, ZONE_PARAMETER_PLUGINS)))


def zone_parameters(storage_class: StorageClass) -> tuple[str, ...]:
    """The zones that the parameters name, in order; empty where they name none or mean something else."""
    if storage_class.provisioner not in ZONE_PARAMETER_PROVISIONERS:
        return ()
    said = ",".join(storage_class.parameters.get(name, "") for name in ZONE_PARAMETERS)
    return tuple(dict.fromkeys(zone.strip() for zone in said.split(",") if zone.strip()))


def allowed_topologies(storage_class: StorageClass) -> tuple[TopologyTerm, ...]:
    """The topologies a class allows, in whichever way it says so; empty where it allows all."""
    if storage_class.allowed_topologies:
        return storage_class.allowed_topologies
    named = zone_parameters(storage_class)
    return (TopologyTerm((TopologyRequirement(well_known.ZONE, named),)),) if named else ()


#: In the order they are looked at.
ZONE_KEYS: Final = (well_known.ZONE_BETA, well_known.REGION_BETA, well_known.ZONE, well_known.REGION)


#: By which key of today a node may answer for one of yesterday; not the other way round.
GA_LABELS: Final[Mapping[str, str]] = {
    well_known.ZONE_BETA: well_known.ZONE,
    well_known.REGION_BETA: well_known.REGION,
}


class ZoneRequirement(NamedTuple):
    """A node must have one of these values."""

    key: str
    values: tuple[str, ...]

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is there."""
        value = labels.get(self.key)
        if value is None:
            value = labels.get(GA_LABELS.get(self.key, ""))
        return value in self.values


def in_zone(volume: Volume, labels: Mapping[str, str]) -> bool:
    """Whether a volume's labels let a node with these labels use it; a node without any zone or region is not asked."""
    return labels.keys().isdisjoint(ZONE_KEYS) or all(place.has(labels) for place in zone_requirements_of(volume))


def zone_requirements_of(volume: Volume) -> tuple[ZoneRequirement, ...]:
    """What the zone and region labels of a volume ask of a node."""
    return zone_requirements_in(volume.metadata.labels)


def zone_requirements_in(labels: Mapping[str, str]) -> tuple[ZoneRequirement, ...]:
    """What such labels ask of a node; a label with an empty part asks for nothing."""
    places: list[ZoneRequirement] = []
    for key in ZONE_KEYS:
        pieces = [piece.strip() for piece in labels.get(key, "").split(ZONES_JOINED_BY)]
        if all(pieces):
            places.append(ZoneRequirement(key, tuple(sorted(set(pieces)))))
    return tuple(places)


def zonal_affinity(labels: Mapping[str, str], node_keys: Collection[str]) -> dict[str, Any] | None:
    """A volume's `nodeAffinity` by its labels; None where they say nothing. `node_keys` are the labels nodes have."""
    places = zone_requirements_in(labels)
    said = {place.key for place in places}
    required = [_spelled(place, node_keys) for place in places if GA_LABELS.get(place.key) not in said]
    if not required:
        return None
    rows = [{"key": place.key, "operator": "In", "values": list(place.values)} for place in required]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": rows}]}}


def implied_by_labels(affinity: VolumeNodeAffinity, labels: Mapping[str, str]) -> bool:
    """Whether an affinity is what `zonal_affinity` returns for these labels, whichever keys the nodes have."""
    implied = (zonal_affinity(labels, keys) for keys in ((), tuple(GA_LABELS.values())))
    return any(one is not None and affinity == msgspec.convert(one, VolumeNodeAffinity) for one in implied)


def _spelled(place: ZoneRequirement, node_keys: Collection[str]) -> ZoneRequirement:
    successor = GA_LABELS.get(place.key)
    if successor is None or place.key in node_keys or successor not in node_keys:
        return place
    return place._replace(key=successor)
