"""CreateVolume decided: which site, which pool, which size, or the same volume as last time. Pure.

Says no with the codes CSI gives each reason, because callers act on them: RESOURCE_EXHAUSTED makes a scheduler
look elsewhere, ALREADY_EXISTS and INVALID_ARGUMENT do not go away by trying again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mooring.csi.contract import AccessibilityRequirements, Code, CreateVolume, DriverError
from mooring.hostpath.capacity import Room, rooms
from mooring.hostpath.layout import Layout, Settings, Site
from mooring.hostpath.ledger import Ledger
from mooring.hostpath.parameters import Wish, wish
from mooring.hostpath.records import Phase, Volume

#: Bytes of a volume whose size nobody asked for; what TopoLVM gives.
DEFAULT_BYTES: Final = 1 << 30


def repeated(request: CreateVolume, ledger: Ledger) -> Volume | None:
    """The volume this request already made, None if it made none. ALREADY_EXISTS: the name is taken otherwise."""
    wanted = wish(request.parameters)
    known = ledger.named(request.name)
    if known is None:
        return None
    if known.phase is Phase.DELETING:
        raise DriverError(Code.ABORTED, f"volume {known.volume_id} of that name is being deleted")
    if known.size < request.required_bytes or 0 < request.limit_bytes < known.size:
        raise _taken(known, f"has {known.size} bytes")
    if known.block != _block(request):
        raise _taken(known, "is a block volume" if known.block else "is a mount volume")
    if wanted != Wish(known.wanted_pool, known.wanted_kind):
        raise _taken(known, "was made with other parameters")
    site = Site(known.segments, ())
    if request.accessibility is not None and not any(map(site.reachable_from, _places(request.accessibility))):
        raise _taken(known, f"is at {_words(known.segments)}")
    return known


def made_so(volume: Volume, parameters: Mapping[str, str]) -> bool:
    """Whether a class with these parameters asks for what this volume's class asked for."""
    try:
        return wish(parameters) == Wish(volume.wanted_pool, volume.wanted_kind)
    except DriverError:
        return False


def placed(
    request: CreateVolume, layout: Layout, settings: Settings, ledger: Ledger, *, volume_id: str, free: int
) -> Volume:
    """The record of a new volume."""
    wanted = wish(request.parameters)
    _know_the_pool(wanted, layout)
    size = request.required_bytes or request.limit_bytes or DEFAULT_BYTES
    room = find_room(
        size, wanted, _sites(request.accessibility, layout, wanted, ledger, free), settings, ledger, free=free
    )
    return Volume(
        volume_id=volume_id,
        name=request.name,
        size=size,
        block=_block(request),
        pool=room.pool.name,
        kind=room.kind,
        segments=room.site.segments,
        wanted_pool=wanted.pool,
        wanted_kind=wanted.kind,
        phase=Phase.CREATING,
    )


def placed_inline(
    wanted: Wish, size: int, sites: Sequence[Site], settings: Settings, ledger: Ledger, *, volume_id: str, free: int
) -> Volume:
    """The record of a volume defined inside a pod, on the node where the pod already is."""
    if all(wanted.pool != pool.name for site in sites for pool in site.pools) and wanted.pool is not None:
        raise _no_such_pool(wanted.pool, sites)
    room = find_room(size, wanted, sites, settings, ledger, free=free)
    return Volume(
        volume_id=volume_id,
        name="",
        size=size,
        block=False,
        pool=room.pool.name,
        kind=room.kind,
        segments=room.site.segments,
        wanted_pool=wanted.pool,
        wanted_kind=wanted.kind,
        phase=Phase.CREATING,
        inline=True,
    )


def find_room(size: int, wanted: Wish, sites: Iterable[Site], settings: Settings, ledger: Ledger, *, free: int) -> Room:
    """The first that is large enough."""
    if size > settings.max_volume_bytes:
        raise DriverError(
            Code.OUT_OF_RANGE, f"requested capacity {size} exceeds maximum allowed {settings.max_volume_bytes}"
        )
    candidates = []
    for room in rooms(sites, wanted, ledger, free=free):
        if room.size >= size:
            return room
        candidates.append(room)
    if not candidates:
        raise DriverError(Code.RESOURCE_EXHAUSTED, "no storage here can be reached from where the volume is wanted")
    raise DriverError(
        Code.RESOURCE_EXHAUSTED, f"requested capacity {size} exceeds remaining capacity: {_all(candidates)}"
    )


def _sites(
    accessibility: AccessibilityRequirements | None, layout: Layout, wanted: Wish, ledger: Ledger, free: int
) -> Iterator[Site]:
    """In the order to try them: as preferred, then as allowed; without a say, where there is most room."""
    if accessibility is None or not _places(accessibility):
        yield from sorted(layout.sites, key=lambda site: -_largest(rooms((site,), wanted, ledger, free=free)))
        return
    # One by one, because the first usually does, and there may be thousands.
    seen: set[int] = set()
    for place in _places(accessibility):
        for site in layout.reachable_from(place):
            if id(site) not in seen:
                seen.add(id(site))
                yield site


def _places(accessibility: AccessibilityRequirements) -> list[Mapping[str, str]]:
    """Preferred topologies first; they are among the requisite ones unless there are only preferences."""
    return [topology.segments for topology in (*accessibility.preferred, *accessibility.requisite)]


def _block(request: CreateVolume) -> bool:
    return any(capability.block for capability in request.capabilities)


def _know_the_pool(wanted: Wish, layout: Layout) -> None:
    if wanted.pool is not None and all(wanted.pool != pool.name for site in layout.sites for pool in site.pools):
        raise _no_such_pool(wanted.pool, layout.sites)


def _no_such_pool(name: str, sites: Sequence[Site]) -> DriverError:
    known = sorted({pool.name for site in sites for pool in site.pools})
    return DriverError(Code.INVALID_ARGUMENT, f"unknown pool {name!r}: this driver has {', '.join(known)}")


def _taken(known: Volume, how: str) -> DriverError:
    return DriverError(Code.ALREADY_EXISTS, f"volume {known.name} already exists and {how}")


def _largest(candidates: Iterable[Room]) -> int:
    return max((room.size for room in candidates), default=0)


def _all(candidates: Sequence[Room]) -> str:
    """What there is, shortened where there is much of it."""
    shown = [f"{room.size} in pool {room.pool.name} at {_words(room.site.segments)}" for room in candidates[:5]]
    more = len(candidates) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more else shown)


def _words(segments: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(segments.items())) or "every node"
