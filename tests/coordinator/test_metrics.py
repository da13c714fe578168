"""What a coordinator counts."""

from prometheus_client import CollectorRegistry

from mooring.coordinator.metrics import HoldMetrics
from mooring.volumes.holds.verdicts import Reason


def test_holds_are_counted_by_what_became_of_them() -> None:
    registry = CollectorRegistry()
    metrics = HoldMetrics(registry, lambda: 3)
    metrics.committed(2.0)
    metrics.rolled_back(Reason.SIBLING_FAILED, 11.0)
    metrics.rolled_back(Reason.SIBLING_FAILED, 12.0)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("mooring_held_volumes") == 3
    assert value("mooring_held_volumes_committed_total") == 1
    assert value("mooring_held_volumes_rolled_back_total", reason="SiblingFailed") == 2
    assert value("mooring_volume_hold_duration_seconds_sum", outcome="rolled-back") == 23
    assert value("mooring_volume_hold_duration_seconds_bucket", outcome="committed", le="2.5") == 1
