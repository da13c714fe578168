"""Metrics of the extender, and the check whether kube-scheduler calls it at all. Pure."""

import enum
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mooring.api.views.pods import Pod
from mooring.scheduler.extender.protocol import VERBS
from mooring.scheduler.metrics import ATTEMPT_BUCKETS

#: Pods of calls whose outcome is not known yet: more than kube-scheduler schedules concurrently.
MAX_CACHED_PODS: Final = 4096


class CallMonitor:
    """Detects an extender that is running but missing from kube-scheduler's configuration.

    Every pod of the given schedulers must have been in a call before it is bound. A single one may have been in a call
    to another replica; when pods are bound and no call has come for long, the configuration is wrong.
    """

    def __init__(self, names: Collection[str], *, within: float, now: float) -> None:
        """`names` are schedulerNames; `within` the maximum seconds between two calls."""
        self._names = frozenset(names)
        self._within = within
        self._last = now
        self._called = False
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._since = 0
        #: Pods that were bound without a call.
        self.unasked = 0

    def record_call(self, uid: str, now: float) -> bool:
        """Whether this is the first call, or the first after an idle period."""
        is_first = not self._called or now - self._last >= self._within
        self._last, self._called, self._since = now, True, 0
        self._asked[uid] = None
        self._asked.move_to_end(uid)
        if len(self._asked) > MAX_CACHED_PODS:
            self._asked.popitem(last=False)
        return is_first

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """Pods that were already bound when first observed do not count."""
        if before is None or before.spec.node_name:
            return
        if after is None:
            self._asked.pop(before.uid, None)
        elif after.spec.node_name and after.spec.scheduler_name in self._names:
            if after.uid in self._asked:
                del self._asked[after.uid]
            else:
                self.unasked += 1
                self._since += 1

    def idle_warning(self, now: float) -> str | None:
        """What is probably wrong; None if nothing is."""
        if not self._since or now - self._last < self._within:
            return None
        since = f"for {now - self._last:.0f} s" if self._called else "yet"
        return (
            f"no call from kube-scheduler {since}, but {self._since} pods of {', '.join(sorted(self._names))} "
            "were bound: check that its configuration lists this extender, and whether another replica is called"
        )


class CallOutcome(enum.Enum):
    #: A result, or the pod was bound.
    ANSWERED = "answered"
    #: No node fits, or the pod was not bound.
    REFUSED = "refused"
    #: No result: not ready, malformed call, or pod not cached.
    ERROR = "error"


class ExtenderMetrics:
    def __init__(
        self, registry: CollectorRegistry, *, unasked: Callable[[], float], bindings: Callable[[], float]
    ) -> None:
        """`unasked` and `bindings` are called at each scrape."""
        self._calls = Counter(
            "mooring_extender_calls_total",
            "Number of calls by kube-scheduler, by verb and result.",
            ["verb", "result"],
            registry=registry,
        )
        self._durations = Histogram(
            "mooring_extender_call_duration_seconds",
            "Duration of calls by kube-scheduler, by verb. bind includes waiting for volumes.",
            ["verb"],
            buckets=ATTEMPT_BUCKETS,
            registry=registry,
        )
        for verb in VERBS:
            self._durations.labels(verb)
            for outcome in CallOutcome:
                self._calls.labels(verb, outcome.value)
        self._last = Gauge(
            "mooring_extender_last_call_timestamp_seconds",
            "Time of the last call by kube-scheduler, in seconds since the epoch; 0 before the first.",
            registry=registry,
        )
        Gauge(
            "mooring_extender_unasked_pods",
            "Pods scheduled without an extender call to this replica since start.",
            registry=registry,
        ).set_function(unasked)
        Gauge(
            "mooring_extender_bindings", "Number of pods whose volumes are being bound.", registry=registry
        ).set_function(bindings)

    def called(self, verb: str, outcome: CallOutcome, seconds: float, *, at: float) -> None:
        self._calls.labels(verb, outcome.value).inc()
        self._durations.labels(verb).observe(seconds)
        self._last.set(at)
