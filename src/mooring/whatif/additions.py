"""Adds nodes like a template node: its size, labels and taints, with empty storage. Pure.

The storage of a node is what only it can access: CSIStorageCapacity objects of its segment, enlarged by its volumes,
and its local volumes, unbound. Label values equal to the template's name become the new name.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mooring.api import well_known
from mooring.api.documents import Body
from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Volume
from mooring.volumes.capacity import readable_segment
from mooring.volumes.topology import NodeSet, TopologyIndex, affinity_of
from mooring.whatif.drivers import SimulatedPools, pools_of, reported_values
from mooring.whatif.inventory import BadQuestion, Inventory

#: Of a node's metadata and of its status, what is not its alone.
_SHARED_METADATA: Final = ("labels", "annotations")
_KEPT_STATUS: Final = ("capacity", "allocatable", "nodeInfo", "declaredFeatures")
#: What keeps pods from a node for a while: a new one begins without.
_PASSING_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler")


#: Between the name of the template and the number of the added node.
ADDED: Final = "-new-"


class Addition(NamedTuple):
    """So many nodes like the template; `source` holds it, with what belongs to it."""

    template: str
    number: int
    source: Inventory


def add_nodes(inventory: Inventory, addition: Addition) -> list[str]:
    """Adds the nodes and answers with their names. Raises BadQuestion."""
    node_template = _NodeTemplate(addition.source, addition.template)
    taken = {node.name for node in inventory.of(NODE)}
    names: list[str] = []
    number = 0
    while len(names) < addition.number:
        number += 1
        name = f"{addition.template}{ADDED}{number}"
        if name not in taken:
            names.append(name)
            for kind, body in node_template.cast(name):
                inventory.keep(kind, body)
    return names


class _NodeTemplate:
    """All that belongs to the template alone."""

    def __init__(self, source: Inventory, template: str) -> None:
        if not source.is_there(NODE, template):
            raise BadQuestion(f"template node {template} not found")
        self._source = source
        self._template = template
        self._topology = TopologyIndex.of(source.of(NODE))
        self._here: NodeSet = self._topology.named(template)
        self._node = source.body(NODE, template)
        labels = self._node["metadata"].get("labels") or {}
        #: What the template is called, by name and by host, and in topology that only templates have.
        self._called = {template, labels.get(well_known.HOSTNAME, template)}
        self._called |= {value for value in labels.values() if value.endswith(well_known.TEMPLATE_SUFFIX)}
        self._csi_node = source.body(CSI_NODE, template) if source.is_there(CSI_NODE, template) else None
        self._capacities = [*self._own_capacities()]
        self._disks = [
            source.body(VOLUME, volume.key)
            for volume in source.of(VOLUME)
            if volume.spec.csi is None and self._is_own(volume) and "local" in source.body(VOLUME, volume.key)["spec"]
        ]

    def cast(self, name: str) -> Iterator[tuple[Kind[ApiObject], Body]]:
        yield NODE, self._new_node(name)
        if self._csi_node is not None:
            spec = self._renamed(self._csi_node["spec"], name)
            yield CSI_NODE, {"metadata": {"name": name}, "spec": spec}
        for capacity in self._capacities:
            namespace = capacity["metadata"]["namespace"]
            new = self._renamed({**capacity, "metadata": {}}, name)
            yield STORAGE_CAPACITY, new | {"metadata": self._metadata(capacity, name) | {"namespace": namespace}}
        for disk in self._disks:
            spec = {field: value for field, value in disk["spec"].items() if field != "claimRef"}
            metadata = self._metadata(disk, name)
            yield VOLUME, {"metadata": metadata, "spec": self._renamed(spec, name), "status": {"phase": "Available"}}

    def _new_node(self, name: str) -> Body:
        metadata = {field: self._node["metadata"].get(field) or {} for field in _SHARED_METADATA}
        taints = (self._node.get("spec") or {}).get("taints") or ()
        spec = {"taints": [taint for taint in taints if not taint.get("key", "").startswith(_PASSING_TAINTS)]}
        status = self._node.get("status") or {}
        kept = {field: status[field] for field in _KEPT_STATUS if field in status}
        new: Body = self._renamed({"metadata": metadata, "spec": spec, "status": kept}, name)
        new["metadata"]["name"] = name
        new["metadata"]["labels"][well_known.HOSTNAME] = name
        new["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        return new

    def _metadata(self, body: Body, name: str) -> Body:
        """New name and the template's labels, without an owner reference."""
        old = body["metadata"]
        labels = {"labels": old["labels"]} if old.get("labels") else {}
        return {"name": f"{old['name']}-{name}", **labels}

    def _renamed(self, value: Any, name: str) -> Any:  # noqa: ANN401  JSON of any shape
        """The same with the new name wherever a value is the template's."""
        if isinstance(value, dict):
            return {key: self._renamed(part, name) for key, part in value.items()}
        if isinstance(value, list):
            return [self._renamed(part, name) for part in value]
        return name if isinstance(value, str) and value in self._called else value

    def _is_own(self, volume: Volume) -> bool:
        """Whether no other node can use the volume."""
        return volume.required_affinity is not None and self._topology.matching(affinity_of(volume)) == self._here

    def _own_capacities(self) -> Iterator[Body]:
        """As large as they are without the volumes that only the template can reach."""
        pools: SimulatedPools | None = None
        for reported in self._source.of(STORAGE_CAPACITY):
            room = readable_segment(reported)
            if room is not None and self._topology.matching(room.segment) == self._here:
                pools = pools or self._emptied()
                yield self._source.body(STORAGE_CAPACITY, reported.key) | reported_values(pools[reported.key])

    def _emptied(self) -> SimulatedPools:
        pools = pools_of(self._source)
        for volume in self._source.of(VOLUME):
            if volume.spec.csi is not None and self._is_own(volume):
                taken = pools.taken_by(volume)
                pools.deduct_unreported(volume, taken)
                pools.give_back(taken)
        return pools
