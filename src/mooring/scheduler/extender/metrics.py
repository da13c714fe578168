"""What the extender counts about itself."""

import enum
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mooring.scheduler.extender.wire import VERBS
from mooring.scheduler.metrics import ATTEMPT_BUCKETS


class Outcome(enum.Enum):
    """How a call ended."""

    #: With a verdict, or the pod bound.
    ANSWERED = "answered"
    #: No node will do, or the pod was not bound.
    REFUSED = "refused"
    #: Without a verdict: not ready, not understood, not known yet.
    ERROR = "error"


class ExtenderMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "mooring_extender_calls_total",
            "Number of calls by kube-scheduler, by verb and result.",
            ["verb", "result"],
            registry=registry,
        )
        self._durations = Histogram(
            "mooring_extender_call_duration_seconds",
            "How long calls by kube-scheduler took, by verb. Of bind most is waiting for volumes.",
            ["verb"],
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        for verb in VERBS:
            self._durations.labels(verb)
            for outcome in Outcome:
                self._calls.labels(verb, outcome.value)
        self._last = Gauge(
            "mooring_extender_last_call_timestamp_seconds",
            "When kube-scheduler last called, in seconds since the epoch; 0 while it never has.",
            registry=registry,
        )
        self._registry = registry

    def called(self, verb: str, outcome: Outcome, seconds: float, *, at: float) -> None:
        self._calls.labels(verb, outcome.value).inc()
        self._durations.labels(verb).observe(seconds)
        self._last.set(at)

    def watch(self, *, unasked: Callable[[], float], under_way: Callable[[], float]) -> None:
        """Show what others count, counted when somebody looks."""
        Gauge(
            "mooring_extender_unasked_pods",
            "Number of pods that got a node without this replica having been asked about them, since it started.",
            registry=self._registry,
        ).set_function(unasked)
        Gauge(
            "mooring_extender_bindings",
            "Number of pods whose volumes are being bound.",
            registry=self._registry,
        ).set_function(under_way)
