"""Capacity of nodes that do not exist yet, from a template for each node group. Pure.

An autoscaler simulates a scheduler with nodes that it could add. Such a node has no driver, so no capacity is reported
for it, and no pod with a new volume fits. The publisher writes the expected capacity from the template, in the same
kind of object. Its `nodeTopology` selects the driver's topology keys with a value that no existing node has, the
`template_value` of the node group; the simulated node gets the same label.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from mooring.api import quantity, well_known
from mooring.api.documents import MalformedYaml, single_yaml_document
from mooring.api.names import check_dns1123_label, check_label_value, check_qualified_name
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import Amount
from mooring.csi.contract import Capacity
from mooring.provisioner.capacity.objects import CapacityKey, TemplateCapacity
from mooring.provisioner.provision.topology import Term, term

#: What templates publish, by segment and class.
TemplateCapacities = Mapping[CapacityKey, TemplateCapacity]
NO_TEMPLATES: Final[TemplateCapacities] = {}


class BadCapacityFile(Exception):
    """A file of segments or templates cannot be used; the text says why."""


class ClassCapacity(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Capacity of one class on a new node of the group; the fields are those of CSIStorageCapacity."""

    capacity: Amount
    maximum_volume_size: Amount | None = None


class NodeGroupTemplate(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One entry of the file."""

    node_group: str
    #: Topology keys whose value differs from node to node.
    topology_keys: tuple[str, ...]
    storage_classes: dict[str, ClassCapacity]
    #: Topology labels that all nodes of the group share, such as a zone.
    labels: dict[str, str] = {}

    @property
    def segment(self) -> Term:
        return term(self.labels | dict.fromkeys(self.topology_keys, template_value(self.node_group)))


def template_value(node_group: str) -> str:
    """Value of the topology labels of a node group's simulated nodes."""
    return f"{node_group}{well_known.TEMPLATE_SUFFIX}"


def parse_templates(text: str) -> TemplateCapacities:
    """From a YAML or JSON list of templates. Raises BadCapacityFile."""
    try:
        listed = msgspec.convert(single_yaml_document(text.encode()), list[NodeGroupTemplate])
    except (MalformedYaml, msgspec.ValidationError) as error:
        raise BadCapacityFile(f"not a list of node group templates: {error}") from error
    found: dict[CapacityKey, TemplateCapacity] = {}
    groups: set[str] = set()
    for each in listed:
        problem = next(_problems(each), "")
        if each.node_group in groups:
            problem = "it is listed twice"
        groups.add(each.node_group)
        if problem:
            raise BadCapacityFile(f"node group {each.node_group!r}: {problem}")
        for name, reported in each.storage_classes.items():
            found[CapacityKey(each.segment, name)] = TemplateCapacity(each.node_group, _capacity(each, name, reported))
    return found


def _capacity(template: NodeGroupTemplate, storage_class: str, reported: ClassCapacity) -> Capacity:
    largest = reported.maximum_volume_size
    try:
        available = quantity.to_bytes(reported.capacity)
        maximum = None if largest is None else quantity.to_bytes(largest)
    except QuantityError as error:
        raise BadCapacityFile(f"node group {template.node_group!r}: class {storage_class}: {error}") from error
    if available < 0 or (maximum or 0) < 0:
        raise BadCapacityFile(f"node group {template.node_group!r}: class {storage_class}: negative capacity")
    return Capacity(available, maximum)


def _problems(template: NodeGroupTemplate) -> Iterator[str]:
    yield from (f"nodeGroup {why}" for why in check_dns1123_label(template.node_group))
    yield from (f"topology value {why}" for why in check_label_value(template_value(template.node_group)))
    if not template.topology_keys:
        yield "topologyKeys must name a label whose value differs from node to node"
    yield from (f"topology key {key}: {why}" for key in template.topology_keys for why in check_qualified_name(key))
    yield from (f"{key} is in topologyKeys and in labels" for key in template.topology_keys if key in template.labels)
    for key, value in template.labels.items():
        yield from (f"label {key}: {why}" for why in (*check_qualified_name(key), *check_label_value(value)))
