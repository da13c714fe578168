"""Which drivers are simulated, the pools they provision from, and the cluster's rollback settings. Pure.

Topology keys come from CSINodes, else from capacity objects or volumes. Each CSIStorageCapacity is a pool with a
segment; classes that share storage (`CAPACITY_POOL`) are charged together. A class without objects is unlimited.
Classes of one pool that report a whole fraction of each other everywhere keep copies: a volume takes its size several
times. A coordinator is recognised by its Lease or by held volumes, feature gates by announced Leases; the defaults
are upstream's.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple

from mooring.api import quantity, well_known
from mooring.api.documents import Body
from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.times import time_or_none
from mooring.api.views.core import Lease
from mooring.api.views.storage import StorageCapacity, Volume
from mooring.control import component_info
from mooring.control.feature_gates import CLAIM_ROLLBACK, PROVISIONING_ROLLBACK, FeatureGates, Gate, with_defaults
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.volume_candidates import is_held
from mooring.provisioner.provision.request import RESERVED, size
from mooring.provisioner.standins.disks import BY_NAME
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.capacity import CapacitySegment, SegmentsByLabel, readable_segment
from mooring.volumes.decider import Provisioners
from mooring.volumes.topology import Affinity, TopologyIndex
from mooring.whatif.inventory import Inventory


class SimulatedDriver(NamedTuple):
    """A driver to play; with `topology` its volumes can be used in some places only."""

    name: str
    topology: bool


def simulated_drivers(inventory: Inventory) -> list[SimulatedDriver]:
    """The drivers to play, by name. Adds to the CSINodes what only other objects tell."""
    listed = {
        driver.name: bool(driver.topology_keys)
        for node in sorted(inventory.of(CSI_NODE), key=lambda node: node.name)
        for driver in node.spec.drivers or ()
    }
    found: list[SimulatedDriver] = []
    named = {each.provisioner for each in inventory.of(STORAGE_CLASS)}
    for name in sorted(named - {well_known.NO_PROVISIONER, ""} - BY_NAME.keys()):
        topology = listed.get(name, False)
        if name not in listed:
            labels = _segment_labels(inventory, name) or _affine_by(inventory, name)
            topology = bool(labels)
            if labels:
                _introduce(inventory, name, labels)
        found.append(SimulatedDriver(name, topology))
    return found


def forget_secrets(inventory: Inventory) -> None:
    """Remove references to Secrets, which are not listed and which simulated drivers do not need."""
    for each in inventory.of(STORAGE_CLASS):
        secret = {key for key in each.parameters if key.startswith(RESERVED) and "-secret-" in key}
        kept = {key: value for key, value in each.parameters.items() if key not in secret}
        if secret:
            inventory.keep(STORAGE_CLASS, inventory.body(STORAGE_CLASS, each.key) | {"parameters": kept})


def _segment_labels(inventory: Inventory, provisioner: str) -> tuple[str, ...]:
    """The labels that tell the segments of a provisioner apart, of the object that names most of them."""
    classes = {each.name for each in inventory.of(STORAGE_CLASS) if each.provisioner == provisioner}
    reported = [
        each for each in inventory.of(STORAGE_CAPACITY) if each.storage_class_name in classes and not each.node_group
    ]
    named = [tuple(sorted(each.node_topology.match_labels)) for each in reported if each.node_topology is not None]
    return max(named, key=len, default=())


def _affine_by(inventory: Inventory, provisioner: str) -> tuple[str, ...]:
    """The labels by which volumes that a provisioner has made say where they are, of the first that says it."""
    for volume in sorted(inventory.of(VOLUME), key=lambda volume: volume.name):
        required = volume.required_affinity
        if volume.metadata.annotations.get(well_known.PROVISIONED_BY) == provisioner and required is not None:
            for term in required.node_selector_terms:
                return tuple(sorted({one.key for one in term.match_expressions}))
    return ()


def _introduce(inventory: Inventory, driver: str, labels: tuple[str, ...]) -> None:
    for node in inventory.of(NODE):
        if all(label in node.metadata.labels for label in labels):
            entry = {"name": driver, "nodeID": node.name, "topologyKeys": list(labels)}
            body: Body = {"metadata": {"name": node.name}, "spec": {}}
            if inventory.is_there(CSI_NODE, node.name):
                body = inventory.body(CSI_NODE, node.name)
            body["spec"]["drivers"] = [*(body["spec"].get("drivers") or ()), entry]
            inventory.keep(CSI_NODE, body)


#: More copies than any driver keeps; figures that are smaller by more are unrelated.
MAX_COPIES: Final = 4


@dataclass(slots=True)
class SimulatedPool:
    """What one object says, as it is now."""

    key: str
    storage_class: str
    #: Bytes left of the storage itself, of which a volume of the class takes its size `copies` times.
    unused: int
    copies: int
    #: The most that one volume may have, None where that is what is left.
    limit: int | None
    #: Whether the object itself has a figure for the largest volume.
    tells_largest: bool
    #: When the driver was requested the figure, None where the publisher does not say.
    polled: float | None

    @property
    def free(self) -> int:
        """Bytes left for volumes of the class."""
        return max(self.unused, 0) // self.copies

    @property
    def largest(self) -> int:
        return self.free if self.limit is None else min(self.limit, self.free)


class PoolAllocation(NamedTuple):
    """A volume's room: the objects it was taken from, and how many bytes of the storage."""

    pools: tuple[str, ...]
    size: int


