"""Announces this process to the others of the control plane, and reports those that do not fit together with it.

A report is an event on the other's announcement (`kubectl get events` where the Leases are), a warning in the log
and a gauge. Nothing is refused: during an upgrade processes differ for a while, and that is not an error by itself.

It looks now and then instead of watching: a watch of Leases would bring it the heartbeats of every node.
"""

from functools import partial
from typing import Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Gauge

from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import from_time, to_micro_time
from mooring.api.views.lease import Lease
from mooring.client.contract import Unreachable
from mooring.control.announcements import LABEL, LASTS_SECONDS, RENEW_SECONDS, Announcement, clock_skew, read, skews
from mooring.control.component import Context
from mooring.control.election_settings import LEASE_NAMESPACE
from mooring.control.worker import repeat

REASON: Final = "ComponentSkew"
#: How often who does not announce compares: a thousand of them ask less than two questions a second.
GLANCE_SECONDS: Final = 600.0

log = structlog.get_logger(__name__)


class _Sighting(NamedTuple):
    """What an announcement last looked like."""

    renewed: str | None
    #: When it was first seen so, by the clock that never jumps.
    since: float
    #: Our looks before and after it came to look so; None at the first.
    between: tuple[float, float] | None


class SkewWatch:
    name = "skew-watch"

    def __init__(
        self,
        context: Context,
        mine: Announcement,
        *,
        namespace: str = LEASE_NAMESPACE,
        announces: bool = True,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """`announces` is not for processes of which every node has one: those compare, seldom, and tell their log."""
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._mine = mine
        self._namespace = namespace
        self._announces = announces
        self._seen: dict[str, _Sighting] = {}
        #: When we looked last, by the clock on the wall.
        self._looked: float | None = None
        #: What was reported, so that it is said once.
        self._told: set[str] = set()
        self._trouble = ""
        self._gauge = Gauge(
            "mooring_component_skew",
            "In how many ways another process of the control plane does not fit together with this one.",
            ["process"],
            registry=registry if registry is not None else CollectorRegistry(),
        )
        self.ready = False

    async def run(self) -> None:
        self.ready = True
        pause = partial(self._clock.sleep, RENEW_SECONDS if self._announces else GLANCE_SECONDS)
        await repeat(self._look, pause, name=self.name)

    async def _look(self) -> None:
        try:
            if self._announces:
                await self._announce()
            await self._compare()
        except (ApiError, Unreachable) as error:
            self._complain(str(error))
        else:
            self._trouble = ""

    async def _announce(self) -> None:
        body = self._mine.body(now=to_micro_time(self._clock.now()))
        try:
            await self._client.patch(LEASE, self._mine.lease, MergePatch(body), namespace=self._namespace)
        except NotFound:
            await self._client.create(LEASE, body, namespace=self._namespace)

    async def _compare(self) -> None:
        found: set[str] = set()
        for lease in (await self._client.list(LEASE, namespace=self._namespace, labels=LABEL)).items:
            theirs = read(lease)
            if theirs is None or theirs.process == self._mine.process:
                continue
            problems = [*skews(self._mine, theirs), *self._clocks(lease.name, theirs)] if self._lives(lease) else []
            self._gauge.labels(theirs.process).set(len(problems))
            for problem in problems:
                found.add(problem)
                if problem not in self._told:
                    log.warning("components do not fit together", why=problem)
                    if self._announces:
                        self._recorder.record(lease, LEASE, "Warning", REASON, problem)
        self._told = found
        self._looked = self._clock.now()

    def _lives(self, lease: Lease) -> bool:
        """Whether its process has renewed it lately, by our own clock."""
        known, now = self._seen.get(lease.name), self._clock.monotonic()
        if known is None or known.renewed != lease.spec.renew_time:
            between = None if known is None or self._looked is None else (self._looked, self._clock.now())
            known = self._seen[lease.name] = _Sighting(lease.spec.renew_time, now, between)
        return now - known.since < LASTS_SECONDS

    def _clocks(self, lease: str, theirs: Announcement) -> list[str]:
        seen = self._seen[lease]
        if seen.renewed is None or seen.between is None:
            return []
        apart = clock_skew(self._mine.process, theirs.process, renewed=from_time(seen.renewed), between=seen.between)
        return [apart] if apart else []

    def _complain(self, why: str) -> None:
        if why != self._trouble:
            log.warning("cannot tell whether the components of the control plane fit together", why=why)
        self._trouble = why
