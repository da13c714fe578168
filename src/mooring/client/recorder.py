"""The event recorder: writes core v1 Events from a bounded queue.

`record` never blocks or fails. Events of one object are written in order, those of different objects concurrently.
Repeats are counted on the existing Event, and each object is rate-limited, as in client-go. No component may act on
Events.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, ApiError, NotFound, ServerTimeout, ServiceUnavailable, TooManyRequests
from mooring.api.kinds import EVENT, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_time
from mooring.api.views.meta import ApiObject
from mooring.backoff import JitteredBackoff
from mooring.client.contract import Client, Unreachable
from mooring.client.event_series import EventBudget, EventQueue, EventRecord, EventSeries, Series
from mooring.clock import Clock, set_within

log: FilteringBoundLogger = structlog.get_logger(__name__)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

#: Namespace of events about cluster-scoped objects, as upstream.
CLUSTER_NAMESPACE: Final = "default"
#: Four times client-go's queue: one recorder serves components that schedule hundreds of pods a second.
MAX_QUEUED_EVENTS: Final = 4096
#: Concurrent writes: 800 events a second at 10 ms each, more than pods are scheduled; client-go writes one at a time.
WRITERS: Final = 8
#: Wait for pending events at shutdown; the kubelet kills after thirty seconds.
FLUSH_SECONDS: Final = 2.0
#: client-go tries twelve times, ten seconds apart; an event that is late by that much is useless.
MAX_ATTEMPTS: Final = 5
INITIAL_BACKOFF_SECONDS: Final = 0.5
MAX_BACKOFF_SECONDS: Final = 10.0
#: The limit of names, less the dot and sixteen digits of the suffix.
MAX_STEM_CHARS: Final = 253 - 17

#: The limit of `note` in `events.k8s.io`.
MAX_MESSAGE_CHARS: Final = 1024
CLIPPED: Final = " ..."

#: Errors after which the same request may succeed.
TRANSIENT_ERRORS: Final = (Unreachable, TooManyRequests, ServiceUnavailable, ServerTimeout)


def clipped_message(message: str) -> str:
    """Truncated as by kube-scheduler: a driver's error may have megabytes, and the queue keeps thousands."""
    return message if len(message) <= MAX_MESSAGE_CHARS else f"{message[: MAX_MESSAGE_CHARS - len(CLIPPED)]}{CLIPPED}"


class EventRecorder:
    """Records events of one source; `run` writes them."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        source: str,
        rng: random.Random,
        *,
        count_internal_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._source = source
        self._rng = rng
        self._count_internal_error = count_internal_error
        self._queue = EventQueue(MAX_QUEUED_EVENTS)
        self._writing = 0
        self._wake = asyncio.Event()
        self._all_written = asyncio.Event()
        self._series = EventSeries()
        self._budget = EventBudget()
        self._log = log.bind(source=source)
        self._losses_logged = 0
        #: Events dropped because the queue was full.
        self.lost = 0

    def record(self, regarding: ApiObject, kind: Kind[ApiObject], event_type: str, reason: str, message: str) -> None:
        """Queue an event about an object. Never raises; when the queue is full, the oldest event is dropped."""
        reference = regarding.object_reference(kind.kind, kind.api_version)
        event = EventRecord(reference, event_type, reason, clipped_message(message), self._clock.now())
        self.lost += not self._queue.put(event)
        self._all_written.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        async with asyncio.TaskGroup() as writers:
            while True:
                self._wake.clear()
                while self._writing < WRITERS and (event := self._queue.take()) is not None:
                    if self.lost > self._losses_logged:
                        self._log.warning("events dropped: queue full", count=self.lost - self._losses_logged)
                        self._losses_logged = self.lost
                    self._writing += 1
                    writers.create_task(self._write_event(event), name="event")
                if not self._queue:
                    self._all_written.set()
                await self._wake.wait()

    async def flush(self) -> None:
        """Wait up to FLUSH_SECONDS until `run` has written everything."""
        if self._queue and not await set_within(self._all_written, FLUSH_SECONDS, self._clock):
            self._log.warning("events dropped at shutdown", count=len(self._queue))

    async def _write_event(self, event: EventRecord) -> None:
        try:
            await self._write(event)
        except Exception:
            # A bug in one event must affect neither other events nor the component.
            self._log.exception("event dropped: unexpected exception", reason=event.reason)
            self._count_internal_error(f"events of {self._source}")
        finally:
            self._writing -= 1
            self._queue.done(event)
            self._wake.set()

    async def _write(self, event: EventRecord) -> None:
        series = self._series.observe(event)
        about = event.regarding
        facts = {"object": f"{about.namespace}/{about.name}", "reason": event.reason}
        if not self._budget.take(about.uid or about.name, self._clock.monotonic()):
            self._log.debug("event rate-limited", **facts)
            return
        pause = JitteredBackoff(self._rng, initial=INITIAL_BACKOFF_SECONDS, maximum=MAX_BACKOFF_SECONDS)
        problem: Exception | None = None
        name = self._name(about.name)
        for _ in range(MAX_ATTEMPTS):
            try:
                await self._put(event, series, name)
                return
            except TRANSIENT_ERRORS as error:
                problem = error
                await self._clock.sleep(pause.next_delay())
            except AlreadyExists as error:
                if isinstance(problem, Unreachable):
                    # Race: an earlier attempt without a response had created this event.
                    series.written_as = name
                    return
                problem, name = error, self._name(about.name)
            except ApiError as error:
                self._log.warning("event rejected", error=error.message, **facts)
                return
        self._log.warning("event dropped: retries exhausted", attempts=MAX_ATTEMPTS, error=str(problem), **facts)

    async def _put(self, event: EventRecord, series: Series, name: str) -> None:
        namespace = event.regarding.namespace or CLUSTER_NAMESPACE
        if series.written_as:
            patch = MergePatch(
                {"count": series.count, "lastTimestamp": to_time(series.last), "message": series.message}
            )
            try:
                await self._client.patch(EVENT, series.written_as, patch, namespace=namespace)
                return
            except NotFound:
                # Events expire after about an hour; a repeat starts a new series.
                series.written_as, series.count, series.first = "", 1, series.last
        await self._client.create(EVENT, self._body(event, series, name, namespace), namespace=namespace)
        series.written_as = name

    def _body(self, event: EventRecord, series: Series, name: str, namespace: str) -> Mapping[str, Any]:
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": event.regarding.body(),
            "reason": event.reason,
            "message": series.message,
            "type": event.type,
            "source": {"component": self._source},
            "reportingComponent": self._source,
            "reportingInstance": "",
            "count": series.count,
            "firstTimestamp": to_time(series.first),
            "lastTimestamp": to_time(series.last),
        }

    def _name(self, stem: str) -> str:
        """`<object>.<hex>` as upstream: nanoseconds, here plus up to a second of randomness. Recorders in one
        simulation share their clock, those with one seed share their randomness."""
        digits = int(self._clock.now() * 1e9) + self._rng.getrandbits(30)
        return f"{stem[:MAX_STEM_CHARS].rstrip('.-')}.{digits:016x}"
