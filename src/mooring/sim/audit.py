"""An auditor of storage: what is free in every pool, worked out anew and compared with what the scheduler counts on.

Independent on purpose. Of the driver it takes the list of volumes, of the API the objects, of the scheduler the two
figures that it acts by; the rules are written down here once more, and nothing of `mooring.volumes` is used. It judges
at every quiet point: when the scheduler has been shown all that there is, and no volume is being made or deleted in
between. Then for every pool of every node

    free = size of the pool - the driver's volumes there - claims that are on their way there and have no volume

must be what the scheduler counts on. More would be promised twice. Less is charged twice, and is told only where the
published figure is the driver's own and newer than its volumes: until the driver is asked again, less is all one knows.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from mooring.api import keys, quantity
from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageCapacity
from mooring.api.views.volume import Volume
from mooring.sim.facts import Subject
from mooring.sim.invariants import Violation
from mooring.sim.world import World

PROMISED_TWICE: Final = "storage is not promised twice"
CHARGED_TWICE: Final = "storage is not charged twice"

#: What the scheduler's count depends on.
KINDS: Final[tuple[Kind[Any], ...]] = (NODE, STORAGE_CLASS, CSI_DRIVER, STORAGE_CAPACITY, VOLUME, CLAIM)
#: How a volume that no controller may bind yet names its claim, and where it says for which node it was made.
WAITING: Final = ("hold-", "rollback-")
MADE_FOR: Final = "hold.mooring.dev/node"


class Accountable(Protocol):
    """A component that says what storage it counts on."""

    def free_storage(self) -> Mapping[str, int]:
        """Bytes by the key of a capacity object."""
        ...

    def promised_nodes(self) -> Mapping[str, str]:
        """By the key of a claim, the node it was promised to and that is not written yet."""
        ...


class Place(NamedTuple):
    pool: str
    node: str


class Made(NamedTuple):
    """A volume of the driver's list."""

    size: int
    node: str


class StorageAudit:
    """Call it with a world, as often as you like; it answers with the first difference of a quiet point."""

    def __init__(self, pools: Mapping[str, int], *, driver: str, label: str, scheduler: str) -> None:
        """`pools` are sizes by the value of the class parameter `pool`, on every node; `driver` is the one of the
        annex, and `label` has the node in its segments."""
        self._pools = pools
        self._driver = driver
        self._label = label
        self._scheduler = scheduler
        #: How many pools were compared, and how many quiet points there were.
        self.compared = 0
        self.quiet = 0

    async def __call__(self, world: World) -> Violation | None:
        made = await self._made(world)
        listed = {kind: {item.key: item for item in (await world.client.list(kind)).items} for kind in KINDS}
        if await self._made(world) != made:
            return None
        insight = world.insight(self._scheduler)
        if insight is None or not all(_same(insight.informers.of(kind).items(), listed[kind]) for kind in KINDS):
            return None
        self.quiet += 1
        books = _Books(listed, made, insight.component.promised_nodes(), self._label)
        for key, counted in insight.component.free_storage().items():
            violation = self._judge(books, listed[STORAGE_CAPACITY][key], counted)
            if violation is not None:
                return violation
        return None

    async def _made(self, world: World) -> dict[str, Made]:
        """The driver's volumes by handle."""
        volumes = await world.driver(self._driver).list_volumes()
        return {each.volume_id: Made(each.capacity_bytes, self._node(each.accessible_from)) for each in volumes}

    def _node(self, places: Any) -> str:  # noqa: ANN401  # the driver's own words
        return str(places[0].segments.get(self._label, "")) if places else ""

    def _judge(self, books: "_Books", figure: StorageCapacity, counted: int) -> Violation | None:
        place = books.place_of(figure)
        if place is None or books.unknown(place.node):
            return None
        self.compared += 1
        unused = self._pools[place.pool] - books.used(place)
        free = max(unused - books.on_their_way(place), 0)
        says = figure.capacity is not None and quantity.to_bytes(figure.capacity) == unused
        is_current = says and books.asked_since(figure, place)
        if counted > free or (counted < free and is_current):
            rule = PROMISED_TWICE if counted > free else CHARGED_TWICE
            text = f"{figure.key} ({place.pool} on {place.node}): {free} bytes are free, the scheduler counts {counted}"
            return Violation(rule, text, (Subject(STORAGE_CAPACITY, figure.key), *books.subjects(place)))
        return None


