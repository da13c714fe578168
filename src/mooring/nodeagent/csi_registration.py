"""Introduces the drivers of a node: its entry in the CSINode, and the topology they report as labels of the Node.

Pure. As a kubelet does: entries of drivers that somebody else listed stay, and a label that contradicts what the
driver reports is an error that people have to settle.
"""

from collections.abc import Mapping
from typing import Any

from mooring.api.views.node import Node
from mooring.api.views.storage import CsiNode, NodeDriver
from mooring.csi.contract import NodeInfo

Body = dict[str, Any]


def listed(csi_node: CsiNode, infos: Mapping[str, NodeInfo]) -> list[Body] | None:
    """All entries the CSINode should have; None if it has them."""
    known = {driver.name: _body(driver) for driver in csi_node.spec.drivers or ()}
    wanted = known | {name: entry(name, info) for name, info in infos.items()}
    return None if wanted == known else list(wanted.values())


def entry(driver: str, info: NodeInfo) -> Body:
    body: Body = {"name": driver, "nodeID": info.node_id}
    if info.accessible_from is not None and info.accessible_from.segments:
        body["topologyKeys"] = sorted(info.accessible_from.segments)
    if info.max_volumes > 0:
        body["allocatable"] = {"count": info.max_volumes}
    return body


def _body(driver: NodeDriver) -> Body:
    body: Body = {"name": driver.name, "nodeID": driver.node_id}
    if driver.topology_keys:
        body["topologyKeys"] = list(driver.topology_keys)
    if driver.allocatable is not None and driver.allocatable.count is not None:
        body["allocatable"] = {"count": driver.allocatable.count}
    return body


def labels(node: Node, infos: Mapping[str, NodeInfo]) -> dict[str, str]:
    """The labels the node lacks for what its drivers report."""
    reported = {
        key: value
        for info in infos.values()
        if info.accessible_from is not None
        for key, value in info.accessible_from.segments.items()
    }
    return {key: value for key, value in reported.items() if key not in node.metadata.labels}


def contradictions(node: Node, infos: Mapping[str, NodeInfo]) -> list[str]:
    """Where the node's labels and its drivers disagree, in words."""
    return [
        f"detected topology value collision: driver {name} reported {key!r}:{value!r} but existing label is "
        f"{key!r}:{node.metadata.labels[key]!r}"
        for name, info in infos.items()
        if info.accessible_from is not None
        for key, value in info.accessible_from.segments.items()
        if node.metadata.labels.get(key, value) != value
    ]
