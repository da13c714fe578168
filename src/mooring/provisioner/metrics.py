"""Metrics of the provisioner under external-provisioner's names, and driver calls that are timed and counted.

Unlike external-provisioner, a volume that exists already and a claim whose selected node was cleared count as neither
success nor failure.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mooring.clock import Clock
from mooring.csi.contract import Capacity, CreateVolume, DriverError, DriverVolume, ProvisioningService, Topology
from mooring.provisioner.capacity.objects import CapacityObjectIndex
from mooring.provisioner.provision.topology import Term
from mooring.provisioner.settings import spelled


class CapacityMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._goal = Gauge(
            "csistoragecapacities_desired_goal",
            "Number of CSIStorageCapacity objects that are supposed to be managed automatically.",
            registry=registry,
        )
        self._current = Gauge(
            "csistoragecapacities_desired_current",
            "Number of CSIStorageCapacity objects that exist and are supposed to be managed automatically.",
            registry=registry,
        )
        self._obsolete = Gauge(
            "csistoragecapacities_obsolete",
            "Number of CSIStorageCapacity objects that exist and will be deleted automatically.",
            registry=registry,
        )
        self._polled = Gauge(
            "mooring_capacity_last_poll_timestamp_seconds",
            "Time of the last complete GetCapacity poll of all segments and classes, in seconds since the epoch.",
            registry=registry,
        )

    def watch(self, index: CapacityObjectIndex) -> None:
        """Counted when the metrics are scraped."""
        self._goal.set_function(lambda: index.counts().goal)
        self._current.set_function(lambda: index.counts().current)
        self._obsolete.set_function(lambda: index.counts().obsolete)

    def polled(self, now: float) -> None:
        self._polled.set(now)


#: Upstream's for calls of the driver. Seconds.
CALL_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)


class ProvisionerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        claims, volumes = "controller_persistentvolumeclaim_provision", "controller_persistentvolume_delete"
        self.provisioned = Counter(
            f"{claims}_total",
            "Total number of persistent volumes provisioned succesfully. Broken down by storage class name.",
            ["class", "source"],
            registry=registry,
        )
        self.provision_failed = Counter(
            f"{claims}_failed_total",
            "Total number of persistent volume provision failed attempts. Broken down by storage class name.",
            ["class", "source"],
            registry=registry,
        )
        self.provision_duration = Histogram(
            f"{claims}_duration_seconds",
            "Latency in seconds to provision persistent volumes. Broken down by storage class name.",
            ["class", "source"],
            registry=registry,
        )
        self.deleted = Counter(
            f"{volumes}_total",
            "Total number of persistent volumes deleted succesfully. Broken down by storage class name.",
            ["class"],
            registry=registry,
        )
        self.delete_failed = Counter(
            f"{volumes}_failed_total",
            "Total number of persistent volume delete failed attempts. Broken down by storage class name.",
            ["class"],
            registry=registry,
        )
        self.delete_duration = Histogram(
            f"{volumes}_duration_seconds",
            "Latency in seconds to delete persistent volumes. Broken down by storage class name.",
            ["class"],
            registry=registry,
        )
        self.exhausted = Counter(
            "mooring_provision_out_of_capacity_total",
            "CreateVolume calls that failed with RESOURCE_EXHAUSTED.",
            ["class"],
            registry=registry,
        )
        self._calls = Histogram(
            "csi_sidecar_operations_seconds",
            "Container Storage Interface operation duration with gRPC error code status total",
            ["driver_name", "method_name", "grpc_status_code"],
            buckets=CALL_BUCKETS,
            registry=registry,
        )

    def called(self, driver: str, method: str, error: DriverError | None, seconds: float) -> None:
        status = "OK" if error is None else spelled(error.code)
        self._calls.labels(driver, f"/csi.v1.{method}", status).observe(seconds)


T = TypeVar("T")


class DriverCalls:
    def __init__(self, driver: ProvisioningService, name: str, metrics: ProvisionerMetrics, clock: Clock) -> None:
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
        topology = None if segment is None else Topology(dict(segment))
        call = self._driver.get_capacity(capabilities=(), parameters=parameters, accessible_from=topology)
        return await self._timed("GetCapacity", call)

    async def _timed(self, method: str, call: Awaitable[T]) -> T:
        begun = self._clock.monotonic()
        failure: DriverError | None = None
        try:
            return await call
        except DriverError as error:
            failure = error
            raise
        finally:
            self._metrics.called(self._name, f"Controller/{method}", failure, self._clock.monotonic() - begun)
