"""The capacity publisher: asks the driver what room is left, and keeps one CSIStorageCapacity per segment and class.

Asked again when a volume was made, removed or did not fit, when nodes or classes change, and every poll interval. An
object is written when its figures change. It is also written after each volume made in its segment, figures changed
or not: it then says since when the driver has been asked, and schedulers can stop counting that volume as on its way.

A driver that refuses the question, or has not answered it for several polls, is taken at its word: the object stays
and promises nothing, instead of a figure from better days.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_micro_time
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.api.views.volume import Volume
from mooring.client.contract import Unreachable
from mooring.client.informer import Informer
from mooring.clock import in_batches, set_within
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.control.worker import repeat, work
from mooring.csi.contract import Capacity, DriverError
from mooring.provisioner.calls import DriverCalls
from mooring.provisioner.capacity_ledger import Ledger
from mooring.provisioner.capacity_metrics import CapacityMetrics
from mooring.provisioner.capacity_objects import Entry, Publisher, body, changes, checked, made_at, shows
from mooring.provisioner.patience import Patience
from mooring.provisioner.planning import Plan
from mooring.provisioner.poll_record import PollRecord
from mooring.provisioner.removal import is_ours, places_of
from mooring.provisioner.room import Room
from mooring.provisioner.segments import SegmentSource
from mooring.provisioner.topology_terms import term

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: How long a claim without room waits for the figures that keep its pod from coming back; then it goes without.
REFRESH_SECONDS: Final = 2.0
#: Polls without an answer after which a figure is not believed any more.
MISSED_POLLS: Final = 3
#: The finest difference that timestamps show; a poll after a volume must be seen to be after it.
TICK: Final = 1e-6


@dataclass(frozen=True)
class CapacitySettings:
    """As external-provisioner's flags of the same names."""

    namespace: str
    poll_interval: float = 60.0
    for_immediate_binding: bool = False
    threads: int = 1
    retry_interval_start: float = 1.0
    retry_interval_max: float = 300.0


