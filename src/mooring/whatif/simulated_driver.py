"""CSI driver that provisions from reported capacity only, for drivers that are not part of the simulation.

Runs behind the real provisioner. Topology comes from CSINodes, free capacity from `drivers.SimulatedPools`; it mounts
nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn, Unpack

from mooring.api.views.storage import Volume
from mooring.csi import contract
from mooring.provisioner.provision.request import CLAIM_NAME, CLAIM_NAMESPACE
from mooring.whatif.drivers import PoolAllocation, SimulatedPools

CONTROLLER: Final = frozenset({contract.ControllerCapability.CREATE_DELETE_VOLUME})


class ReportedStorage:
    def __init__(
        self,
        name: str,
        pools: SimulatedPools,
        class_of: Callable[[str], str],
        changed: Callable[[PoolAllocation], None],
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
        self._volumes: dict[str, contract.DriverVolume] = {}
        #: By volume id.
        self._taken: dict[str, PoolAllocation] = {}
        for volume in volumes:
            source = volume.spec.csi
            if source is not None and source.driver == name:
                self._taken[source.volume_handle] = taken = pools.taken_by(volume)
                changed(pools.deduct_unreported(volume, taken))

    async def name(self) -> str:
        return self._name

    async def vendor_version(self) -> str:
        return ""

    async def plugin_capabilities(self) -> frozenset[str]:
        places = {contract.PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS} if self._topology else set()
        return frozenset({contract.PluginCapability.CONTROLLER_SERVICE, *places})

    async def probe(self) -> bool:
        return True

    async def controller_capabilities(self) -> frozenset[str]:
        return CONTROLLER

    async def create_volume(
        self, request: contract.CreateVolume, *, secrets: Mapping[str, str]
    ) -> contract.DriverVolume:
        known = self._volumes.get(request.name)
        if known is not None:
            return known
        parameters = request.parameters
        storage_class = self._class_of(f"{parameters[CLAIM_NAMESPACE]}/{parameters[CLAIM_NAME]}")
        places: Sequence[contract.Topology | None] = (None,)
        if request.accessibility is not None:
            places = request.accessibility.preferred or request.accessibility.requisite
        why = "the request names no topology"
        for place in places:
            taken = self._pools.take(storage_class, None if place is None else place.segments, request.required_bytes)
            if isinstance(taken, str):
                why = taken
                continue
            reachable = () if place is None else (place,)
            volume = contract.DriverVolume(request.name, request.required_bytes, accessible_from=reachable)
            self._volumes[request.name] = volume
            self._taken[volume.volume_id] = taken
            self._changed(taken)
            return volume
        raise contract.DriverError(contract.Code.RESOURCE_EXHAUSTED, f"cannot provision volume {request.name}: {why}")

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        self._volumes.pop(volume_id, None)
        taken = self._taken.pop(volume_id, None)
        if taken is not None:
            self._pools.give_back(taken)
            self._changed(taken)

    async def list_volumes(self) -> Sequence[contract.DriverVolume]:
        self._refuse("list_volumes")

    async def get_capacity(self, **request: Unpack[contract.CapacityRequest]) -> contract.Capacity:
        self._refuse("get_capacity")

    async def info(self) -> contract.NodeInfo:
        self._refuse("info")

    def _refuse(self, call: str) -> NoReturn:
        raise contract.DriverError(
            contract.Code.UNIMPLEMENTED, f"{self._name} is simulated and does not implement {call}"
        )