class _Books:
    """What the objects and the driver's list say, by place."""

    def __init__(
        self,
        listed: Mapping[Kind[Any], Mapping[str, Any]],
        made: Mapping[str, Made],
        promised: Mapping[str, str],
        label: str,
    ) -> None:
        self._nodes = listed[NODE]
        self._classes = listed[STORAGE_CLASS]
        self._volumes: list[Volume] = list(listed[VOLUME].values())
        self._claims: list[Claim] = list(listed[CLAIM].values())
        self._made = made
        self._promised = promised
        self._label = label
        self._by_handle = {each.spec.csi.volume_handle: each for each in self._volumes if each.spec.csi is not None}

    def place_of(self, figure: StorageCapacity) -> Place | None:
        topology = figure.node_topology
        node = topology.match_labels.get(self._label, "") if topology is not None else ""
        pool = self._pool(figure.storage_class_name)
        return Place(pool, node) if pool and node in self._nodes else None

    def unknown(self, node: str) -> bool:
        """Whether the driver has a volume there that no object names: it is being made, or its maker died."""
        return any(each.node == node and handle not in self._by_handle for handle, each in self._made.items())

    def used(self, place: Place) -> int:
        return sum(size for handle, (size, node) in self._made.items() if self._takes(handle, node, place))

    def asked_since(self, figure: StorageCapacity, place: Place) -> bool:
        """Whether the driver was asked for the figure after all volumes of a place had been made: one that was made at
        that moment is in the figure or not, which no object tells."""
        asked = figure.metadata.annotations.get(keys.CAPACITY_POLLED_AT, "")
        volumes = [
            self._by_handle[handle] for handle, (_, node) in self._made.items() if self._takes(handle, node, place)
        ]
        # RFC 3339 in UTC, with as many digits, orders as text.
        return all(volume.metadata.annotations.get(keys.VOLUME_CREATED_AT, "") < asked for volume in volumes)

    def on_their_way(self, place: Place) -> int:
        return sum(quantity.to_bytes(claim.request) for claim in self._flying(place))

    def subjects(self, place: Place) -> list[Subject]:
        volumes = [
            self._by_handle[handle] for handle, (_, node) in self._made.items() if self._takes(handle, node, place)
        ]
        claims = [Subject(CLAIM, claim.key) for claim in self._flying(place)]
        return [*(Subject(VOLUME, volume.name) for volume in volumes), *claims]

    def _takes(self, handle: str, node: str, place: Place) -> bool:
        return node == place.node and self._pool(self._by_handle[handle].storage_class) == place.pool

    def _flying(self, place: Place) -> list[Claim]:
        return [
            claim for claim in self._claims if self._goes_to(claim) == place and not self._is_served(claim, place.node)
        ]

    def _goes_to(self, claim: Claim) -> Place | None:
        if claim.spec.volume_name:
            return None
        node = self._promised.get(claim.key) or claim.metadata.annotations.get(keys.SELECTED_NODE, "")
        return Place(self._pool(claim.storage_class), node)

    def _is_served(self, claim: Claim, node: str) -> bool:
        """Whether a volume is there that was made for the claim: its own, or one that waits on this very node."""
        for volume in self._volumes:
            reference = volume.spec.claim_ref
            if reference is None:
                continue
            if reference.uid == claim.uid:
                return True
            waits = not reference.uid and reference.name in [prefix + claim.uid for prefix in WAITING]
            if waits and volume.metadata.annotations.get(MADE_FOR) == node:
                return True
        return False

    def _pool(self, storage_class: str) -> str:
        found = self._classes.get(storage_class)
        return str(found.parameters.get("pool", "")) if found is not None else ""


def _same(seen: Any, listed: Mapping[str, Any]) -> bool:  # noqa: ANN401  # of any kind
    """Whether an informer has been shown what the API has."""
    versions = {item.key: item.metadata.resource_version for item in seen}
    return versions == {key: item.metadata.resource_version for key, item in listed.items()}