class CapacityPublisher:
    def __init__(
        self,
        context: Context,
        calls: DriverCalls,
        source: SegmentSource,
        publisher: Publisher,
        settings: CapacitySettings,
        metrics: CapacityMetrics,
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._calls = calls
        self._source = source
        self._publisher = publisher
        self._settings = settings
        self._metrics = metrics
        self._classes = context.informers.of(STORAGE_CLASS)
        self._volumes = context.informers.of(VOLUME)
        # Its own, since publishers may be allowed to see nothing but their own objects.
        self._objects: Informer[StorageCapacity] = Informer(
            context.client,
            STORAGE_CAPACITY,
            clock=context.clock,
            rng=context.rng,
            scope={"namespace": settings.namespace, "labels": publisher.selector},
        )
        self._ledger = Ledger(publisher.driver, for_immediate_binding=settings.for_immediate_binding)
        self._patience: Patience[Entry] = Patience(settings.retry_interval_start, settings.retry_interval_max)
        self._queue: WorkQueue[Entry] = WorkQueue(context.clock, context.observer("csistoragecapacity"))
        self._topology = context.work_queue("csitopology")
        self._record = PollRecord(context, publisher, settings.namespace, settings.poll_interval)
        #: Entries of the current poll that have not been answered.
        self._round: set[Entry] = set()
        #: When an entry was last answered, or first asked for.
        self._answered: dict[Entry, float] = {}
        #: Entries that must show a poll begun after this moment.
        self._proofs: dict[Entry, float] = {}
        self._waiting: dict[Entry, list[asyncio.Event]] = {}
        self.ready = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._objects.run(), name="informer of own capacity objects")
            await self._source.wait_synced()
            await self._classes.synced.wait()
            await self._objects.synced.wait()
            await self._volumes.synced.wait()
            if self._objects.absent:
                log.error("no capacity is published: the API server does not serve CSIStorageCapacity")
                self.ready = True
                return
            self._source.on_change(lambda: self._topology.add("segments"))
            self._ledger.observe_segments(self._source.segments())
            await self._objects.subscribe(self._on_object)
            await self._classes.subscribe(self._on_class)
            await in_batches(self._recall(), self._clock)
            self._metrics.watch(self._ledger)
            self.ready = True
            group.create_task(work(self._topology, self._sync_segments, workers=1, name="csitopology"))
            group.create_task(work(self._queue, self._sync, workers=self._settings.threads, name="csistoragecapacity"))
            pause = partial(self._clock.sleep, self._settings.poll_interval)
            group.create_task(repeat(self._poll, pause, name="capacity poll"), name="capacity poll")

    def made(self, volume: Volume) -> None:
        """For all classes of its segments: they may share the room."""
        self._owe(volume, self._clock.now())
        self._look_at(self._touched_by(volume))

    def _owe(self, volume: Volume, moment: float) -> None:
        for entry in self._touched_by(volume):
            self._proofs[entry] = max(moment, self._proofs.get(entry, moment))

    def _recall(self) -> Iterator[None]:
        """What an earlier process may have died without publishing, volume by volume."""
        for volume in tuple(self._volumes.items()):
            moment = made_at(volume)
            if moment is not None and is_ours(volume, self._publisher.driver):
                self._owe(volume, moment)
            yield

    def removed(self, volume: Volume) -> None:
        self._look_at(self._touched_by(volume))

    def failed(self, storage_class: str) -> None:
        self._look_at(self._ledger.of_class(storage_class))

    async def refresh(self, plan: Plan) -> None:
        where = plan.request.accessibility
        place = term(where.preferred[0].segments) if where is not None and where.preferred else None
        entries = self._ledger.of_class(plan.storage_class)
        wanted = {entry for entry in entries if entry.segment == place} or entries
        arrivals: list[asyncio.Event] = []
        for entry in wanted:
            arrivals.append(asyncio.Event())
            self._waiting.setdefault(entry, []).append(arrivals[-1])
        self._look_at(wanted)
        deadline = self._clock.monotonic() + REFRESH_SECONDS
        for arrival in arrivals:
            await set_within(arrival, deadline - self._clock.monotonic(), self._clock)

    def _touched_by(self, volume: Volume) -> set[Entry]:
        places = places_of(volume)
        return self._ledger.of_segments(places) if places else self._ledger.wanted()

    def _look_at(self, entries: Iterable[Entry]) -> None:
        # Sorted: the order of a set would differ from run to run.
        for entry in sorted(entries):
            self._queue.add(entry)

    def _on_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        self._look_at(self._ledger.observe_class(before, after))

    def _on_object(self, before: StorageCapacity | None, after: StorageCapacity | None) -> None:
        self._look_at(self._ledger.observe_object(before, after))

    async def _sync_segments(self, _: str) -> None:
        self._look_at(self._ledger.observe_segments(self._source.segments()))

    async def _poll(self) -> None:
        self._round = self._ledger.wanted()
        self._look_at(self._round)
        await self._remove_strays()
        if not self._round:
            await self._polled()

    async def _remove_strays(self) -> None:
        for stray in self._ledger.strays():
            try:
                await self._delete(stray)
            except (ApiError, Unreachable) as error:
                log.info("object with a selector of nobody's not deleted yet", object=stray.key, why=str(error))

    async def _polled(self) -> None:
        self._metrics.polled(self._clock.now())
        await self._record.write()

    async def _sync(self, entry: Entry) -> None:
        waiting = self._waiting.pop(entry, [])
        try:
            await self._publish(entry)
        finally:
            for arrival in waiting:
                arrival.set()

    async def _publish(self, entry: Entry) -> None:
        storage_class = self._ledger.class_of(entry)
        found = self._ledger.objects(entry)
        for extra in found[1:] if storage_class is not None else found:
            await self._delete(extra)
            self._ledger.forget(entry, extra)
        if storage_class is None:
            self._drop(entry)
            return
        kept = found[0] if found else None
        self._answered.setdefault(entry, self._clock.monotonic())
        # Volumes made from here on may be missing from the answer; those made before are in it.
        proof = self._proofs.get(entry)
        began = self._clock.now() if proof is None else max(self._clock.now(), proof + TICK)
        try:
            said = checked(await self._calls.get_capacity(storage_class.parameters, entry.segment))
        except DriverError as error:
            await self._doubt(entry, kept, error)
            self._queue.add_after(entry, self._patience.next_delay(entry))
            return
        await self._write(entry, kept, said, began, anyway=proof is not None and not shows(kept, proof))
        if self._proofs.get(entry) == proof:
            self._proofs.pop(entry, None)
        self._patience.forget(entry)
        self._answered[entry] = self._clock.monotonic()
        if entry in self._round:
            self._round.discard(entry)
            if not self._round:
                await self._polled()

    def _drop(self, entry: Entry) -> None:
        self._patience.forget(entry)
        self._answered.pop(entry, None)
        self._proofs.pop(entry, None)
        self._round.discard(entry)

    async def _doubt(self, entry: Entry, kept: StorageCapacity | None, error: DriverError) -> None:
        """No figure: what was published holds for a while if the driver is only silent, and no longer if it refuses."""
        silent = self._clock.monotonic() - self._answered[entry]
        patient = not error.final and silent < MISSED_POLLS * self._settings.poll_interval
        log.info("capacity not known", segment=dict(entry.segment), storage_class=entry.storage_class, why=str(error))
        changed = {} if kept is None or patient else changes(kept, self._publisher, None)
        if kept is not None and changed:
            await self._patch(entry, kept, changed)

    async def _write(
        self, entry: Entry, kept: StorageCapacity | None, said: Capacity, began: float, *, anyway: bool
    ) -> None:
        polled_at = to_micro_time(began)
        if kept is None:
            made = await self._client.create(
                STORAGE_CAPACITY, body(entry, self._publisher, said, polled_at), namespace=self._settings.namespace
            )
            self._ledger.learn(entry, made)
        else:
            changed = changes(kept, self._publisher, said)
            if changed or anyway:
                metadata = changed.pop("metadata", {}) | {"annotations": {keys.CAPACITY_POLLED_AT: polled_at}}
                await self._patch(entry, kept, changed | {"metadata": metadata})

    async def _patch(self, entry: Entry, kept: StorageCapacity, changed: dict[str, object]) -> None:
        version = {"resourceVersion": kept.metadata.resource_version}
        metadata = changed.get("metadata", {})
        assert isinstance(metadata, dict), "metadata is a mapping"
        patch = MergePatch(changed | {"metadata": metadata | version})
        try:
            written = await self._client.patch(STORAGE_CAPACITY, kept.name, patch, namespace=kept.namespace)
        except NotFound:
            self._ledger.forget(entry, kept)
            raise
        self._ledger.learn(entry, written)

    async def _delete(self, found: StorageCapacity) -> None:
        with suppress(NotFound):
            await self._client.delete(STORAGE_CAPACITY, found.name, namespace=found.namespace, uid=found.uid)


_contract: type[Room] = CapacityPublisher
