"""Capacity publisher: calls GetCapacity and keeps one CSIStorageCapacity object per segment and StorageClass.

GetCapacity is called every poll interval, when a volume was created, deleted, resized or did not fit, when a snapshot
was taken or deleted, and when nodes or classes change. An object is written when its capacity changes, and after each
volume created in its segment and pool even if it does not: its annotation then proves a poll after the creation, and
schedulers stop counting that volume as in flight. When the driver fails finally, or for several polls, the object stays
without a capacity rather than with an old one. Classes with equal parameters share the call for a segment.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import LEASE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_micro_time
from mooring.api.views.storage import StorageCapacity, StorageClass, Volume
from mooring.backoff import KeyedBackoff
from mooring.client.contract import Unreachable
from mooring.client.informer import Informer
from mooring.clock import IncreasingTime, in_batches, set_within
from mooring.control.component import Context
from mooring.control.workqueue import WorkQueue, repeat, work
from mooring.csi.contract import Capacity, DriverError
from mooring.provisioner.capacity import objects
from mooring.provisioner.capacity.objects import (
    CapacityKey,
    CapacityObjectIndex,
    PublisherIdentity,
    TemplateCapacity,
    body,
)
from mooring.provisioner.capacity.segment_file import WatchedFile
from mooring.provisioner.capacity.segments import Segment, SegmentSource, SegmentSourceName
from mooring.provisioner.capacity.templates import TemplateCapacities
from mooring.provisioner.capacity.volume_changes import VolumeChanges
from mooring.provisioner.metrics import CapacityMetrics, DriverCalls
from mooring.provisioner.provision.eligibility import is_ours, segments_of
from mooring.provisioner.provision.request import ProvisioningPlan
from mooring.provisioner.provision.topology import term
from mooring.provisioner.settings import lease_name

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Polls that may be missed before the Lease expires.
LEASE_DURATION_POLLS: Final = 3
#: How long a failed claim waits for the capacity that keeps the scheduler from choosing the same node again.
REFRESH_SECONDS: Final = 2.0
#: Polls without a response after which a published capacity is removed.
MAX_MISSED_POLLS: Final = 3
#: By how much the clock of another instance may be ahead; a later time in an object is not that of a poll.
MAX_CLOCK_SKEW_SECONDS: Final = 3600.0


class PollRecord:
    """One Lease per publisher with the time of the last complete poll, for operators and `mooring capacity`: objects
    only record when their capacity changed."""

    def __init__(self, context: Context, publisher: PublisherIdentity, namespace: str, interval: float) -> None:
        self._client = context.client
        self._clock = context.clock
        self._publisher = publisher
        self._namespace = namespace
        self._lasts = max(int(interval * LEASE_DURATION_POLLS), 1)
        self.name = record_name(publisher)

    async def write(self) -> None:
        """Best effort: capacity objects are valid without it."""
        spec = {
            "holderIdentity": self._publisher.managed_by,
            "leaseDurationSeconds": self._lasts,
            "renewTime": to_micro_time(self._clock.now()),
        }
        try:
            try:
                await self._client.patch(LEASE, self.name, MergePatch({"spec": spec}), namespace=self._namespace)
            except NotFound:
                metadata: dict[str, object] = {"name": self.name, "labels": self._publisher.labels}
                if self._publisher.owner is not None:
                    metadata["ownerReferences"] = [objects.owner_body(self._publisher.owner)]
                await self._client.create(LEASE, {"metadata": metadata, "spec": spec}, namespace=self._namespace)
        except (ApiError, Unreachable) as error:
            log.info("poll time not recorded", lease=self.name, error=str(error))


def record_name(publisher: PublisherIdentity) -> str:
    """Lease name of the driver's publisher, with the node name in a deployment per node."""
    suffix = publisher.managed_by.removeprefix(objects.MANAGER)
    return f"capacity-{lease_name(publisher.driver)}{suffix}".lower()


class PollResponse(NamedTuple):
    #: Volumes created from here on may be missing from the response; those created before are counted in it.
    polled_at: float
    response: asyncio.Future[Capacity]


