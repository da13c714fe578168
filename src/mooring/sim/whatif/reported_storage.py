"""A CSI driver that nobody runs here: makes volumes out of nothing but what its CSIStorageCapacity objects report.

Stands behind the real provisioner for every class whose driver is not part of the simulation. Where volumes can be
reached from follows from what the CSINodes say of the driver; whether there is room, from `pools`. It mounts nothing:
`kubelets` play the nodes without asking drivers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

from mooring.api.views.volume import Volume
from mooring.csi.contract import (
    Capacity,
    Code,
    ControllerCapability,
    CreateVolume,
    Driver,
    DriverError,
    DriverVolume,
    NodeInfo,
    PluginCapability,
    Topology,
    VolumeCapability,
)
from mooring.provisioner.class_parameters import CLAIM_NAME, CLAIM_NAMESPACE
from mooring.sim.whatif.pools import Pools, Taken

CONTROLLER: Final = frozenset({ControllerCapability.CREATE_DELETE_VOLUME})


class ReportedStorage:
    def __init__(
        self,
        name: str,
        pools: Pools,
        class_of: Callable[[str], str],
        changed: Callable[[Taken], None],
        *,
        topology: bool,
        volumes: Iterable[Volume] = (),
    ) -> None:
        """`class_of` is the class of a claim by its key; `changed` hears what was taken or given back. Of `volumes`,
        which were there before, those of this driver give their room back when they go."""
        self._name = name
        self._pools = pools
        self._class_of = class_of
        self._changed = changed
        self._topology = topology
        self._volumes: dict[str, DriverVolume] = {}
        #: By volume id.
        self._taken: dict[str, Taken] = {}
        for volume in volumes:
            source = volume.spec.csi
            if source is not None and source.driver == name:
                self._taken[source.volume_handle] = taken = pools.taken_by(volume)
                changed(pools.catch_up(volume, taken))

    async def name(self) -> str:
        return self._name

    async def vendor_version(self) -> str:
        return ""

    async def plugin_capabilities(self) -> frozenset[str]:
        places = {PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS} if self._topology else set()
        return frozenset({PluginCapability.CONTROLLER_SERVICE, *places})

    async def probe(self) -> bool:
        return True

    async def controller_capabilities(self) -> frozenset[str]:
        return CONTROLLER

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        known = self._volumes.get(request.name)
        if known is not None:
            return known
        parameters = request.parameters
        storage_class = self._class_of(f"{parameters[CLAIM_NAMESPACE]}/{parameters[CLAIM_NAME]}")
        places: Sequence[Topology | None] = (None,)
        if request.accessibility is not None:
            places = request.accessibility.preferred or request.accessibility.requisite
        why = "it is wanted nowhere"
        for place in places:
            taken = self._pools.take(storage_class, None if place is None else place.segments, request.required_bytes)
            if isinstance(taken, str):
                why = taken
                continue
            reachable = () if place is None else (place,)
            volume = DriverVolume(request.name, request.required_bytes, accessible_from=reachable)
            self._volumes[request.name] = volume
            self._taken[volume.volume_id] = taken
            self._changed(taken)
            return volume
        raise DriverError(Code.RESOURCE_EXHAUSTED, f"cannot make volume {request.name}: {why}")

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        self._volumes.pop(volume_id, None)
        taken = self._taken.pop(volume_id, None)
        if taken is not None:
            self._pools.give_back(taken)
            self._changed(taken)

    async def controller_publish(
        self,
        volume_id: str,
        *,
        node_id: str,
        capability: VolumeCapability,
        read_only: bool = False,
        context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> Mapping[str, str]:
        self._refuse("controller_publish")

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        self._refuse("controller_unpublish")

    async def validate_capabilities(
        self,
        volume_id: str,
        *,
        capabilities: Sequence[VolumeCapability],
        context: Mapping[str, str] = {},
        parameters: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> str | None:
        self._refuse("validate_capabilities")

    async def list_volumes(self) -> Sequence[DriverVolume]:
        self._refuse("list_volumes")

    async def get_volume(self, volume_id: str) -> DriverVolume:
        self._refuse("get_volume")

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity:
        self._refuse("get_capacity")

    async def node_capabilities(self) -> frozenset[str]:
        return frozenset()

    async def info(self) -> NodeInfo:
        self._refuse("info")

    async def stage(
        self,
        volume_id: str,
        *,
        staging_target: str,
        capability: VolumeCapability,
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        self._refuse("stage")

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        self._refuse("unstage")

    async def publish(
        self,
        volume_id: str,
        *,
        target: str,
        capability: VolumeCapability,
        read_only: bool,
        staging_target: str = "",
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        self._refuse("publish")

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        self._refuse("unpublish")

    def _refuse(self, call: str) -> NoReturn:
        raise DriverError(Code.UNIMPLEMENTED, f"{self._name} is only played: it has no {call}")


def _contract(driver: ReportedStorage) -> Driver:
    return driver
