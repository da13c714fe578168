"""The driver as the provisioner calls it: every call timed and counted under external-provisioner's metric."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from mooring.clock import Clock
from mooring.csi.contract import Capacity, Controller, CreateVolume, DriverError, DriverVolume, Topology
from mooring.provisioner.metrics import ProvisionerMetrics
from mooring.provisioner.topology_terms import Term

T = TypeVar("T")


class DriverCalls:
    def __init__(self, driver: Controller, name: str, metrics: ProvisionerMetrics, clock: Clock) -> None:
        self._driver = driver
        self._metrics = metrics
        self._clock = clock
        self._name = name

    async def create_volume(self, request: CreateVolume, secrets: Mapping[str, str]) -> DriverVolume:
        return await self._timed("CreateVolume", self._driver.create_volume(request, secrets=secrets))

    async def delete_volume(self, volume_id: str, secrets: Mapping[str, str]) -> None:
        await self._timed("DeleteVolume", self._driver.delete_volume(volume_id, secrets=secrets))

    async def list_volumes(self) -> Sequence[DriverVolume]:
        return await self._timed("ListVolumes", self._driver.list_volumes())

    async def get_capacity(self, parameters: Mapping[str, str], segment: Term | None) -> Capacity:
        place = None if segment is None else Topology(dict(segment))
        call = self._driver.get_capacity(capabilities=(), parameters=parameters, accessible_from=place)
        return await self._timed("GetCapacity", call)

    async def _timed(self, method: str, call: Awaitable[T]) -> T:
        begun = self._clock.monotonic()
        problem: DriverError | None = None
        try:
            return await call
        except DriverError as error:
            problem = error
            raise
        finally:
            self._metrics.called(self._name, f"Controller/{method}", problem, self._clock.monotonic() - begun)