class SharedPolls:
    """GetCapacity calls by segment and parameters: classes with equal parameters share one."""

    def __init__(self, calls: DriverCalls, times: IncreasingTime) -> None:
        self._calls = calls
        self._times = times
        self._newest: defaultdict[Segment, dict[tuple[tuple[str, str], ...], PollResponse]] = defaultdict(dict)

    async def poll(self, segment: Segment, parameters: Mapping[str, str], *, after: float) -> tuple[Capacity, float]:
        """The capacity and when it was polled: later than `after`. Raises DriverError."""
        key = tuple(sorted(parameters.items()))
        newest = self._newest[segment].get(key)
        if newest is None or newest.polled_at <= after:
            newest = PollResponse(self._times.after(after), asyncio.get_running_loop().create_future())
            self._newest[segment][key] = newest
            await self._call(segment, parameters, newest.response)
            if newest.response.exception() is not None:
                # Callers that wait for it fail too; later ones make a call of their own.
                self._newest[segment].pop(key, None)
        return await newest.response, newest.polled_at

    def forget(self, segment: Segment) -> None:
        self._newest.pop(segment, None)

    async def _call(self, segment: Segment, parameters: Mapping[str, str], response: asyncio.Future[Capacity]) -> None:
        try:
            response.set_result(objects.validated(await self._calls.get_capacity(parameters, segment)))
        except Exception as error:  # whatever it is, each caller that waits raises it
            response.set_exception(error)
        finally:
            # If this caller is cancelled, no other one waits for a response that does not come.
            response.cancel()


class CapacityListener:
    """Told by the provisioner about everything that changes the free capacity; ignores it if none is published."""

    def volume_created(self, volume: Volume) -> None: ...

    def volume_deleted(self, volume: Volume) -> None: ...

    def provisioning_failed(self, plan: ProvisioningPlan) -> None: ...

    async def refresh(self, plan: ProvisioningPlan) -> None:
        """Publish the free capacity of the plan's segment; returns after REFRESH_SECONDS at the latest."""


@dataclass(frozen=True)
class CapacitySettings:
    """Named after external-provisioner's flags."""

    namespace: str
    poll_interval: float = 60.0
    for_immediate_binding: bool = False
    threads: int = 1
    retry_interval_start: float = 1.0
    retry_interval_max: float = 300.0
    #: Whether VolumeSnapshotContents are watched, so that capacity is polled when a snapshot is taken or deleted.
    watch_snapshots: bool = False
    #: Whether the process has the objects of all publishers in a shared informer. Otherwise RBAC may restrict a
    #: publisher to its own.
    shared_informer: bool = False
    #: Ignored by a deployment per node, which publishes the segment of its node.
    segment_source: SegmentSourceName = SegmentSourceName.TOPOLOGY
    #: Of the source `file`.
    segment_file: Path | None = None
    #: Templates of node groups, whose capacity is published for nodes that do not exist yet.
    template_file: Path | None = None


