"""Ports of nodes that pods hold: who listens on the node's own address keeps others from the same port there.

Part of the snapshot, read by the plugin NodePorts. Few pods have host ports; the others cost nothing here.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from mooring.api.views.pod import Pod
from mooring.scheduler.tally import Tally
from mooring.volumes.nodeset import EMPTY, NodeSet

#: Every address of the node.
ANY_ADDRESS: Final = "0.0.0.0"

_SIDECAR: Final = "Always"


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be held on one node."""
        same_address = self.address == other.address or ANY_ADDRESS in (self.address, other.address)
        return (self.protocol, self.port) == (other.protocol, other.port) and same_address


class PortIndex:
    """The ports held on nodes, by protocol and number."""

    def __init__(self) -> None:
        self._held: defaultdict[tuple[str, int], dict[HostPort, Tally]] = defaultdict(dict)

    def place(self, pod: Pod, slot: int, sign: int) -> None:
        """A pod came to a node (`sign` 1) or left it (-1)."""
        for port in host_ports(pod):
            held = self._held[port.protocol, port.port]
            tally = held.setdefault(port, Tally())
            tally.add(slot, sign)
            if not tally.nodes:
                del held[port]
            if not held:
                del self._held[port.protocol, port.port]

    def conflicting(self, pod: Pod) -> NodeSet:
        """The nodes on which a port that the pod wants is held."""
        nodes = EMPTY
        for wanted in host_ports(pod):
            for held, tally in self._held.get((wanted.protocol, wanted.port), {}).items():
                if wanted.conflicts(held):
                    nodes |= tally.nodes
        return nodes


def host_ports(pod: Pod) -> Iterator[HostPort]:
    """The ports of the node that a pod holds while it runs: of its containers and of init containers that stay."""
    spec = pod.spec
    sidecars = (container for container in spec.init_containers if container.restart_policy == _SIDECAR)
    for container in (*sidecars, *spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
