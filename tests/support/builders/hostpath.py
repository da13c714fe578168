"""Hostpath drivers in memory, their capabilities, and CSI requests."""

from collections.abc import Mapping
from random import Random

from mooring.csi.contract import AccessibilityRequirements, AccessMode, CreateVolume, Topology, VolumeCapability
from mooring.hostpath.files import Backing
from mooring.hostpath.records import DriverLayout, HostpathSettings, Pool, one_node
from mooring.hostpath.state_file import MemoryState, StateStore
from mooring.hostpath.volume_store import VolumeStore

GIB = 1 << 30
MOUNT = VolumeCapability(AccessMode.SINGLE_NODE_WRITER)
BLOCK = VolumeCapability(AccessMode.SINGLE_NODE_WRITER, block=True)
SHARED = VolumeCapability(AccessMode.MULTI_NODE_MULTI_WRITER)
ALONE = VolumeCapability(AccessMode.SINGLE_NODE_SINGLE_WRITER)


def a_pool(name: str = "default", size: int = 100 * GIB) -> Pool:
    return Pool(name, size)


def a_layout(*pools: Pool, node: str = "node-1", segments: Mapping[str, str] = {}) -> DriverLayout:
    return one_node(node, pools=pools or (a_pool(),), segments=segments)


async def a_volume_store(
    layout: DriverLayout | None = None,
    *,
    settings: HostpathSettings | None = None,
    store: StateStore | None = None,
    backing: Backing | None = None,
    seed: int = 1,
) -> VolumeStore:
    volume_store = VolumeStore(
        layout or a_layout(),
        settings or HostpathSettings(version="1"),
        store or MemoryState(),
        backing or Backing(),
        chance=Random(seed),
    )
    await volume_store.open()
    return volume_store


def a_request(
    name: str = "pvc-1",
    size: int = GIB,
    *,
    limit: int = 0,
    capability: VolumeCapability = MOUNT,
    parameters: Mapping[str, str] = {},
    preferred: tuple[Mapping[str, str], ...] = (),
    requisite: tuple[Mapping[str, str], ...] = (),
) -> CreateVolume:
    places = AccessibilityRequirements(
        requisite=tuple(Topology(segments) for segments in requisite or preferred),
        preferred=tuple(Topology(segments) for segments in preferred),
    )
    return CreateVolume(
        name=name,
        required_bytes=size,
        limit_bytes=limit,
        capabilities=(capability,),
        parameters=parameters,
        accessibility=places if requisite or preferred else None,
    )