class CapacityPublisher(CapacityListener):
    def __init__(
        self,
        context: Context,
        calls: DriverCalls,
        source: SegmentSource,
        publisher: PublisherIdentity,
        settings: CapacitySettings,
        metrics: CapacityMetrics,
        times: IncreasingTime,
        templates: WatchedFile[TemplateCapacities] | None = None,
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._times = times
        self._report = context.internal_error
        self._source = source
        self._templates = templates
        self._publisher = publisher
        self._settings = settings
        self._metrics = metrics
        self._classes = context.informers.of(STORAGE_CLASS)
        self._volumes = context.informers.of(VOLUME)
        self._objects = (
            context.informers.of(STORAGE_CAPACITY) if settings.shared_informer else self._own_informer(context)
        )
        self._index = CapacityObjectIndex(publisher.driver, for_immediate_binding=settings.for_immediate_binding)
        self._backoff: KeyedBackoff[CapacityKey] = KeyedBackoff(
            settings.retry_interval_start, settings.retry_interval_max
        )
        self._queue: WorkQueue[CapacityKey] = WorkQueue(
            context.clock,
            context.observer("csistoragecapacity"),
            report=lambda entry, error: context.internal_error("csistoragecapacity", error),
        )
        self._topology = context.work_queue("csitopology")
        self._record = PollRecord(context, publisher, settings.namespace, settings.poll_interval)
        #: Keys of the current poll without a response so far.
        self._pending: set[CapacityKey] = set()
        #: Time of the last response, or of the first request.
        self._answered: dict[CapacityKey, float] = {}
        #: Keys whose object must record a poll begun after this moment.
        self._poll_not_before: dict[CapacityKey, float] = {}
        self._waiting: dict[CapacityKey, list[asyncio.Event]] = {}
        self._polls = SharedPolls(calls, times)
        self._changes = VolumeChanges(context, publisher.driver, self._volume_changed)
        #: When the capacity of a key was last requested: only a later poll will do.
        self._requested: dict[CapacityKey, float] = {}
        self.ready = False

    def _own_informer(self, context: Context) -> Informer[StorageCapacity]:
        return Informer(
            context.client,
            STORAGE_CAPACITY,
            clock=context.clock,
            rng=context.rng,
            scope={"namespace": self._settings.namespace, "labels": self._publisher.selector},
            report=context.internal_error,
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if not self._settings.shared_informer:
                group.create_task(self._objects.run(), name="informer of own capacity objects")
            await self._source.wait_synced()
            await self._classes.synced.wait()
            await self._objects.synced.wait()
            await self._volumes.synced.wait()
            if self._objects.not_served:
                log.error("no capacity is published until the API server serves CSIStorageCapacity")
                self.ready = True
                await self._objects.served.wait()
            self._source.on_change(lambda: self._topology.add("segments"))
            self._index.observe_segments(self._source.segments())
            if self._templates is not None:
                self._templates.on_change(lambda: self._topology.add("segments"))
                self._index.observe_templates(self._templates.content)
            await self._objects.subscribe(self._on_object)
            await self._classes.subscribe(self._on_class)
            await in_batches(self._require_polls_after_restart(), self._clock)
            self._metrics.watch(self._index)
            self.ready = True
            group.create_task(work(self._topology, self._sync_segments, workers=1, name="csitopology"))
            group.create_task(work(self._queue, self._sync, workers=self._settings.threads, name="csistoragecapacity"))
            pause = partial(self._clock.sleep, self._settings.poll_interval)
            await self._changes.follow_resizes()
            if self._settings.watch_snapshots:
                group.create_task(self._changes.follow_snapshots(), name="informer of snapshot contents")
            poll = repeat(self._poll, pause, name="capacity poll", report=self._report)
            group.create_task(poll, name="capacity poll")

    def volume_created(self, volume: Volume) -> None:
        """Polls all classes of its segments: they may share a pool."""
        self._require_poll_after(volume, self._times.after())
        self._enqueue(self._touched_by(volume))

    def _require_poll_after(self, volume: Volume, moment: float) -> None:
        # Schedulers charge a volume to the objects of its pool.
        for entry in self._index.in_pool_of(volume.storage_class, self._touched_by(volume)):
            self._poll_not_before[entry] = max(moment, self._poll_not_before.get(entry, moment))

    def _require_polls_after_restart(self) -> Iterator[None]:
        """Volumes created by an earlier process that may have ended before it published; yields after each volume."""
        for volume in tuple(self._volumes.items()):
            moment = objects.created_at(volume)
            if moment is not None and is_ours(volume, self._publisher.driver):
                self._require_poll_after(volume, moment)
            yield

    def volume_deleted(self, volume: Volume) -> None:
        self._enqueue(self._touched_by(volume))

    def _volume_changed(self, volume: Volume | None) -> None:
        self._enqueue(self._index.desired() if volume is None else self._touched_by(volume))

    def provisioning_failed(self, plan: ProvisioningPlan) -> None:
        self._enqueue(self._preferred_by(plan))

    async def refresh(self, plan: ProvisioningPlan) -> None:
        affected = self._preferred_by(plan)
        published: list[asyncio.Event] = []
        for entry in affected:
            published.append(asyncio.Event())
            self._waiting.setdefault(entry, []).append(published[-1])
        self._enqueue(affected)
        deadline = self._clock.monotonic() + REFRESH_SECONDS
        for event in published:
            await set_within(event, deadline - self._clock.monotonic(), self._clock)

    def _preferred_by(self, plan: ProvisioningPlan) -> set[CapacityKey]:
        """The key of the plan's class in the segment that it asks for first; if that is not published, all of the
        class."""
        requirements = plan.request.accessibility
        for topology in requirements.preferred[:1] if requirements is not None else ():
            entry = CapacityKey(term(topology.segments), plan.storage_class)
            if self._index.class_of(entry) is not None:
                return {entry}
        return self._index.of_class(plan.storage_class)

    def _touched_by(self, volume: Volume) -> set[CapacityKey]:
        """All keys if the volume is reachable from everywhere, or if published segments are not those of nodes."""
        segments = segments_of(volume)
        of_nodes = self._settings.segment_source is SegmentSourceName.TOPOLOGY
        return self._index.of_segments(segments) if segments and of_nodes else self._index.desired()

    def _enqueue(self, entries: Iterable[CapacityKey]) -> None:
        # Sorted: the order of a set differs from run to run.
        for entry in sorted(entries):
            self._request(entry)

    def _request(self, entry: CapacityKey, *, delay: float = 0.0) -> None:
        self._requested[entry] = self._times.after()
        self._queue.add_after(entry, delay)

    def _on_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        self._enqueue(self._index.observe_class(before, after))

    def _on_object(self, before: StorageCapacity | None, after: StorageCapacity | None) -> None:
        before, after = self._own(before), self._own(after)
        # Later: another publisher may be at work that does not know yet that it has lost its lease. Without a pause,
        # one would create what the other deletes as fast as both can.
        for entry in sorted(self._index.observe_object(before, after)):
            self._request(entry, delay=self._settings.retry_interval_start)

    def _own(self, found: StorageCapacity | None) -> StorageCapacity | None:
        """The object, if it is in the scope of an own informer."""
        if found is None or found.namespace != self._settings.namespace:
            return None
        return found if found.metadata.labels.items() >= self._publisher.labels.items() else None

    async def _sync_segments(self, _: str) -> None:
        self._enqueue(self._index.observe_segments(self._source.segments()))
        if self._templates is not None:
            self._enqueue(self._index.observe_templates(self._templates.content))

    async def _poll(self) -> None:
        self._pending = self._index.desired()
        self._enqueue(self._pending)
        for obsolete in self._index.obsolete():
            try:
                await self._delete(obsolete)
            except (ApiError, Unreachable) as error:
                log.info("obsolete CSIStorageCapacity not deleted", object=obsolete.key, error=str(error))
        if not self._pending:
            await self._poll_completed()

    async def _poll_completed(self) -> None:
        self._metrics.polled(self._clock.now())
        await self._record.write()

    async def _sync(self, entry: CapacityKey) -> None:
        waiting = self._waiting.pop(entry, [])
        try:
            await self._publish(entry)
        finally:
            for published in waiting:
                published.set()

    async def _publish(self, entry: CapacityKey) -> None:
        storage_class = self._index.class_of(entry)
        found = self._index.objects(entry)
        for extra in found[1:] if storage_class is not None else found:
            await self._delete(extra)
            self._index.remove(entry, extra)
        if storage_class is None:
            self._backoff.forget(entry)
            self._answered.pop(entry, None)
            self._poll_not_before.pop(entry, None)
            self._pending.discard(entry)
            self._requested.pop(entry, None)
            self._polls.forget(entry.segment)
            return
        current = found[0] if found else None
        if (template := self._index.template_of(entry)) is not None:
            await self._write_template(entry, current, template)
            self._poll_not_before.pop(entry, None)
            await self._answered_in_poll(entry)
            return
        self._answered.setdefault(entry, self._clock.monotonic())
        not_before = self._poll_not_before.get(entry)
        after = max(not_before or 0.0, self._requested.get(entry, 0.0), self._published_at(current))
        try:
            reported, polled_at = await self._polls.poll(entry.segment, storage_class.parameters, after=after)
        except DriverError as error:
            await self._on_capacity_error(entry, current, error)
            self._request(entry, delay=self._backoff.next_delay(entry))
            return
        always = not_before is not None and objects.polled_at(current) <= not_before
        await self._write(entry, current, reported, polled_at, always=always)
        if self._poll_not_before.get(entry) == not_before:
            self._poll_not_before.pop(entry, None)
        self._backoff.forget(entry)
        self._answered[entry] = self._clock.monotonic()
        await self._answered_in_poll(entry)

    def _published_at(self, current: StorageCapacity | None) -> float:
        """When what is published was polled, maybe by another instance: this one may have been paused since its own
        last poll, whose response is then out of date. 0.0 for a moment that no clock shows yet."""
        polled_at = objects.polled_at(current)
        return polled_at if polled_at < self._clock.now() + MAX_CLOCK_SKEW_SECONDS else 0.0

    async def _answered_in_poll(self, entry: CapacityKey) -> None:
        if entry in self._pending:
            self._pending.discard(entry)
            if not self._pending:
                await self._poll_completed()

    async def _on_capacity_error(self, entry: CapacityKey, current: StorageCapacity | None, error: DriverError) -> None:
        """The published capacity is removed after a final error, otherwise after MAX_MISSED_POLLS."""
        segment = dict(entry.segment)
        log.info("capacity unknown", segment=segment, storage_class=entry.storage_class, error=str(error))
        unanswered = self._clock.monotonic() - self._answered[entry]
        expired = error.final or unanswered >= MAX_MISSED_POLLS * self._settings.poll_interval
        if current is not None and expired and (changed := objects.changes(current, self._publisher, None)):
            await self._patch(entry, current, changed)

    async def _write(
        self, entry: CapacityKey, current: StorageCapacity | None, reported: Capacity, polled_at: float, *, always: bool
    ) -> None:
        timestamp = to_micro_time(polled_at)
        if current is None:
            created = await self._client.create(
                STORAGE_CAPACITY, body(entry, self._publisher, reported, timestamp), namespace=self._settings.namespace
            )
            self._index.put(entry, created)
        else:
            changed = objects.changes(current, self._publisher, reported)
            if changed or always:
                metadata = changed.pop("metadata", {}) | {"annotations": {well_known.CAPACITY_POLLED_AT: timestamp}}
                await self._patch(entry, current, changed | {"metadata": metadata})

    async def _write_template(
        self, entry: CapacityKey, current: StorageCapacity | None, template: TemplateCapacity
    ) -> None:
        if current is None:
            desired = objects.template_body(entry, self._publisher, template)
            created = await self._client.create(STORAGE_CAPACITY, desired, namespace=self._settings.namespace)
            self._index.put(entry, created)
        elif changed := objects.changes(current, self._publisher, template.capacity, node_group=template.node_group):
            await self._patch(entry, current, changed)

    async def _patch(self, entry: CapacityKey, current: StorageCapacity, changed: dict[str, object]) -> None:
        version = {"resourceVersion": current.metadata.resource_version}
        metadata = changed.get("metadata", {})
        assert isinstance(metadata, dict), "metadata is a mapping"
        patch = MergePatch(changed | {"metadata": metadata | version})
        try:
            written = await self._client.patch(STORAGE_CAPACITY, current.name, patch, namespace=current.namespace)
        except NotFound:
            self._index.remove(entry, current)
            raise
        self._index.put(entry, written)

    async def _delete(self, found: StorageCapacity) -> None:
        with suppress(NotFound):
            await self._client.delete(STORAGE_CAPACITY, found.name, namespace=found.namespace, uid=found.uid)
