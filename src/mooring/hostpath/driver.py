"""The whole driver as the contract knows it: identity, controller and one node, over volumes in custody.

Several of these may share one custody: a central driver answers the same to whoever asks, and differently only about
the node it is asked from.
"""

from mooring.csi.contract import Driver, PluginCapability
from mooring.hostpath.controller import ControllerService
from mooring.hostpath.custody import Custody
from mooring.hostpath.node import Node


class Hostpath(ControllerService, Node):
    def __init__(self, custody: Custody, node_id: str) -> None:
        ControllerService.__init__(self, custody)
        Node.__init__(self, custody, node_id)

    async def name(self) -> str:
        return self._custody.settings.name

    async def vendor_version(self) -> str:
        return self._custody.settings.version

    async def plugin_capabilities(self) -> frozenset[str]:
        if self._custody.layout.has_topology:
            return frozenset({PluginCapability.CONTROLLER_SERVICE, PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS})
        return frozenset({PluginCapability.CONTROLLER_SERVICE})

    async def probe(self) -> bool:
        return True


def _contract(driver: Hostpath) -> Driver:
    return driver
