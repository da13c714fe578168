"""The event recorder: what `kubectl describe` shows under Events.

A component says what happened and goes on; nothing it does may wait for, or fail with, an event. A bounded queue
stands in between, and `run` writes core v1 Events from it: those of an object one after the other, those of several
objects at once, so that a slow answer holds up nobody else's news. Repeats are counted on the Event that exists, and an
object with too many events gets no more for a while, as with client-go's recorder. Events are news for people; no
component may act on them.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, ApiError, NotFound, ServerTimeout, ServiceUnavailable, TooManyRequests
from mooring.api.kinds import EVENT, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_time
from mooring.api.views.meta import ApiObject, ObjectReference
from mooring.client.backoff import Backoff
from mooring.client.contract import Client, Unreachable
from mooring.client.event_queue import EventQueue
from mooring.client.event_series import EventBudget, EventSeries, Happening, Series
from mooring.clock import Clock, set_within

log: FilteringBoundLogger = structlog.get_logger(__name__)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

#: Where events about objects without a namespace go; upstream's choice, and kubectl looks there.
CLUSTER_NAMESPACE: Final = "default"
#: Four times client-go's queue: one recorder serves components that place hundreds of pods a second.
QUEUED: Final = 4096
#: Events written at once. At ten milliseconds an answer that is 800 a second, more than pods are placed in; client-go
#: writes one at a time.
WRITERS: Final = 8
#: How long a process that stops waits for what is still to be written; kubelet kills after thirty.
FLUSH_SECONDS: Final = 2.0
#: client-go tries twelve times, ten seconds apart; events about a state long past help nobody.
TRIES: Final = 5
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0
#: Longest name an object may have, less the dot and the sixteen digits that follow it here.
LONGEST_STEM: Final = 253 - 17

#: Characters of a message: what `events.k8s.io` takes as a note.
LONGEST_MESSAGE: Final = 1024
CLIPPED: Final = " ..."

#: Answers after which the same request may succeed.
PASSING: Final = (Unreachable, TooManyRequests, ServiceUnavailable, ServerTimeout)


def clipped_message(message: str) -> str:
    """As kube-scheduler clips what it tells: a driver's complaint may have megabytes, and queues keep thousands."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - len(CLIPPED)]}{CLIPPED}"


class EventRecorder:
    """Records events of one source. `record` from anywhere in the loop; nothing is written unless `run` runs."""

    def __init__(self, client: Client, clock: Clock, source: str, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._source = source
        self._rng = rng
        self._queue = EventQueue(QUEUED)
        self._writing = 0
        self._wake = asyncio.Event()
        self._all_written = asyncio.Event()
        self._series = EventSeries()
        self._budget = EventBudget()
        self._log = log.bind(source=source)
        self._lost_and_told = 0
        #: Events given up because the server took them slower than they came.
        self.lost = 0

    def record(self, regarding: ApiObject, kind: Kind[ApiObject], event_type: str, reason: str, message: str) -> None:
        """Tell people about an object. Returns at once and never raises; the oldest news yields to the newest."""
        reference = ObjectReference(
            kind=kind.kind,
            api_version=kind.api_version,
            namespace=regarding.namespace,
            name=regarding.name,
            uid=regarding.uid,
            resource_version=regarding.metadata.resource_version,
        )
        happening = Happening(reference, event_type, reason, clipped_message(message), self._clock.now())
        self.lost += not self._queue.put(happening)
        self._all_written.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        async with asyncio.TaskGroup() as writers:
            while True:
                self._wake.clear()
                while self._writing < WRITERS and (happening := self._queue.take()) is not None:
                    self._tell_losses()
                    self._writing += 1
                    writers.create_task(self._write_and_tell(happening), name="event")
                if not self._queue:
                    self._all_written.set()
                await self._wake.wait()

    async def flush(self) -> None:
        """Wait, not for long, until `run` has written everything: for a process that is about to stop."""
        if self._queue and not await set_within(self._all_written, FLUSH_SECONDS, self._clock):
            self._log.warning("events lost: there was no time to write them", count=len(self._queue))

    async def _write_and_tell(self, happening: Happening) -> None:
        try:
            await self._write(happening)
        except Exception:
            # One event that cannot be written must not cost the others, nor the component that records them.
            self._log.exception("event dropped because of a bug", reason=happening.reason)
        finally:
            self._writing -= 1
            self._queue.done(happening)
            self._wake.set()

    def _tell_losses(self) -> None:
        if self.lost > self._lost_and_told:
            self._log.warning("events lost: the server takes them too slowly", count=self.lost - self._lost_and_told)
            self._lost_and_told = self.lost

    async def _write(self, happening: Happening) -> None:
        series = self._series.observe(happening)
        about = happening.regarding
        facts = {"object": f"{about.namespace}/{about.name}", "reason": happening.reason}
        if not self._budget.take(about.uid or about.name, self._clock.monotonic()):
            self._log.debug("event held back: the object has had too many", **facts)
            return
        pause = Backoff(self._rng, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        problem: Exception | None = None
        name = self._name(about.name)
        for _ in range(TRIES):
            try:
                await self._put(happening, series, name)
                return
            except PASSING as error:
                problem = error
                await self._clock.sleep(pause.delay())
            except AlreadyExists as error:
                if isinstance(problem, Unreachable):
                    # SEEN: a try without an answer came before; it was this very event that got through.
                    series.written_as = name
                    return
                problem, name = error, self._name(about.name)
            except ApiError as error:
                self._log.warning("event refused", why=error.message, **facts)
                return
        self._log.warning("event given up", tries=TRIES, why=str(problem), **facts)

    async def _put(self, happening: Happening, series: Series, name: str) -> None:
        namespace = happening.regarding.namespace or CLUSTER_NAMESPACE
        if series.written_as:
            patch = MergePatch(
                {"count": series.count, "lastTimestamp": to_time(series.last), "message": series.message}
            )
            try:
                await self._client.patch(EVENT, series.written_as, patch, namespace=namespace)
                return
            except NotFound:
                # Servers forget events after an hour or so; what goes on is a new story then.
                series.written_as, series.count, series.first = "", 1, series.last
        await self._client.create(EVENT, self._body(happening, series, name, namespace), namespace=namespace)
        series.written_as = name

    def _body(self, happening: Happening, series: Series, name: str, namespace: str) -> Mapping[str, Any]:
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": happening.regarding.body(),
            "reason": happening.reason,
            "message": series.message,
            "type": happening.type,
            "source": {"component": self._source},
            "reportingComponent": self._source,
            "reportingInstance": "",
            "count": series.count,
            "firstTimestamp": to_time(series.first),
            "lastTimestamp": to_time(series.last),
        }

    def _name(self, stem: str) -> str:
        """`<object>.<hex>` like upstream's, whose digits are nanoseconds; here with up to a second of noise.

        Recorders of one simulated world share their nanoseconds, and those of one seed share their noise.
        """
        digits = int(self._clock.now() * 1e9) + self._rng.getrandbits(30)
        return f"{stem[:LONGEST_STEM].rstrip('.-')}.{digits:016x}"
