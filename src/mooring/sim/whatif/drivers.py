"""Which provisioners of a cluster have to be played, and what the objects say of them. Pure.

Those that play clouds (`provisioner.standins`) know where their disks can be and stay as they are. Any other is known
by its CSINodes (which labels tell its places apart) and its CSIStorageCapacity objects (how much is left where). Where
no CSINode names it, because nobody listed them or because it is no CSI driver, the labels of its capacity objects tell
as much, or those in the affinity of volumes it has made.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mooring.api import keys
from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.views.storage import CsiNode, StorageCapacity
from mooring.provisioner.class_parameters import RESERVED
from mooring.provisioner.standins.table import BY_NAME
from mooring.sim.whatif.inventory import Body, Inventory


class Played(NamedTuple):
    """A driver to play; with `topology` its volumes can be used in some places only."""

    name: str
    topology: bool


def played(inventory: Inventory) -> list[Played]:
    """The drivers to play, by name. Adds to the CSINodes what only other objects tell."""
    listed = {
        driver.name: bool(driver.topology_keys)
        for node in sorted(inventory.of(CSI_NODE), key=lambda node: node.name)
        for driver in node.spec.drivers or ()
    }
    found: list[Played] = []
    for name in sorted(_provisioners(inventory)):
        topology = listed.get(name, False)
        if name not in listed:
            labels = _labels(_reported(inventory, name)) or _affine_by(inventory, name)
            topology = bool(labels)
            if labels:
                _introduce(inventory, name, labels)
        found.append(Played(name, topology))
    return found


def forget_secrets(inventory: Inventory) -> None:
    """Classes name Secrets that nobody lists; a driver that is only played needs none."""
    for each in inventory.of(STORAGE_CLASS):
        if any(_is_secret(key) for key in each.parameters):
            inventory.keep(STORAGE_CLASS, _without_secrets(inventory.body(STORAGE_CLASS, each.key)))


def _without_secrets(body: Body) -> Body:
    return body | {"parameters": {key: value for key, value in body["parameters"].items() if not _is_secret(key)}}


def _is_secret(parameter: str) -> bool:
    return parameter.startswith(RESERVED) and "-secret-" in parameter


def _provisioners(inventory: Inventory) -> set[str]:
    named = {each.provisioner for each in inventory.of(STORAGE_CLASS)}
    return named - {keys.NO_PROVISIONER, ""} - BY_NAME.keys()


def _reported(inventory: Inventory, provisioner: str) -> list[StorageCapacity]:
    classes = {each.name for each in inventory.of(STORAGE_CLASS) if each.provisioner == provisioner}
    return [each for each in inventory.of(STORAGE_CAPACITY) if each.storage_class_name in classes]


def _labels(reported: Iterable[StorageCapacity]) -> tuple[str, ...]:
    """The labels that tell the segments apart, of the object that names most of them."""
    named = [tuple(sorted(each.node_topology.match_labels)) for each in reported if each.node_topology is not None]
    return max(named, key=len, default=())


def _affine_by(inventory: Inventory, provisioner: str) -> tuple[str, ...]:
    """The labels by which volumes that a provisioner has made say where they are, of the first that says it."""
    for volume in sorted(inventory.of(VOLUME), key=lambda volume: volume.name):
        required = volume.required_affinity
        if volume.metadata.annotations.get(keys.PROVISIONED_BY) == provisioner and required is not None:
            for term in required.node_selector_terms:
                return tuple(sorted({one.key for one in term.match_expressions}))
    return ()


def _introduce(inventory: Inventory, driver: str, labels: tuple[str, ...]) -> None:
    for node in inventory.of(NODE):
        if all(label in node.metadata.labels for label in labels):
            entry = {"name": driver, "nodeID": node.name, "topologyKeys": list(labels)}
            known: CsiNode | None = inventory.get(CSI_NODE, node.name)
            body: Body = {"metadata": {"name": node.name}, "spec": {"drivers": []}}
            if known is not None:
                body = inventory.body(CSI_NODE, node.name)
            body["spec"]["drivers"] = [*(body["spec"].get("drivers") or ()), entry]
            inventory.keep(CSI_NODE, body)
