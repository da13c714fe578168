"""The provisioner's own metrics, under external-provisioner's names.

Outcomes that are none (a volume that exists already, a claim sent back to the scheduler) count as neither success nor
failure; upstream counts them as failures.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.csi.contract import DriverError
from mooring.provisioner.attempt import spelled

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
            "Attempts that failed because the driver had no room where the volume was wanted.",
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
