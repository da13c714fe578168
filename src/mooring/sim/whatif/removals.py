"""Nodes that are to go: drained one by one, or lost with their zone. Pure.

A drained node stays and takes no new pods; what runs on it is asked to leave, which is not done here. A lost one is
gone with its pods, its drivers and what storage only it could reach, as after the controllers of a real cluster have
cleaned up.
"""

from collections.abc import Collection

from mooring.api import keys
from mooring.api.kinds import CSI_NODE, NODE, POD, STORAGE_CAPACITY, VOLUME_ATTACHMENT
from mooring.api.views.node import Node
from mooring.sim.whatif.inventory import BadQuestion, Inventory
from mooring.volumes.capacity import CapacityView
from mooring.volumes.nodeset import EMPTY
from mooring.volumes.topology import TopologyIndex


def cordon(inventory: Inventory, name: str) -> None:
    """Let nothing new onto a node. Raises BadQuestion."""
    if not inventory.is_there(NODE, name):
        raise BadQuestion(f"there is no node {name} to drain")
    body = inventory.body(NODE, name)
    body.setdefault("spec", {})["unschedulable"] = True
    inventory.keep(NODE, body)


def remove_zone(inventory: Inventory, zone: str) -> Collection[str]:
    """Take away all nodes of a zone; answers with the keys of the pods that were on them. Raises BadQuestion."""
    lost = {node.name for node in inventory.of(NODE) if _zone(node) == zone}
    if not lost:
        zones = sorted({_zone(node) for node in inventory.of(NODE)} - {""})
        others = f"there are {', '.join(zones)}" if zones else "no node says which zone it is in"
        raise BadQuestion(f"no node is in zone {zone}: {others}")
    _drop_storage(inventory, lost)
    for name in lost:
        inventory.remove(NODE, name)
        inventory.remove(CSI_NODE, name)
    for attachment in inventory.of(VOLUME_ATTACHMENT):
        if attachment.spec.node_name in lost:
            inventory.remove(VOLUME_ATTACHMENT, attachment.key)
    return [pod.key for pod in inventory.of(POD) if pod.spec.node_name in lost]


def _drop_storage(inventory: Inventory, lost: Collection[str]) -> None:
    """Capacity that only these nodes could reach is not offered any more."""
    topology = TopologyIndex()
    going = EMPTY
    for node in inventory.of(NODE):
        topology.put(node.name, node.metadata.labels)
        if node.name in lost:
            going |= topology.named(node.name)
    view = CapacityView(topology)
    for capacity in inventory.of(STORAGE_CAPACITY):
        view.observe(capacity.key, capacity)
        room = view.room(capacity.key)
        reached = EMPTY if room is None else topology.matching(room.segment)
        if reached and not reached & ~going:
            inventory.remove(STORAGE_CAPACITY, capacity.key)


def _zone(node: Node) -> str:
    labels = node.metadata.labels
    return labels.get(keys.ZONE) or labels.get(keys.ZONE_BETA, "")
