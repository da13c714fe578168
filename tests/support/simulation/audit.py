"""Storage audit: free capacity of every pool, recomputed and compared with what the scheduler counts as free.

Independent on purpose: uses the driver's volume list, API objects and the scheduler's two results, and no code of
`mooring.volumes`. It compares at quiet points, when the scheduler's informers are current and no volume is being
created or deleted. Then for every pool of every node

    free = size of the pool - the driver's volumes - claims in flight to the node without a volume

must be what the scheduler counts. More means storage promised twice. Less means charged twice, and is reported only if
the published capacity is current: until the next GetCapacity a lower value is correct, and so it is while a
PersistentVolume exists whose storage is deleted.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from mooring.api import quantity, well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.storage import Claim, StorageCapacity, Volume
from support.simulation.cluster import SimulatedCluster
from support.simulation.invariants import Subject, Violation

PROMISED_TWICE: Final = "storage is not promised twice"
CHARGED_TWICE: Final = "storage is not charged twice"

#: Kinds that the scheduler's count depends on.
KINDS: Final[tuple[Kind[Any], ...]] = (NODE, STORAGE_CLASS, CSI_DRIVER, STORAGE_CAPACITY, VOLUME, CLAIM)
#: Prefixes of a held volume's claimRef name, and the annotation with its node.
HELD_PREFIXES: Final = ("hold-", "rollback-")
NODE_ANNOTATION: Final = "hold.mooring.dev/node"


class Accountable(Protocol):
    """A component that reports which storage it counts as free."""

    def free_storage(self) -> Mapping[str, int]:
        """Bytes by the key of a capacity object."""
        ...

    def assumed_nodes(self) -> Mapping[str, str]:
        """Claim key -> assumed node that is not written yet."""
        ...


class PoolOnNode(NamedTuple):
    pool: str
    node: str


class DriverVolume(NamedTuple):
    """A volume of the driver's list."""

    size: int
    node: str


class StorageAudit:
    """Call it at any time with a cluster; it returns the first difference at a quiet point."""

    def __init__(self, pools: Mapping[str, int], *, driver: str, label: str, scheduler: str) -> None:
        """`pools` are sizes by the value of the class parameter `pool`, on every node; `driver` is one of the
        extra components, and `label` is the topology key of a node."""
        self._pools = pools
        self._driver = driver
        self._label = label
        self._scheduler = scheduler
        #: Number of compared pools and of quiet points.
        self.compared = 0
        self.quiet = 0

    async def __call__(self, cluster: SimulatedCluster) -> Violation | None:
        made = await self._driver_volumes(cluster)
        listed = {kind: {item.key: item for item in (await cluster.client.list(kind)).items} for kind in KINDS}
        if await self._driver_volumes(cluster) != made:
            return None
        state = cluster.state(self._scheduler)
        if state is None or not all(_same(state.informers.of(kind).items(), listed[kind]) for kind in KINDS):
            return None
        self.quiet += 1
        ledger = _Ledger(listed, made, state.component.assumed_nodes(), self._label)
        for key, counted in state.component.free_storage().items():
            violation = self._check_write(ledger, listed[STORAGE_CAPACITY][key], counted)
            if violation is not None:
                return violation
        return None

    async def _driver_volumes(self, cluster: SimulatedCluster) -> dict[str, DriverVolume]:
        """The driver's volumes by handle."""
        volumes = await cluster.driver(self._driver).list_volumes()
        return {each.volume_id: DriverVolume(each.capacity_bytes, self._node(each.accessible_from)) for each in volumes}

    def _node(self, places: Any) -> str:  # noqa: ANN401  # any topology type
        return str(places[0].segments.get(self._label, "")) if places else ""

    def _check_write(self, ledger: "_Ledger", capacity: StorageCapacity, counted: int) -> Violation | None:
        place = ledger.place_of(capacity)
        if place is None or ledger.unknown(place.node):
            return None
        self.compared += 1
        unused = self._pools[place.pool] - ledger.used(place)
        free = max(unused - ledger.in_flight_bytes(place), 0)
        reported = capacity.capacity is not None and quantity.to_bytes(capacity.capacity) == unused
        is_current = reported and ledger.polled_since(capacity, place) and not ledger.deleted(place)
        if counted > free or (counted < free and is_current):
            rule = PROMISED_TWICE if counted > free else CHARGED_TWICE
            text = f"{capacity.key} ({place.pool} on {place.node}): {free} bytes free, the scheduler counts {counted}"
            return Violation(rule, text, (Subject(STORAGE_CAPACITY, capacity.key), *ledger.subjects(place)))
        return None


