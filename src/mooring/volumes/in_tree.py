"""Volumes that name a disk as Kubernetes once attached it itself, seen as the CSI drivers see them that took over.

Which driver and which handle a disk has, and where it can be reached once the driver speaks of zones by its own label.
Only in memory and only for reading: nobody rewrites such volumes.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from mooring.api import keys
from mooring.api.label_selector import Operator, Requirement
from mooring.api.node_selector import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm
from mooring.api.views.disks import Disks
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiNode
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import REMEMBERED_WORDS, Affinity, affinity

#: Between the zones of a disk that has a copy in each.
ZONES_JOINED_BY: Final = "__"

_ZONE_LABELS: Final = (keys.ZONE_BETA, keys.ZONE)
_REMEMBERED: Final = 4096
#: Letters of the zones of one that is remembered.
_LONGEST_ZONES: Final = 1024
"""Distinct translated affinities kept; disks have one per zone or set of zones."""


class Identity(NamedTuple):
    """A volume as a driver knows it: what counts once on a node, however many pods use it."""

    driver: str
    handle: str


class Plugin(NamedTuple):
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
        return (
            f"projects/UNSPECIFIED/regions/{zone.partition(ZONES_JOINED_BY)[0].rpartition('-')[0]}/disks/{disk.pd_name}"
        )
    return f"projects/UNSPECIFIED/zones/{zone or 'UNSPECIFIED'}/disks/{disk.pd_name}"


def _azure(disks: Disks, zone: str) -> str | None:
    return None if disks.azure_disk is None else disks.azure_disk.disk_uri


def _cinder(disks: Disks, zone: str) -> str | None:
    return None if disks.cinder is None else disks.cinder.volume_id


def _portworx(disks: Disks, zone: str) -> str | None:
    return None if disks.portworx_volume is None else disks.portworx_volume.volume_id


PLUGINS: Final = (
    Plugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone", _ebs),
    Plugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone", _gce),
    Plugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "topology.disk.csi.azure.com/zone", _azure),
    Plugin("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone", _cinder),
    Plugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "", _portworx),
)

_DRIVERS: Final = {plugin.name: plugin.driver for plugin in PLUGINS}


def plugin_of(disks: Disks) -> Plugin | None:
    """The plugin whose disk this is; None where it is none that a driver took over."""
    return next((plugin for plugin in PLUGINS if plugin.handle(disks, "") is not None), None)


def identity_of_disk(disks: Disks, *, zone: str = "") -> Identity | None:
    """A disk that a pod names itself, as its driver knows it."""
    plugin = plugin_of(disks)
    handle = None if plugin is None else plugin.handle(disks, zone)
    return None if plugin is None or handle is None else Identity(plugin.driver, handle)


def identity_of(volume: Volume) -> Identity | None:
    """A volume as its driver knows it; None where no driver does."""
    csi = volume.spec.csi
    if csi is not None:
        return Identity(csi.driver, csi.volume_handle)
    return identity_of_disk(volume.spec, zone=_zones(volume))


def disks_with_drivers(pod: Pod) -> Iterator[Identity]:
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
    listed = "" if csi_node is None else csi_node.metadata.annotations.get(keys.MIGRATED_PLUGINS, "")
    return frozenset(listed.split(",")) if listed else frozenset()


def affinity_on(volume: Volume, csi_node: CsiNode | None) -> Affinity:
    """The nodes that reach a volume, in the words that hold on a node with these drivers."""
    plugin = plugin_of(volume.spec)
    return (
        affinity(volume) if plugin is None or plugin.name not in migrated_on(csi_node) else translated(volume, plugin)
    )


def reaches_on(node: str, labels: Mapping[str, str], volume: Volume, csi_node: CsiNode | None) -> bool:
    """Whether a node with this name, these labels and these drivers can use a volume."""
    required = affinity_on(volume, csi_node)
    return required is None or required.matches(labels, fields={NODE_NAME_FIELD: node})


def translated(volume: Volume, plugin: Plugin) -> Affinity:
    """The nodes that reach a disk, in the driver's words: its own label for zones instead of the general ones."""
    required, zones = affinity(volume), _zones(volume)
    if not plugin.zone_key:
        return required
    is_short = (required is None or required.words <= REMEMBERED_WORDS) and len(zones) <= _LONGEST_ZONES
    translate = _translated if is_short else _translated.__wrapped__
    return translate(required, plugin.zone_key, zones)


@lru_cache(maxsize=_REMEMBERED)
def _translated(required: Affinity, zone_key: str, zones: str) -> Affinity:
    if required is not None:
        terms = (
            NodeSelectorTerm(
                tuple(sorted(_renamed(one, zone_key) for one in term.expressions)), term.fields, term.problems
            )
            for term in required.terms
        )
        return NodeSelector(tuple(terms))
    if not zones:
        return None
    values = tuple(sorted(set(zones.split(ZONES_JOINED_BY))))
    return NodeSelector((NodeSelectorTerm((Requirement(zone_key, Operator.IN, values),)),))


def _renamed(requirement: Requirement, zone_key: str) -> Requirement:
    if requirement.key not in _ZONE_LABELS:
        return requirement
    return Requirement(zone_key, requirement.operator, requirement.values)


def _zones(volume: Volume) -> str:
    labels = volume.metadata.labels
    return next((labels[key] for key in _ZONE_LABELS if labels.get(key)), "")
