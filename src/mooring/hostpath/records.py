"""Layout of a driver (sites, pools, nodes) and the records of its volumes. Plain values, no I/O.

A site has topology segments: those of a node, of a zone, or none for the whole cluster. A driver per node has one site,
a central driver several. Records are frozen; a change is a new record.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Final

import msgspec

from mooring.csi.contract import AccessMode, DriverVolume, Topology, VolumeCapability

#: Bytes; csi-driver-host-path's `--max-volume-size`, inclusive.
MAX_VOLUME_BYTES: Final = 1 << 40
DRIVER_NAME: Final = "hostpath.csi.mooring.dev"
#: Topology key with the node's id, for drivers without a configured topology.
NODE_KEY: Final = "topology.hostpath.csi.mooring.dev/node"


class PoolKind(enum.StrEnum):
    """Redundancy of a volume. Only its capacity is counted accordingly; no data is striped or mirrored."""

    STRIPED = "striped"
    MIRRORED = "mirrored"

    @property
    def copies(self) -> int:
        return 2 if self is PoolKind.MIRRORED else 1


class Pool(msgspec.Struct, frozen=True):
    """`size` in bytes; None for the free bytes of the file system."""

    name: str
    size: int | None = None
    #: Of volumes without the parameter.
    kind: PoolKind = PoolKind.STRIPED


#: The pool of a site without configured pools.
FILE_SYSTEM: Final = Pool("default")


class Site(msgspec.Struct, frozen=True):
    segments: Mapping[str, str] = {}
    pools: tuple[Pool, ...] = (FILE_SYSTEM,)

    def reachable_from(self, topology: Mapping[str, str]) -> bool:
        """Whether the topology contains the site or is contained in it. A site without segments is everywhere."""
        pairs, own = topology.items(), self.segments.items()
        return not own or pairs <= own or own <= pairs


class DriverLayout(msgspec.Struct, frozen=True, dict=True):
    """Derived values are cached: a central driver has thousands of sites."""

    sites: tuple[Site, ...]
    #: Node id to the segments that NodeGetInfo returns.
    nodes: Mapping[str, Mapping[str, str]]

    @cached_property
    def has_topology(self) -> bool:
        return any(site.segments for site in self.sites)

    @cached_property
    def pool_names(self) -> frozenset[str]:
        return frozenset(pool.name for site in self.sites for pool in site.pools)

    @cached_property
    def sized(self) -> bool:
        """Whether all pools have a size."""
        return all(pool.size is not None for site in self.sites for pool in site.pools)

    def reachable_from(self, topology: Mapping[str, str]) -> Sequence[Site]:
        """The sites that contain the topology or are contained in it, in their order."""
        if frozenset(topology) != self._keys:
            return [site for site in self.sites if site.reachable_from(topology)]
        # All sites have exactly these keys: look up the equal one.
        return self._at.get(frozenset(topology.items()), ())

    @cached_property
    def _keys(self) -> frozenset[str] | None:
        """The topology keys if all sites have the same ones."""
        keys = {frozenset(site.segments) for site in self.sites}
        return keys.pop() if len(keys) == 1 else None

    @cached_property
    def _at(self) -> Mapping[frozenset[tuple[str, str]], Sequence[Site]]:
        found: defaultdict[frozenset[tuple[str, str]], list[Site]] = defaultdict(list)
        for site in self.sites:
            found[frozenset(site.segments.items())].append(site)
        return dict(found)


class HostpathSettings(msgspec.Struct, frozen=True):
    name: str = DRIVER_NAME
    version: str = ""
    max_volume_bytes: int = MAX_VOLUME_BYTES
    #: 0 means no limit.
    max_volumes_per_node: int = 0
    #: Whether volumes must be attached; CSIDriver's `attachRequired` must be equal.
    attach: bool = False


def one_node(
    node_id: str, *, pools: tuple[Pool, ...] = (FILE_SYSTEM,), segments: Mapping[str, str] = {}
) -> DriverLayout:
    """Layout of a driver per node."""
    where = dict(segments) or {NODE_KEY: node_id}
    return DriverLayout(sites=(Site(where, pools),), nodes={node_id: where})


def central(nodes: Mapping[str, Mapping[str, str]], *, pools: tuple[Pool, ...] = (FILE_SYSTEM,)) -> DriverLayout:
    """Layout of one driver for many nodes: every distinct set of segments has its own pools."""
    sites: dict[frozenset[tuple[str, str]], Site] = {}
    for segments in nodes.values():
        sites.setdefault(frozenset(segments.items()), Site(segments, pools))
    return DriverLayout(sites=tuple(sites.values()), nodes=nodes)


#: Key of the volume's name in its context, because CSI's lists have no names; provisioners pass it with this key.
NAME_KEY: Final = "csi.storage.k8s.io/pv/name"


class VolumePhase(enum.StrEnum):
    """A record is written before the backing is created and dropped after it is removed."""

    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"


class Attachment(msgspec.Struct, frozen=True):
    node: str
    capability: VolumeCapability
    read_only: bool


class Staging(msgspec.Struct, frozen=True):
    node: str
    path: str
    capability: VolumeCapability


class Publication(msgspec.Struct, frozen=True):
    node: str
    target: str
    capability: VolumeCapability
    read_only: bool


class VolumeRecord(msgspec.Struct, frozen=True):
    volume_id: str
    #: Empty for inline volumes.
    name: str
    size: int
    block: bool
    pool: str
    kind: PoolKind
    #: Of its site.
    segments: Mapping[str, str]
    #: Parameters of the request: a repeated request must have the same.
    requested_pool: str | None = msgspec.field(default=None, name="wanted_pool")
    requested_kind: PoolKind | None = msgspec.field(default=None, name="wanted_kind")
    phase: VolumePhase = VolumePhase.READY
    inline: bool = False
    attached: tuple[Attachment, ...] = ()
    staged: tuple[Staging, ...] = ()
    published: tuple[Publication, ...] = ()

    @property
    def cost(self) -> int:
        """Bytes used of its pool."""
        return self.size * self.kind.copies

    @property
    def single_writer(self) -> bool:
        return any(use.capability.mode is AccessMode.SINGLE_NODE_SINGLE_WRITER for use in self.published)

    def nodes(self) -> frozenset[str]:
        """Nodes where it is attached, staged or published."""
        uses: tuple[Attachment | Staging | Publication, ...] = (*self.attached, *self.staged, *self.published)
        return frozenset(use.node for use in uses)

    def to_csi(self) -> DriverVolume:
        return DriverVolume(
            volume_id=self.volume_id,
            capacity_bytes=self.size,
            context={"pool": self.pool, "kind": self.kind.value} | ({NAME_KEY: self.name} if self.name else {}),
            accessible_from=(Topology(self.segments),) if self.segments else (),
            published_on=tuple(sorted({attachment.node for attachment in self.attached})),
        )


class PersistedState(msgspec.Struct, frozen=True):
    """Contents of a state store. `serial` counts the assigned ids, so that none is reused."""

    serial: int = 0
    volumes: tuple[VolumeRecord, ...] = ()


class VolumeRecords:
    """All records with their sums by pool and node. Decisions read it; only `VolumeStore` writes it."""

    def __init__(self, kept: PersistedState) -> None:
        self._serial = kept.serial
        self._volumes: dict[str, VolumeRecord] = {}
        self._by_name: dict[str, str] = {}
        self._used: Counter[tuple[frozenset[tuple[str, str]], str]] = Counter()
        self._attached: Counter[str] = Counter()
        self._staged: Counter[str] = Counter()
        for volume in kept.volumes:
            self.put(volume)

    @property
    def serial(self) -> int:
        return self._serial

    def volumes(self) -> list[VolumeRecord]:
        """In the order of their ids."""
        return [self._volumes[volume_id] for volume_id in sorted(self._volumes)]

    def get(self, volume_id: str) -> VolumeRecord | None:
        return self._volumes.get(volume_id)

    def named(self, name: str) -> VolumeRecord | None:
        """The volume created with that name; inline volumes have none."""
        volume_id = self._by_name.get(name)
        return None if volume_id is None else self._volumes[volume_id]

    def used(self, segments: Mapping[str, str], pool: str) -> int:
        """Bytes taken from a pool of a site."""
        return self._used[_place(segments), pool]

    def attached_to(self, node: str) -> int:
        """How many volumes."""
        return self._attached[node]

    def staged_on(self, node: str) -> int:
        """How many volumes."""
        return self._staged[node]

    def new_id(self, chance: Random) -> str:
        """The number is unique in this store, the random part across stores."""
        self._serial += 1
        return f"v{self._serial:06d}-{chance.getrandbits(64):016x}"

    def put(self, volume: VolumeRecord) -> None:
        self.drop(volume.volume_id)
        self._volumes[volume.volume_id] = volume
        self._count(volume, 1)
        if not volume.inline:
            self._by_name[volume.name] = volume.volume_id

    def drop(self, volume_id: str) -> None:
        volume = self._volumes.pop(volume_id, None)
        if volume is None:
            return
        self._count(volume, -1)
        if not volume.inline:
            del self._by_name[volume.name]

    def _count(self, volume: VolumeRecord, times: int) -> None:
        self._used[_place(volume.segments), volume.pool] += times * volume.cost
        for attachment in volume.attached:
            self._attached[attachment.node] += times
        for staging in volume.staged:
            self._staged[staging.node] += times


def _place(segments: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(segments.items())
