"""The whole driver as the contract knows it: identity, controller and one node, over one volume store.

Several of these may share one store: a central driver answers the same on every node, and differently only about the
node itself.
"""

from mooring.csi.contract import Driver, PluginCapability
from mooring.hostpath.controller import ControllerService
from mooring.hostpath.node import Node
from mooring.hostpath.volume_store import VolumeStore


class Hostpath(ControllerService, Node):
    def __init__(self, volumes: VolumeStore, node_id: str) -> None:
        ControllerService.__init__(self, volumes)
        Node.__init__(self, volumes, node_id)

    async def name(self) -> str:
        return self._volumes.settings.name

    async def vendor_version(self) -> str:
        return self._volumes.settings.version

    async def plugin_capabilities(self) -> frozenset[str]:
        if self._volumes.layout.has_topology:
            return frozenset({PluginCapability.CONTROLLER_SERVICE, PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS})
        return frozenset({PluginCapability.CONTROLLER_SERVICE})

    async def probe(self) -> bool:
        return True


def _contract(driver: Hostpath) -> Driver:
    return driver
