"""A minimal driver that satisfies the CSI contract: volumes in a dictionary, one pool, one node."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mooring.csi.contract import (
    Capacity,
    Code,
    ControllerCapability,
    CreateVolume,
    Driver,
    DriverError,
    DriverVolume,
    NodeInfo,
    Topology,
    VolumeCapability,
)

Strings = Mapping[str, str]
_NOTHING: Final[Strings] = MappingProxyType({})


class MinimalCsiDriver:
    def __init__(self, *, size: int = 100) -> None:
        self._size = size
        self._by_name: dict[str, DriverVolume] = {}
        #: All calls, in order.
        self.calls: list[str] = []

    async def name(self) -> str:
        return "pocket.example.com"

    async def vendor_version(self) -> str:
        return "1"

    async def plugin_capabilities(self) -> frozenset[str]:
        return frozenset()

    async def probe(self) -> bool:
        return True

    async def controller_capabilities(self) -> frozenset[str]:
        return frozenset(ControllerCapability)

    async def create_volume(self, request: CreateVolume, *, secrets: Strings) -> DriverVolume:
        self.calls.append(f"create {request.name}")
        if request.name not in self._by_name:
            if request.required_bytes > self._left:
                raise DriverError(Code.RESOURCE_EXHAUSTED, "no capacity left")
            self._by_name[request.name] = DriverVolume(f"id-{request.name}", request.required_bytes)
        return self._by_name[request.name]

    async def delete_volume(self, volume_id: str, *, secrets: Strings) -> None:
        self.calls.append(f"delete {volume_id}")
        self._by_name.pop(volume_id.removeprefix("id-"), None)

    async def controller_publish(
        self,
        volume_id: str,
        *,
        node_id: str,
        capability: VolumeCapability,
        read_only: bool = False,
        context: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> Strings:
        self.calls.append(f"attach {volume_id}")
        return {"device": "1"}

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Strings = _NOTHING) -> None:
        self.calls.append(f"detach {volume_id}")

    async def validate_capabilities(
        self,
        volume_id: str,
        *,
        capabilities: Sequence[VolumeCapability],
        context: Strings = _NOTHING,
        parameters: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> str | None:
        return None

    async def list_volumes(self) -> Sequence[DriverVolume]:
        return sorted(self._by_name.values(), key=lambda volume: volume.volume_id)

    async def get_volume(self, volume_id: str) -> DriverVolume:
        return self._by_name[volume_id.removeprefix("id-")]

    async def get_capacity(
        self, *, capabilities: Sequence[VolumeCapability], parameters: Strings, accessible_from: Topology | None
    ) -> Capacity:
        return Capacity(self._left)

    async def node_capabilities(self) -> frozenset[str]:
        return frozenset()

    async def info(self) -> NodeInfo:
        return NodeInfo("node-1")

    async def stage(
        self,
        volume_id: str,
        *,
        staging_target: str,
        capability: VolumeCapability,
        context: Strings = _NOTHING,
        publish_context: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> None:
        self.calls.append(f"stage {volume_id}")

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        self.calls.append(f"unstage {volume_id}")

    async def publish(
        self,
        volume_id: str,
        *,
        target: str,
        capability: VolumeCapability,
        read_only: bool,
        staging_target: str = "",
        context: Strings = _NOTHING,
        publish_context: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> None:
        self.calls.append(f"publish {volume_id}")

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        self.calls.append(f"unpublish {volume_id}")

    @property
    def _left(self) -> int:
        return self._size - sum(volume.capacity_bytes for volume in self._by_name.values())


_contract: type[Driver] = MinimalCsiDriver
