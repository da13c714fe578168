"""How much room there is, as GetCapacity tells it. Pure.

Figures are additive: a volume of n bytes takes n from what is available, twice that when it is mirrored, in
which case both figures are halved beforehand. Parameters or places that make no sense have no room; that is an answer,
not an error.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mooring.csi.contract import Capacity, DriverError
from mooring.hostpath.layout import Kind, Layout, Pool, Settings, Site
from mooring.hostpath.ledger import Ledger
from mooring.hostpath.parameters import Wish, wish


class Room(msgspec.Struct, frozen=True):
    """A pool that a volume could come from, and how many bytes of such a volume it has."""

    site: Site
    pool: Pool
    kind: Kind
    size: int


def left(pool: Pool, site: Site, ledger: Ledger, *, free: int) -> int:
    """Bytes of the pool nobody has. `free` is what the file system below has to give; never negative."""
    if pool.size is None:
        return max(0, free)
    return max(0, pool.size - ledger.used(site.segments, pool.name))


def rooms(sites: Iterable[Site], wanted: Wish, ledger: Ledger, *, free: int) -> Iterator[Room]:
    """In the order of the sites and, inside a site, of its pools."""
    for site in sites:
        for pool in site.pools:
            if wanted.pool is None or wanted.pool == pool.name:
                kind = wanted.kind or pool.kind
                yield Room(site, pool, kind, left(pool, site, ledger, free=free) // kind.copies)


def capacity(
    layout: Layout,
    settings: Settings,
    ledger: Ledger,
    *,
    parameters: Mapping[str, str],
    topology: Mapping[str, str] | None,
    free: int,
) -> Capacity:
    try:
        wanted = wish(parameters)
    except DriverError:
        return Capacity(0, 0)
    sites = layout.sites if topology is None else layout.reachable_from(topology)
    found = [room.size for room in rooms(sites, wanted, ledger, free=free)]
    return Capacity(
        available_bytes=sum(found),
        maximum_volume_bytes=min(settings.max_volume_bytes, max(found, default=0)),
    )
