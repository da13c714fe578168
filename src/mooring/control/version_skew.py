"""Publishes the ComponentInfo of this process, and reports processes that do not match it.

A report is an event on the other process's Lease, a log line and a gauge; nothing is rejected, since processes differ
during an upgrade. It polls: a watch of Leases would deliver the heartbeats of every node.
"""

from functools import partial
from typing import Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Gauge

from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.times import from_time, to_micro_time
from mooring.api.views.core import Lease
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.component_info import (
    LABEL,
    LEASE_DURATION_SECONDS,
    RENEW_SECONDS,
    ComponentInfo,
    clock_skew,
    read_component_info,
    skews,
)
from mooring.control.election import LEASE_NAMESPACE
from mooring.control.workqueue import repeat

REASON: Final = "ComponentSkew"
#: Of processes that do not publish themselves: a thousand of them send less than two requests a second.
COMPARE_INTERVAL_SECONDS: Final = 600.0

log = structlog.get_logger(__name__)


class _Observation(NamedTuple):
    """State of another process's Lease."""

    renewed: str | None
    #: When this renewal was first observed, monotonic.
    since: float
    #: Wall times of the polls before and after the renewal; None at the first poll.
    between: tuple[float, float] | None


class VersionSkewMonitor:
    name = "skew-watch"

    def __init__(
        self,
        context: Context,
        mine: ComponentInfo,
        *,
        namespace: str = LEASE_NAMESPACE,
        announces: bool = True,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """`announces` is False for processes that run on every node: they only compare, seldom, and log."""
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._report = context.internal_error
        self._mine = mine
        self._namespace = namespace
        self._announces = announces
        self._seen: dict[str, _Observation] = {}
        #: Wall time of the last comparison.
        self._compared_at: float | None = None
        #: Problems already reported.
        self._reported: set[str] = set()
        self._last_error = ""
        self._gauge = Gauge(
            "mooring_component_skew",
            "Version, feature-gate and clock skews with another control-plane process, by process.",
            ["process"],
            registry=registry if registry is not None else CollectorRegistry(),
        )
        self.ready = False

    async def run(self) -> None:
        self.ready = True
        pause = partial(self._clock.sleep, RENEW_SECONDS if self._announces else COMPARE_INTERVAL_SECONDS)
        await repeat(self._run_once, pause, name=self.name, report=self._report)

    async def _run_once(self) -> None:
        try:
            if self._announces:
                await self._announce()
            await self._compare()
        except (ApiError, Unreachable) as error:
            if str(error) != self._last_error:
                log.warning("component skew not checked", error=str(error))
            self._last_error = str(error)
        else:
            self._last_error = ""

    async def _announce(self) -> None:
        body = self._mine.body(now=to_micro_time(self._clock.now()))
        try:
            await self._client.patch(LEASE, self._mine.lease, MergePatch(body), namespace=self._namespace)
        except NotFound:
            await self._client.create(LEASE, body, namespace=self._namespace)

    async def _compare(self) -> None:
        found: set[str] = set()
        for lease in (await self._client.list(LEASE, namespace=self._namespace, labels=LABEL)).items:
            theirs = read_component_info(lease)
            if theirs is None or theirs.process == self._mine.process:
                continue
            problems = (
                [*skews(self._mine, theirs), *self._clocks(lease.name, theirs)] if self._is_current(lease) else []
            )
            self._gauge.labels(theirs.process).set(len(problems))
            for problem in problems:
                found.add(problem)
                if problem not in self._reported:
                    log.warning("component skew detected", reason=problem)
                    if self._announces:
                        self._recorder.record(lease, LEASE, "Warning", REASON, problem)
        self._reported = found
        self._compared_at = self._clock.now()

    def _is_current(self, lease: Lease) -> bool:
        """Whether the Lease was renewed within its duration, by this process's clock."""
        known, now = self._seen.get(lease.name), self._clock.monotonic()
        if known is None or known.renewed != lease.spec.renew_time:
            between = None if known is None or self._compared_at is None else (self._compared_at, self._clock.now())
            known = self._seen[lease.name] = _Observation(lease.spec.renew_time, now, between)
        return now - known.since < LEASE_DURATION_SECONDS

    def _clocks(self, lease: str, theirs: ComponentInfo) -> list[str]:
        seen = self._seen[lease]
        if seen.renewed is None or seen.between is None:
            return []
        apart = clock_skew(self._mine.process, theirs.process, renewed=from_time(seen.renewed), between=seen.between)
        return [apart] if apart else []
