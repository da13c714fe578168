"""CreateVolume and GetCapacity: parameters, and site, pool and size of a volume. Pure.

Errors have the codes that CSI defines, because callers act on them: after RESOURCE_EXHAUSTED another node is selected;
ALREADY_EXISTS and INVALID_ARGUMENT persist on retries.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from mooring.api.quantity import QuantityError, to_bytes
from mooring.csi.contract import AccessibilityRequirements, Capacity, Code, CreateVolume, DriverError, invalid
from mooring.hostpath.records import (
    DriverLayout,
    HostpathSettings,
    Pool,
    PoolKind,
    Site,
    VolumePhase,
    VolumeRecord,
    VolumeRecords,
)

KUBERNETES: Final = "csi.storage.k8s.io/"
#: Set by kubelets on NodePublishVolume when the volume is defined inside a pod.
EPHEMERAL: Final = "csi.storage.k8s.io/ephemeral"
#: Bytes of an inline volume that names no size; csi-driver-host-path's fixed 100 MiB.
INLINE_BYTES: Final = 100 << 20


class VolumeParameters(msgspec.Struct, frozen=True):
    """Parameters `pool` and `kind` of a class or an inline volume; None lets the driver choose."""

    pool: str | None = None
    kind: PoolKind | None = None


def parse_parameters(parameters: Mapping[str, str]) -> VolumeParameters:
    """Of a class. INVALID_ARGUMENT for unknown keys: a misspelt pool must not end on other disks."""
    return _parse(_own(parameters))


def parse_inline_parameters(attributes: Mapping[str, str]) -> tuple[VolumeParameters, int]:
    """Of an inline volume, with its size in bytes. Raises INVALID_ARGUMENT."""
    own = _own(attributes)
    text = own.pop("size", None)
    if text is None:
        return _parse(own), INLINE_BYTES
    try:
        size = to_bytes(text)
    except QuantityError as error:
        raise invalid(f"size {text!r} is not a quantity") from error
    if size <= 0:
        raise invalid(f"size {text!r} is not positive")
    return _parse(own), size


def _own(parameters: Mapping[str, str]) -> dict[str, str]:
    """Without Kubernetes' keys, which capacity publishers pass on, and without fstype."""
    return {
        key: value for key, value in parameters.items() if not key.startswith(KUBERNETES) and key.lower() != "fstype"
    }


def _parse(own: dict[str, str]) -> VolumeParameters:
    if strange := sorted(own.keys() - {"pool", "kind"}):
        raise invalid(f"unknown parameter {', '.join(strange)}: this driver has pool and kind")
    kind = own.get("kind")
    if kind is not None and kind not in PoolKind._value2member_map_:
        raise invalid(f"unknown kind {kind!r}: choose from {', '.join(PoolKind)}")
    return VolumeParameters(pool=own.get("pool"), kind=None if kind is None else PoolKind(kind))


class PoolCapacity(msgspec.Struct, frozen=True):
    """A candidate pool, and the largest volume of the kind that it can hold."""

    site: Site
    pool: Pool
    kind: PoolKind
    size: int


