"""What a driver serves: sites with pools, and the nodes that reach them. Plain values, set from outside.

A site is one place where volumes lie, with its topology segments: a node, a zone, or everything when it has none. One
site makes a driver that runs on every node; many make a central driver, whose volumes carry the site they are at.
"""

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

#: Bytes; csi-driver-host-path's `--max-volume-size`, inclusive.
MAX_VOLUME_BYTES: Final = 1 << 40
DRIVER_NAME: Final = "hostpath.csi.mooring.dev"
#: The key whose value is the node's id, for drivers that were given no topology.
NODE_KEY: Final = "topology.hostpath.csi.mooring.dev/node"


class Kind(enum.StrEnum):
    """How a volume lies on its pool's disks. Nothing is really striped or mirrored; the room it takes is."""

    STRIPED = "striped"
    MIRRORED = "mirrored"

    @property
    def copies(self) -> int:
        return 2 if self is Kind.MIRRORED else 1


class Pool(msgspec.Struct, frozen=True):
    """`size` in bytes, or None for whatever the file system below has left."""

    name: str
    size: int | None = None
    #: Of volumes whose class does not say.
    kind: Kind = Kind.STRIPED


#: The pool of a site that was given none.
FILE_SYSTEM: Final = Pool("default")


class Site(msgspec.Struct, frozen=True):
    segments: Mapping[str, str] = {}
    pools: tuple[Pool, ...] = (FILE_SYSTEM,)

    def reachable_from(self, topology: Mapping[str, str]) -> bool:
        """Whether a place so described is in, or around, this site. A site without segments is everywhere."""
        pairs, own = topology.items(), self.segments.items()
        return not own or pairs <= own or own <= pairs


class Layout(msgspec.Struct, frozen=True, dict=True):
    """What follows from the sites is worked out once: a central driver has thousands, and is asked about each."""

    sites: tuple[Site, ...]
    #: Node id to the segments NodeGetInfo tells of it.
    nodes: Mapping[str, Mapping[str, str]]

    @cached_property
    def has_topology(self) -> bool:
        return any(site.segments for site in self.sites)

    @cached_property
    def sized(self) -> bool:
        """Whether no pool depends on what the file system below has left."""
        return all(pool.size is not None for site in self.sites for pool in site.pools)

    def reachable_from(self, topology: Mapping[str, str]) -> Sequence[Site]:
        """The sites that are in, or around, a place so described, in their order."""
        if frozenset(topology) != self._keys:
            return [site for site in self.sites if site.reachable_from(topology)]
        # SEEN: all sites have these keys and no others: one is there if it is this very place.
        return self._at.get(frozenset(topology.items()), ())

    @cached_property
    def _keys(self) -> frozenset[str] | None:
        """The keys of all sites, where all have the same."""
        keys = {frozenset(site.segments) for site in self.sites}
        return keys.pop() if len(keys) == 1 else None

    @cached_property
    def _at(self) -> Mapping[frozenset[tuple[str, str]], Sequence[Site]]:
        found: defaultdict[frozenset[tuple[str, str]], list[Site]] = defaultdict(list)
        for site in self.sites:
            found[frozenset(site.segments.items())].append(site)
        return dict(found)


class Settings(msgspec.Struct, frozen=True):
    name: str = DRIVER_NAME
    version: str = ""
    max_volume_bytes: int = MAX_VOLUME_BYTES
    #: 0 means no limit.
    max_volumes_per_node: int = 0
    #: Whether volumes are attached to nodes first, as CSIDriver's `attachRequired` must then say.
    attach: bool = False


def one_node(node_id: str, *, pools: tuple[Pool, ...] = (FILE_SYSTEM,), segments: Mapping[str, str] = {}) -> Layout:
    """The layout of a driver that runs on each node for itself."""
    where = dict(segments) or {NODE_KEY: node_id}
    return Layout(sites=(Site(where, pools),), nodes={node_id: where})


def central(nodes: Mapping[str, Mapping[str, str]], *, pools: tuple[Pool, ...] = (FILE_SYSTEM,)) -> Layout:
    """The layout of one driver for many nodes: every distinct set of segments has pools of its own."""
    sites: dict[frozenset[tuple[str, str]], Site] = {}
    for segments in nodes.values():
        sites.setdefault(frozenset(segments.items()), Site(segments, pools))
    return Layout(sites=tuple(sites.values()), nodes=nodes)
