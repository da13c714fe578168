"""Tells people about rights that a process lacks: once each, with the rule to add, and again while it goes on.

Hears every refusal that the process's client gets. Components deal with refusals as with any other: they try again.
So a right that is added later is enough, and nothing has to be restarted.
"""

from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import Forbidden
from mooring.client.missing_rights import MissingRight, missing_right
from mooring.clock import Clock

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: How long a right that is still missing is not spoken of again.
REMINDER_SECONDS: Final = 600.0


class RightsWatch:
    def __init__(self, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        #: When each was spoken of last.
        self._told: dict[MissingRight, float] = {}
        self._refusals = Counter(
            "mooring_missing_rights_total",
            "Requests that were refused for want of a right, by what was to be done.",
            ["group", "resource", "verb"],
            registry=registry,
        )

    def refused(self, refusal: Forbidden) -> None:
        right = missing_right(refusal)
        if right is None:
            return
        self._refusals.labels(right.group, right.resource, ",".join(right.verbs)).inc()
        now = self._clock.monotonic()
        told = self._told.get(right)
        if told is None or now - told >= REMINDER_SECONDS:
            self._told[right] = now
            log.error("missing right", advice=str(right), rule=right.rule, account=right.user, role=right.role)