class DriverPools(NamedTuple):
    """The driver's pools at one moment, with the volumes in them."""

    layout: DriverLayout
    settings: HostpathSettings
    records: VolumeRecords
    #: Free bytes of the file system, for pools without a size.
    free: int = 0

    def free_bytes(self, pool: Pool, site: Site) -> int:
        """Unused bytes of the pool, at least 0."""
        if pool.size is None:
            return max(0, self.free)
        return max(0, pool.size - self.records.used(site.segments, pool.name))

    def capacities(self, sites: Iterable[Site], parameters: VolumeParameters) -> Iterator[PoolCapacity]:
        """In the order of the sites, then of their pools."""
        for site in sites:
            for pool in site.pools:
                if parameters.pool is None or parameters.pool == pool.name:
                    kind = parameters.kind or pool.kind
                    yield PoolCapacity(site, pool, kind, self.free_bytes(pool, site) // kind.copies)


def capacity(pools: DriverPools, parameters: Mapping[str, str], topology: Mapping[str, str] | None) -> Capacity:
    try:
        requested = parse_parameters(parameters)
    except DriverError:
        return Capacity(0, 0)
    sites = pools.layout.sites if topology is None else pools.layout.reachable_from(topology)
    found = [candidate.size for candidate in pools.capacities(sites, requested)]
    largest = min(pools.settings.max_volume_bytes, max(found, default=0))
    return Capacity(available_bytes=sum(found), maximum_volume_bytes=largest)


#: Bytes of a volume without a requested size, as in TopoLVM.
DEFAULT_BYTES: Final = 1 << 30


def existing_volume(request: CreateVolume, records: VolumeRecords) -> VolumeRecord | None:
    """The volume of an earlier equal request, None without one. ALREADY_EXISTS: the name has another volume."""
    parameters = parse_parameters(request.parameters)
    known = records.named(request.name)
    if known is None:
        return None
    if known.phase is VolumePhase.DELETING:
        raise DriverError(Code.ABORTED, f"volume {known.volume_id} of that name is being deleted")
    if known.size < request.required_bytes or 0 < request.limit_bytes < known.size:
        raise _taken(known, f"has {known.size} bytes")
    if known.block != _block(request):
        raise _taken(known, "is a block volume" if known.block else "is a mount volume")
    if parameters != VolumeParameters(known.requested_pool, known.requested_kind):
        raise _taken(known, "was created with other parameters")
    site = Site(known.segments, ())
    if request.accessibility is not None and not any(map(site.reachable_from, _places(request.accessibility))):
        raise _taken(known, f"is at {_words(known.segments)}")
    return known


def has_same_parameters(volume: VolumeRecord, parameters: Mapping[str, str]) -> bool:
    """Whether these parameters equal those that the volume was created with."""
    try:
        return parse_parameters(parameters) == VolumeParameters(volume.requested_pool, volume.requested_kind)
    except DriverError:
        return False


def place_volume(request: CreateVolume, pools: DriverPools, *, volume_id: str) -> VolumeRecord:
    """The record of a new volume."""
    parameters = parse_parameters(request.parameters)
    _check_pool(parameters, pools.layout.pool_names)
    size = request.required_bytes or request.limit_bytes or DEFAULT_BYTES
    candidate = _find_capacity(size, parameters, _sites(request.accessibility, parameters, pools), pools)
    return _new_record(candidate, parameters, size, volume_id, request)


def place_inline_volume(
    context: Mapping[str, str], segments: Mapping[str, str], pools: DriverPools, *, volume_id: str
) -> VolumeRecord:
    """The record of an inline volume on the pod's node, which has these segments."""
    parameters, size = parse_inline_parameters(context)
    sites = pools.layout.reachable_from(segments)
    _check_pool(parameters, {pool.name for site in sites for pool in site.pools})
    candidate = _find_capacity(size, parameters, sites, pools)
    return _new_record(candidate, parameters, size, volume_id, None)


def _new_record(
    candidate: PoolCapacity, parameters: VolumeParameters, size: int, volume_id: str, request: CreateVolume | None
) -> VolumeRecord:
    """An inline volume has no request."""
    return VolumeRecord(
        volume_id=volume_id,
        name="" if request is None else request.name,
        size=size,
        block=request is not None and _block(request),
        pool=candidate.pool.name,
        kind=candidate.kind,
        segments=candidate.site.segments,
        requested_pool=parameters.pool,
        requested_kind=parameters.kind,
        phase=VolumePhase.CREATING,
        inline=request is None,
    )


def _find_capacity(size: int, parameters: VolumeParameters, sites: Iterable[Site], pools: DriverPools) -> PoolCapacity:
    """The first candidate that is large enough. Raises OUT_OF_RANGE and RESOURCE_EXHAUSTED."""
    most = pools.settings.max_volume_bytes
    if size > most:
        raise DriverError(Code.OUT_OF_RANGE, f"requested capacity {size} exceeds maximum allowed {most}")
    candidates = []
    for candidate in pools.capacities(sites, parameters):
        if candidate.size >= size:
            return candidate
        candidates.append(candidate)
    if not candidates:
        raise DriverError(Code.RESOURCE_EXHAUSTED, "no pool is accessible from the requested topology")
    raise DriverError(
        Code.RESOURCE_EXHAUSTED, f"requested capacity {size} exceeds remaining capacity: {_all(candidates)}"
    )


def _sites(
    accessibility: AccessibilityRequirements | None, parameters: VolumeParameters, pools: DriverPools
) -> Iterator[Site]:
    """In order of preference; without requirements, those with the most free capacity first."""
    if accessibility is None or not (accessibility.preferred or accessibility.requisite):
        yield from sorted(pools.layout.sites, key=lambda site: -_largest(pools.capacities((site,), parameters)))
        return
    # Lazily: the first usually fits, and there may be thousands.
    seen: set[int] = set()
    for place in _places(accessibility):
        for site in pools.layout.reachable_from(place):
            if id(site) not in seen:
                seen.add(id(site))
                yield site


def _places(accessibility: AccessibilityRequirements) -> Iterator[Mapping[str, str]]:
    """Preferred topologies first."""
    return (topology.segments for topology in itertools.chain(accessibility.preferred, accessibility.requisite))


def _block(request: CreateVolume) -> bool:
    return any(capability.block for capability in request.capabilities)


def _check_pool(parameters: VolumeParameters, known: Collection[str]) -> None:
    if parameters.pool is not None and parameters.pool not in known:
        raise invalid(f"unknown pool {parameters.pool!r}: this driver has {', '.join(sorted(known))}")


def _taken(known: VolumeRecord, how: str) -> DriverError:
    return DriverError(Code.ALREADY_EXISTS, f"volume {known.name} already exists and {how}")


def _largest(candidates: Iterable[PoolCapacity]) -> int:
    return max((candidate.size for candidate in candidates), default=0)


def _all(candidates: Sequence[PoolCapacity]) -> str:
    """The first five candidates, and the number of the others."""
    shown = [
        f"{candidate.size} in pool {candidate.pool.name} at {_words(candidate.site.segments)}"
        for candidate in candidates[:5]
    ]
    more = len(candidates) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more else shown)


def _words(segments: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(segments.items())) or "every node"