class _Ledger:
    """Objects and driver volumes, by pool and node."""

    def __init__(
        self,
        listed: Mapping[Kind[Any], Mapping[str, Any]],
        made: Mapping[str, DriverVolume],
        promised: Mapping[str, str],
        label: str,
    ) -> None:
        self._nodes = listed[NODE]
        self._classes = listed[STORAGE_CLASS]
        self._volumes: list[Volume] = list(listed[VOLUME].values())
        self._claims: list[Claim] = list(listed[CLAIM].values())
        self._driver_volumes = made
        self._promised = promised
        self._label = label
        self._by_handle = {each.spec.csi.volume_handle: each for each in self._volumes if each.spec.csi is not None}

    def place_of(self, capacity: StorageCapacity) -> PoolOnNode | None:
        topology = capacity.node_topology
        node = topology.match_labels.get(self._label, "") if topology is not None else ""
        pool = self._pool(capacity.storage_class_name)
        return PoolOnNode(pool, node) if pool and node in self._nodes else None

    def unknown(self, node: str) -> bool:
        """Whether the driver has a volume there without an object: being created, or its provisioner crashed."""
        return any(each.node == node and handle not in self._by_handle for handle, each in self._driver_volumes.items())

    def deleted(self, place: PoolOnNode) -> bool:
        """Whether an object names a volume there that the driver does not have: its deletion is not complete."""
        return any(
            handle not in self._driver_volumes
            and self._pool(volume.storage_class) == place.pool
            and self._is_on(volume, place.node)
            for handle, volume in self._by_handle.items()
        )

    def used(self, place: PoolOnNode) -> int:
        return sum(size for handle, (size, node) in self._driver_volumes.items() if self._takes(handle, node, place))

    def polled_since(self, capacity: StorageCapacity, place: PoolOnNode) -> bool:
        """Whether capacity was polled after all volumes of a pool were created: one created during the poll may or may
        not be included."""
        asked = capacity.metadata.annotations.get(well_known.CAPACITY_POLLED_AT, "")
        volumes = [
            self._by_handle[handle]
            for handle, (_, node) in self._driver_volumes.items()
            if self._takes(handle, node, place)
        ]
        # RFC 3339 in UTC, with as many digits, orders as text.
        return all(volume.metadata.annotations.get(well_known.VOLUME_CREATED_AT, "") < asked for volume in volumes)

    def in_flight_bytes(self, place: PoolOnNode) -> int:
        return sum(quantity.to_bytes(claim.request) for claim in self._in_flight(place))

    def subjects(self, place: PoolOnNode) -> list[Subject]:
        volumes = [
            self._by_handle[handle]
            for handle, (_, node) in self._driver_volumes.items()
            if self._takes(handle, node, place)
        ]
        claims = [Subject(CLAIM, claim.key) for claim in self._in_flight(place)]
        return [*(Subject(VOLUME, volume.name) for volume in volumes), *claims]

    def _takes(self, handle: str, node: str, place: PoolOnNode) -> bool:
        return node == place.node and self._pool(self._by_handle[handle].storage_class) == place.pool

    def _in_flight(self, place: PoolOnNode) -> list[Claim]:
        return [
            claim for claim in self._claims if self._target(claim) == place and not self._has_volume(claim, place.node)
        ]

    def _target(self, claim: Claim) -> PoolOnNode | None:
        if claim.spec.volume_name:
            return None
        node = self._promised.get(claim.key) or claim.metadata.annotations.get(well_known.SELECTED_NODE, "")
        return PoolOnNode(self._pool(claim.storage_class), node)

    def _has_volume(self, claim: Claim, node: str) -> bool:
        """Whether a volume of the claim exists: bound, or held on this node."""
        for volume in self._volumes:
            reference = volume.spec.claim_ref
            if reference is None:
                continue
            if reference.uid == claim.uid:
                return True
            waits = not reference.uid and reference.name in [prefix + claim.uid for prefix in HELD_PREFIXES]
            if waits and volume.metadata.annotations.get(NODE_ANNOTATION) == node:
                return True
        return False

    def _is_on(self, volume: Volume, node: str) -> bool:
        affinity = volume.spec.node_affinity
        terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
        return any(
            expression.key == self._label and node in expression.values
            for term in terms
            for expression in term.match_expressions
        )

    def _pool(self, storage_class: str) -> str:
        found = self._classes.get(storage_class)
        return str(found.parameters.get("pool", "")) if found is not None else ""


def _same(seen: Any, listed: Mapping[str, Any]) -> bool:  # noqa: ANN401  # of any kind
    """Whether an informer is current."""
    versions = {item.key: item.metadata.resource_version for item in seen}
    return versions == {key: item.metadata.resource_version for key, item in listed.items()}