class SimulatedPools:
    def __init__(
        self, reported: Iterable[StorageCapacity], shared: Callable[[str], str], named: Collection[str] = ()
    ) -> None:
        """`shared` is what volumes of a class are taken from, equal for classes that share it; the classes `named` say
        so themselves."""
        self._shared = shared
        self._pools: dict[str, SimulatedPool] = {}
        self._segments = SegmentsByLabel()
        segments = [(each, room) for each in reported if (room := readable_segment(each)) is not None]
        self._classes = _copies((room for _, room in segments), shared, named)
        for each, room in segments:
            self._segments.add(room.segment, each.key)
            copies = self._classes[room.storage_class]
            limit = None if room.limit == room.free else room.limit
            tells_largest = each.maximum_volume_size is not None
            self._pools[each.key] = SimulatedPool(
                each.key, room.storage_class, room.free * copies, copies, limit, tells_largest, room.polled
            )

    def __getitem__(self, key: str) -> SimulatedPool:
        return self._pools[key]

    def take(self, storage_class: str, labels: Mapping[str, str] | None, size: int) -> PoolAllocation | str:
        """Room for a volume in the place with these labels, None for anywhere; or why there is none."""
        if storage_class not in self._classes:
            return PoolAllocation((), size)
        here = [*self._pools.values()] if labels is None else self._at(labels)
        own = [pool for pool in here if pool.storage_class == storage_class]
        if not own:
            return f"no capacity of class {storage_class} is reported for this segment"
        fitting = [pool for pool in own if size <= pool.largest]
        if not fitting:
            most = max(pool.largest for pool in own)
            return f"{size} bytes were requested and {most} are free"
        if labels is None:
            here = [max(fitting, key=lambda pool: (pool.free, pool.key))]
        taken = PoolAllocation(self._sharing(storage_class, here), size * self._classes[storage_class])
        self._add(taken.pools, -taken.size)
        return taken

    def taken_by(self, volume: Volume) -> PoolAllocation:
        """The room of a volume that was there before."""
        places = [pool for labels in _places(volume) for pool in self._at(labels)]
        size = quantity.to_bytes(volume.size) * self._classes.get(volume.storage_class, 1)
        return PoolAllocation(self._sharing(volume.storage_class, places), size)

    def deduct_unreported(self, volume: Volume, taken: PoolAllocation) -> PoolAllocation:
        """Takes a volume from those of its objects whose figures were requested before it was made, and answers with
        them: a publisher would find it there too."""
        made = time_or_none(volume.metadata.creation_timestamp)
        polled = {key: self._pools[key].polled for key in taken.pools}
        unseen = tuple(key for key, at in polled.items() if made is not None and at is not None and made > at)
        self._add(unseen, -taken.size)
        return PoolAllocation(unseen, taken.size)

    def give_back(self, taken: PoolAllocation) -> None:
        self._add(taken.pools, taken.size)

    def _add(self, pools: Iterable[str], size: int) -> None:
        for key in pools:
            self._pools[key].unused += size

    def _at(self, labels: Mapping[str, str]) -> list[SimulatedPool]:
        return [self._pools[key] for key in self._segments.at(labels)]

    def _sharing(self, storage_class: str, pools: Iterable[SimulatedPool]) -> tuple[str, ...]:
        """Those of the pools that show the storage of a class, each once."""
        whose = self._shared(storage_class)
        return tuple(dict.fromkeys(pool.key for pool in pools if self._shared(pool.storage_class) == whose))


def pools_of(objects: Inventory | ClusterObjects, later: Iterable[StorageCapacity] = ()) -> SimulatedPools:
    """What the objects that are there report, and those that come later."""
    classes = Provisioners(TopologyIndex())
    for each in objects.of(STORAGE_CLASS):
        classes.observe_class(each.name, each)
    named = {each.name for each in objects.of(STORAGE_CLASS) if well_known.CAPACITY_POOL in each.metadata.annotations}
    return SimulatedPools([*objects.of(STORAGE_CAPACITY), *later], classes.pool, named)


