"""What drivers say of nodes: which drivers a node has, and which of Kubernetes' old disk plugins it leaves to them.

Kept by `state.VolumeState`. How many volumes a node takes is `attach_limits`'.
"""

from collections.abc import Mapping

from mooring.api.views.storage import CsiNode
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import affinity
from mooring.volumes.in_tree import migrated_on, plugin_of, translated
from mooring.volumes.nodeset import NodeSet
from mooring.volumes.topology import TopologyIndex


class CsiNodes:
    """The nodes that leave disks to drivers, by plugin."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._plugins: dict[str, frozenset[str]] = {}
        self._drivers: dict[str, frozenset[str]] = {}
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

    def reaching(self, volume: Volume) -> NodeSet:
        """The nodes that can use a volume. Where a driver looks after it, the driver's label says where it is."""
        raw = self._topology.matching(affinity(volume))
        plugin = plugin_of(volume.spec)
        if plugin is None:
            return raw
        migrated = self._migrated(plugin.name)
        return raw & ~migrated | migrated & self._topology.matching(translated(volume, plugin))

    def having(self, driver: str) -> NodeSet:
        """The nodes that list a driver."""
        return self._listing(driver, self._drivers)

    def _migrated(self, plugin: str) -> NodeSet:
        return self._listing(plugin, self._plugins)

    def _listing(self, wanted: str, listed: Mapping[str, frozenset[str]]) -> NodeSet:
        """The nodes that list a driver or a plugin: no driver has a plugin's name. Walked over once until something
        changes."""
        if self._version != self._topology.version:
            self._answers.clear()
            self._version = self._topology.version
        nodes = self._answers.get(wanted)
        if nodes is None:
            nodes = self._answers[wanted] = sum(
                self._topology.named(name) for name, names in listed.items() if wanted in names
            )
        return nodes
