"""Nodes like one that is there or is written down: with its size, labels and taints, and with storage as empty as new.

Pure. A node's storage is what only it can reach: the CSIStorageCapacity objects of its segment, as large as what is
left and what its volumes take, and local volumes, which are there again and belong to nobody. Labels that carry the
template's name carry the new one's.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mooring.api import keys
from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.volume import Volume
from mooring.sim.whatif.figures import figures
from mooring.sim.whatif.inventory import BadQuestion, Body, Inventory
from mooring.sim.whatif.pools import Pools, pools_of
from mooring.volumes.affinity import affinity
from mooring.volumes.capacity import CapacityView
from mooring.volumes.nodeset import NodeSet
from mooring.volumes.topology import TopologyIndex

#: Of a node's metadata and of its status, what is not its alone.
_SHARED_METADATA: Final = ("labels", "annotations")
_KEPT_STATUS: Final = ("capacity", "allocatable", "nodeInfo", "declaredFeatures")
#: What keeps pods from a node for a while: a new one begins without.
_PASSING_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler")


class Addition(NamedTuple):
    """So many nodes like the template; `source` holds it, with what belongs to it."""

    template: str
    number: int
    source: Inventory


def add_nodes(inventory: Inventory, wanted: Addition) -> list[str]:
    """Adds the nodes and answers with their names. Raises BadQuestion."""
    mould = _Mould(wanted.source, wanted.template)
    taken = {node.name for node in inventory.of(NODE)}
    names: list[str] = []
    number = 0
    while len(names) < wanted.number:
        number += 1
        name = f"{wanted.template}-new-{number}"
        if name not in taken:
            names.append(name)
            for kind, body in mould.cast(name):
                inventory.keep(kind, body)
    return names


class _Mould:
    """All that belongs to the template alone."""

    def __init__(self, source: Inventory, template: str) -> None:
        if not source.is_there(NODE, template):
            raise BadQuestion(f"there is no node {template} to add others like")
        self._source = source
        self._template = template
        topology = TopologyIndex()
        for node in source.of(NODE):
            topology.put(node.name, node.metadata.labels)
        self._here: NodeSet = topology.named(template)
        self._topology = topology
        self._node = source.body(NODE, template)
        labels = self._node["metadata"].get("labels") or {}
        #: What the template is called, by name and by host.
        self._called = {template, labels.get(keys.HOSTNAME, template)}
        self._csi_node = source.body(CSI_NODE, template) if source.is_there(CSI_NODE, template) else None
        self._capacities = [*self._own_capacities()]
        self._disks = [
            source.body(VOLUME, volume.key)
            for volume in source.of(VOLUME)
            if volume.spec.csi is None and self._is_own(volume) and _is_local(source.body(VOLUME, volume.key))
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
            yield (
                VOLUME,
                {
                    "metadata": self._metadata(disk, name),
                    "spec": self._renamed(spec, name),
                    "status": {"phase": "Available"},
                },
            )

    def _new_node(self, name: str) -> Body:
        metadata = {field: self._node["metadata"].get(field) or {} for field in _SHARED_METADATA}
        spec = {field: value for field, value in (self._node.get("spec") or {}).items() if field == "taints"}
        spec["taints"] = [t for t in spec.get("taints") or () if not t.get("key", "").startswith(_PASSING_TAINTS)]
        status = self._node.get("status") or {}
        kept = {field: status[field] for field in _KEPT_STATUS if field in status}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        new: Body = self._renamed({"metadata": metadata, "spec": spec, "status": kept}, name)
        new["metadata"]["name"] = name
        new["metadata"]["labels"][keys.HOSTNAME] = name
        new["status"]["conditions"] = ready
        return new

    def _metadata(self, body: Body, name: str) -> Body:
        """A name of its own, the labels, and no owner: whoever published the template's may not know the new one."""
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
        return volume.required_affinity is not None and self._topology.matching(affinity(volume)) == self._here

    def _own_capacities(self) -> Iterator[Body]:
        """As large as they are without the volumes that only the template can reach."""
        view = CapacityView(self._topology)
        pools: Pools | None = None
        for reported in self._source.of(STORAGE_CAPACITY):
            view.observe(reported.key, reported)
            room = view.room(reported.key)
            if room is not None and self._topology.matching(room.segment) == self._here:
                pools = pools or self._emptied()
                yield self._source.body(STORAGE_CAPACITY, reported.key) | figures(pools[reported.key])

    def _emptied(self) -> Pools:
        pools = pools_of(self._source)
        for volume in self._source.of(VOLUME):
            if volume.spec.csi is not None and self._is_own(volume):
                taken = pools.taken_by(volume)
                pools.catch_up(volume, taken)
                pools.give_back(taken)
        return pools


def _is_local(body: Body) -> bool:
    return "local" in body["spec"]