def _copies(
    segments: Iterable[CapacitySegment], shared: Callable[[str], str], named: Collection[str]
) -> dict[str, int]:
    """How often volumes of each class take their size."""
    found: dict[str, set[int]] = {}
    by_place: dict[tuple[str, Affinity], list[CapacitySegment]] = {}
    for room in segments:
        found.setdefault(room.storage_class, set())
        if room.storage_class in named:
            by_place.setdefault((shared(room.storage_class), room.segment), []).append(room)
    for alike in by_place.values():
        most = max(room.free for room in alike)
        for room in alike:
            if most:
                copies = most // room.free if room.free else 0
                found[room.storage_class].add(copies if copies and most // copies == room.free else 0)
    return {name: _only(copies) for name, copies in found.items()}


def _only(copies: Collection[int]) -> int:
    """Figures that are in no whole relation, or in another elsewhere, say nothing."""
    return next(iter(copies)) if len(copies) == 1 and 1 <= max(copies) <= MAX_COPIES else 1


def _places(volume: Volume) -> Iterator[Mapping[str, str]]:
    """The labels of each place that a volume says it can be reached from."""
    required = volume.required_affinity
    for term in required.node_selector_terms if required is not None else ():
        overrides = [(each.key, each.values) for each in term.match_expressions if each.operator == "In"]
        for values in product(*(values for _, values in overrides)):
            yield dict(zip((key for key, _ in overrides), values, strict=True))


def reported_values(pool: SimulatedPool) -> dict[str, Any]:
    """What its object says of a pool."""
    capacity = {"capacity": size(pool.free)}
    return capacity | ({"maximumVolumeSize": size(pool.largest)} if pool.tells_largest else {})


#: Seconds by which a Lease may be behind the newest one of the cluster and still count as renewed: announcements, which
#: are renewed least often, last as long.
FRESH_SECONDS: Final = float(component_info.LEASE_DURATION_SECONDS)

#: Feature gates that are to be set like this, whatever the objects tell.
GateOverrides = Mapping[Gate, bool]


class Rollback(NamedTuple):
    """Who gives up again what keeps pods from running, and where holds point to."""

    #: There is a coordinator. Whether volumes are held by now is the gate's word: it also settles what was held before.
    coordinator: bool
    gates: FeatureGates
    namespace: str


def rollback_of(inventory: Inventory, overrides: GateOverrides) -> Rollback:
    """What the objects tell, unless it is `wanted` otherwise."""
    leases = _fresh(inventory.leases)
    announced = [found.info for lease in leases for found in component_info.instances(lease)]
    held = (volume.spec.claim_ref for volume in inventory.of(VOLUME) if is_held(volume))
    holding = next((reference.namespace for reference in held if reference is not None and reference.namespace), "")
    elected = (lease for lease in leases if lease.spec.holder_identity)
    coordinating = next((lease.namespace for lease in elected if lease.name == well_known.COORDINATOR_LEASE), "")
    messages = {
        PROVISIONING_ROLLBACK: all(_settings(PROVISIONING_ROLLBACK, announced)),
        # Held back until every instance announces it; where none announces anything, it is off, as by default.
        CLAIM_ROLLBACK: any(settings := _settings(CLAIM_ROLLBACK, announced)) and all(settings),
    }
    return Rollback(
        bool(holding or coordinating) or overrides.get(PROVISIONING_ROLLBACK, False),
        with_defaults({**messages, **overrides}),
        holding or coordinating or HOLD_NAMESPACE,
    )


def notes(found: Rollback, overrides: Iterable[Gate]) -> list[str]:
    """What people should know of it who did not ask for it."""
    messages = []
    if found.coordinator and found.gates.enabled(PROVISIONING_ROLLBACK) and PROVISIONING_ROLLBACK not in overrides:
        messages.append("pods get all of their volumes or none, because the cluster has a coordinator")
    if found.gates.enabled(CLAIM_ROLLBACK) and CLAIM_ROLLBACK not in overrides:
        messages.append("unused claims may be rolled back, because the cluster has ClaimRollback enabled")
    return messages


def _settings(gate: Gate, announced: Iterable[component_info.ComponentInfo]) -> list[bool]:
    """How the instances that a gate concerns have it."""
    return [each.gates.enabled(gate) for each in announced if each.components.intersection(gate.components)]


def _fresh(leases: Sequence[Lease]) -> list[Lease]:
    """The Leases that were still renewed when the cluster was listed."""
    renewed = {lease.key: time_or_none(lease.spec.renew_time) or 0.0 for lease in leases}
    newest = max(renewed.values(), default=0.0)
    return [lease for lease in leases if renewed[lease.key] and newest - renewed[lease.key] <= FRESH_SECONDS]
