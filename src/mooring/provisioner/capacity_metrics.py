"""Metrics of the capacity publisher: upstream's three counts of objects, and when the driver was last asked in full."""

from prometheus_client import CollectorRegistry, Gauge

from mooring.provisioner.capacity_ledger import Ledger


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
            "When the driver had last answered for every segment and class, in seconds since the epoch.",
            registry=registry,
        )

    def watch(self, ledger: Ledger) -> None:
        """Counts are taken when somebody asks for them."""
        self._goal.set_function(lambda: ledger.figures().goal)
        self._current.set_function(lambda: ledger.figures().current)
        self._obsolete.set_function(lambda: ledger.figures().obsolete)

    def polled(self, now: float) -> None:
        self._polled.set(now)
