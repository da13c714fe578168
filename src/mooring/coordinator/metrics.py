"""Metrics of the coordinator: held volumes of pods, and groups of pods with a record.

Both count how long volumes were held, in the same buckets, so that groups can be compared with single pods. What is
there now is counted at each scrape, so nothing has to be kept up to date in between.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mooring.volumes.holds import policy
from mooring.volumes.holds.group_record import GroupPhase

#: Seconds: from the second a healthy group takes to the ten minutes after which every hold ends.
HOLD_BUCKETS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200)


class HoldMetrics:
    def __init__(self, registry: CollectorRegistry, held: Callable[[], int]) -> None:
        """`held` counts the held volumes at each scrape."""
        now = Gauge("mooring_held_volumes", "Volumes held until their pod has all of its volumes.", registry=registry)
        now.set_function(held)
        self._committed = Counter(
            "mooring_held_volumes_committed_total", "Held volumes committed to their claims.", registry=registry
        )
        self._rolled_back = Counter(
            "mooring_held_volumes_rolled_back_total",
            "Held volumes rolled back unused, by reason.",
            ["reason"],
            registry=registry,
        )
        self._duration = Histogram(
            "mooring_volume_hold_duration_seconds",
            "How long volumes were held before they were committed or rolled back.",
            ["outcome"],
            buckets=HOLD_BUCKETS,
            registry=registry,
        )

    def committed(self, seconds: float) -> None:
        self._committed.inc()
        self._duration.labels("committed").observe(seconds)

    def rolled_back(self, reason: policy.RollbackReason, seconds: float) -> None:
        self._rolled_back.labels("".join(word.title() for word in reason.name.split("_"))).inc()
        self._duration.labels("rolled-back").observe(seconds)


class GroupMetrics:
    def __init__(self, registry: CollectorRegistry, phases: Callable[[], Iterable[GroupPhase]]) -> None:
        """`phases` are those of all records, at each scrape."""
        now = Gauge("mooring_groups", "Groups of pods with a record of held volumes.", ["phase"], registry=registry)
        for phase in GroupPhase:
            now.labels(phase.value).set_function(partial(_count, phases, phase))
        self._duration = Histogram(
            "mooring_group_hold_duration_seconds",
            "How long volumes of a group were held before they were committed or given up.",
            ["outcome"],
            buckets=HOLD_BUCKETS,
            registry=registry,
        )
        self._given_up = Counter(
            "mooring_groups_given_up_total",
            "Groups whose held volumes were rolled back.",
            ["reason"],
            registry=registry,
        )

    def committed(self, seconds: float) -> None:
        self._duration.labels("committed").observe(seconds)

    def given_up(self, reason: str, seconds: float) -> None:
        self._given_up.labels(reason).inc()
        self._duration.labels("given-up").observe(seconds)


def _count(phases: Callable[[], Iterable[GroupPhase]], phase: GroupPhase) -> int:
    return sum(each is phase for each in phases())
