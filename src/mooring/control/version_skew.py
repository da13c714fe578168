"""Announces this instance, holds back features that another instance lacks, and reports processes that do not match.

A report is an event on the other process's Lease, a log line and a gauge; nothing is rejected, since processes differ
during an upgrade. It polls: a watch of Leases would deliver the heartbeats of every node.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Gauge

from mooring.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from mooring.api.kinds import LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.times import from_time, to_micro_time
from mooring.api.views.core import Lease
from mooring.client.contract import Unreachable
from mooring.clock import set_within
from mooring.control.component import Context
from mooring.control.component_info import (
    INSTANCE,
    LABEL,
    LEASE_DURATION_SECONDS,
    ComponentInfo,
    clock_skew,
    instances,
    lacking,
    read_component_info,
    renew_seconds,
    skews,
)
from mooring.control.election import LEASE_NAMESPACE
from mooring.control.feature_gates import GATES, Gate
from mooring.control.workqueue import repeat

REASON: Final = "ComponentSkew"
#: Of processes that do not publish themselves: a thousand of them send less than two requests a second.
COMPARE_INTERVAL_SECONDS: Final = 600.0
#: Until the announcements were read for the first time, which components wait for.
FIRST_RETRY_SECONDS: Final = 1.0
#: Of the removal of the own announcement at the end.
END_SECONDS: Final = 2.0
#: Instance of a process that has only one at a time.
ONLY: Final = "only"

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
        instance: str = ONLY,
        seconds: int = LEASE_DURATION_SECONDS,
        leads: Callable[[], bool] = lambda: True,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """`announces` is False for processes that run on every node: they only compare, seldom, and log. `instance` is
        unique among those of the process; its announcement counts for `seconds`. Only the one that `leads` reports."""
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._mine = mine
        self._namespace = namespace
        self._announces = announces
        self._instance = instance
        self._seconds = seconds
        self._leads = leads
        self._seen: dict[str, _Observation] = {}
        #: Keys of the current comparison.
        self._looked_at: set[str] = set()
        #: Wall time of the last comparison.
        self._compared_at: float | None = None
        #: Problems already reported.
        self._reported: set[str] = set()
        self._lacking: dict[Gate, str] = {}
        self._last_error = ""
        self._wakeup = asyncio.Event()
        #: Set after the first comparison: from then on it is known which features are held back.
        self.compared = asyncio.Event()
        registry = registry if registry is not None else CollectorRegistry()
        self._gauge = Gauge(
            "mooring_component_skew",
            "Version, feature-gate and clock skews with another control-plane process, by process.",
            ["process"],
            registry=registry,
        )
        self._held_back = Gauge(
            "mooring_feature_held_back",
            "1 while a feature is not used because an instance of a component that takes part does not announce it.",
            ["feature"],
            registry=registry,
        )
        self.ready = False

    async def run(self) -> None:
        self.ready = True
        try:
            await repeat(self._run_once, self._pause, name=self.name, report=self._context.internal_error)
        finally:
            await self._withdraw()

    def wake(self) -> None:
        """Announce at once: this instance leads now."""
        self._wakeup.set()

    async def _pause(self) -> None:
        seconds = renew_seconds(self._seconds) if self._announces else COMPARE_INTERVAL_SECONDS
        if not self.compared.is_set():
            seconds = FIRST_RETRY_SECONDS
        await set_within(self._wakeup, seconds, self._clock)
        self._wakeup.clear()

    async def _run_once(self) -> None:
        try:
            if self._announces:
                await self._announce()
            await self._compare()
        except Forbidden as error:
            # The permission may be granted later; until then other instances are not known, as in older versions.
            self._log_error(error)
            self._hold_back({})
        except (ApiError, Unreachable) as error:
            self._log_error(error)
        else:
            self._last_error = ""

    def _log_error(self, error: Exception) -> None:
        if str(error) != self._last_error:
            log.warning("component skew not checked", error=str(error))
        self._last_error = str(error)

    async def _announce(self) -> None:
        now, seconds = to_micro_time(self._clock.now()), self._seconds
        body = (
            self._mine.body(now=now, seconds=seconds, instance=self._instance)
            if self._leads()
            else self._mine.instance_body(self._instance, now=now, seconds=seconds)
        )
        patch = partial(self._client.patch, LEASE, self._mine.lease, MergePatch(body), namespace=self._namespace)
        try:
            await patch()
        except NotFound:
            try:
                await self._client.create(LEASE, body, namespace=self._namespace)
            except AlreadyExists:
                await patch()

    async def _withdraw(self) -> None:
        """Best effort: others wait until the announcement expires."""
        if not self._announces:
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._remove([self._instance])
        except (ApiError, Unreachable, TimeoutError) as error:
            log.info("announcement not removed", error=str(error))

    async def _remove(self, names: Sequence[str]) -> None:
        body = {"metadata": {"annotations": {f"{INSTANCE}{name}": None for name in names}}}
        await self._client.patch(LEASE, self._mine.lease, MergePatch(body), namespace=self._namespace)

    async def _compare(self) -> None:
        found: set[str] = set()
        others: list[ComponentInfo] = []
        expired: list[str] = []
        for lease in (await self._client.list(LEASE, namespace=self._namespace, labels=LABEL)).items:
            for each in instances(lease):
                if (own := each.info.process == self._mine.process) and each.name == self._instance:
                    continue
                if self._is_current(each.key, each.renewed, each.seconds):
                    others.append(each.info)
                elif own and each.name:
                    expired.append(each.name)
            theirs = read_component_info(lease)
            if theirs is not None and theirs.process != self._mine.process:
                found |= self._report(lease, theirs)
        self._seen = {key: self._seen[key] for key in self._looked_at}
        self._looked_at = set()
        self._reported = found
        self._compared_at = self._clock.now()
        self._hold_back(lacking(self._mine, others))
        if expired and self._announces:
            await self._remove(expired)

    def _report(self, lease: Lease, theirs: ComponentInfo) -> set[str]:
        """Report and return the problems with a process."""
        seconds = lease.spec.lease_duration_seconds or LEASE_DURATION_SECONDS
        current = self._is_current(lease.name, lease.spec.renew_time, seconds)
        problems = [*skews(self._mine, theirs), *self._clocks(lease.name, theirs)] if current else []
        self._gauge.labels(theirs.process).set(len(problems))
        for problem in problems:
            if problem not in self._reported and self._leads():
                log.warning("component skew detected", reason=problem)
                if self._announces:
                    self._context.recorder.record(lease, LEASE, "Warning", REASON, problem)
        return set(problems) if self._leads() else set()

    def _hold_back(self, lacking: dict[Gate, str]) -> None:
        for gate in GATES:
            if gate.coordinated and self._mine.gates.enabled(gate):
                self._held_back.labels(gate.name).set(gate in lacking)
        for gate, instance in lacking.items():
            if gate not in self._lacking:
                log.warning("feature held back", feature=gate.name, reason=f"{instance} does not announce it")
        for gate in self._lacking.keys() - lacking.keys():
            log.info("feature no longer held back", feature=gate.name)
        self._lacking = lacking
        if self._context.rollout is not None:
            self._context.rollout.update(lacking)
        self.compared.set()

    def _is_current(self, key: str, renewed: str | None, seconds: float) -> bool:
        """Whether an announcement was renewed within its duration, by this process's clock."""
        self._looked_at.add(key)
        known, now = self._seen.get(key), self._clock.monotonic()
        if known is None or known.renewed != renewed:
            between = None if known is None or self._compared_at is None else (self._compared_at, self._clock.now())
            known = self._seen[key] = _Observation(renewed, now, between)
        return now - known.since < seconds

    def _clocks(self, lease: str, theirs: ComponentInfo) -> list[str]:
        seen = self._seen[lease]
        if seen.renewed is None or seen.between is None:
            return []
        apart = clock_skew(self._mine.process, theirs.process, renewed=from_time(seen.renewed), between=seen.between)
        return [apart] if apart else []
