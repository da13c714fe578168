"""What a coordinator counts: volumes held now, what became of the others, and how long that took."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mooring.volumes.holds.verdicts import Reason

#: Seconds: from the second a healthy group takes to the ten minutes after which every hold ends.
HOLD_BUCKETS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200)
COMMITTED: Final = "committed"
ROLLED_BACK: Final = "rolled-back"


class HoldMetrics:
    def __init__(self, registry: CollectorRegistry, held: Callable[[], int]) -> None:
        """`held` counts the volumes that are held when somebody asks."""
        now = Gauge(
            "mooring_held_volumes",
            "Volumes that are held until their pod has all of its volumes.",
            registry=registry,
        )
        now.set_function(held)
        self._committed = Counter(
            "mooring_held_volumes_committed_total",
            "Held volumes that were given to their claims.",
            registry=registry,
        )
        self._rolled_back = Counter(
            "mooring_held_volumes_rolled_back_total",
            "Held volumes that were given up before anybody used them. Broken down by reason.",
            ["reason"],
            registry=registry,
        )
        self._duration = Histogram(
            "mooring_volume_hold_duration_seconds",
            "How long volumes were held before they were given or given up.",
            ["outcome"],
            buckets=HOLD_BUCKETS,
            registry=registry,
        )

    def committed(self, seconds: float) -> None:
        self._committed.inc()
        self._duration.labels(COMMITTED).observe(seconds)

    def rolled_back(self, reason: Reason, seconds: float) -> None:
        self._rolled_back.labels("".join(word.title() for word in reason.name.split("_"))).inc()
        self._duration.labels(ROLLED_BACK).observe(seconds)
