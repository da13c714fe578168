"""What drivers say of nodes: which drivers a node has, and which of Kubernetes' old disk plugins it leaves to them.

Kept by `state.VolumeState`. How many volumes a node takes is `attach_limits`'.
"""

from mooring.api.views.storage import CsiNode
from mooring.api.views.volume import Volume
from mooring.volumes.affinity import affinity
from mooring.volumes.in_tree import migrated_on, plugin_of, translated
from mooring.volumes.nodeset import EMPTY, NodeSet
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
        drivers = () if now is None else now.spec.drivers or ()
        if drivers:
            self._drivers[name] = frozenset(driver.name for driver in drivers)
        else:
            self._drivers.pop(name, None)
        plugins = migrated_on(now)
        if plugins == self._plugins.get(name, frozenset()):
            return
        self._answers.clear()
        if plugins:
            self._plugins[name] = plugins
        else:
            del self._plugins[name]

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
        nodes = EMPTY
        for name, drivers in self._drivers.items():
            if driver in drivers:
                nodes |= self._topology.named(name)
        return nodes

    def _migrated(self, plugin: str) -> NodeSet:
        if self._version != self._topology.version:
            self._answers.clear()
            self._version = self._topology.version
        nodes = self._answers.get(plugin)
        if nodes is None:
            nodes = EMPTY
            for name, plugins in self._plugins.items():
                if plugin in plugins:
                    nodes |= self._topology.named(name)
            self._answers[plugin] = nodes
        return nodes
