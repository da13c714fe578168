"""Changes of free capacity that other components make through the API: volumes that are resized, and snapshots.

Resizers and snapshotters are sidecars of the driver, and tell nothing to the provisioner. A resizer writes the volume's
new size after ControllerExpandVolume, a snapshotter the handle of a VolumeSnapshotContent after CreateSnapshot, and
both objects are watched. Snapshots only on request: their kinds are a CustomResourceDefinition that few clusters have.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from mooring.api.kinds import VOLUME, Kind
from mooring.api.views.meta import ApiObject, View
from mooring.api.views.storage import Volume
from mooring.client.cache import Index
from mooring.client.informer import Informer
from mooring.control.component import Context
from mooring.provisioner.provision.eligibility import is_ours

log = structlog.get_logger(__name__)


class SnapshotSource(View, frozen=True, gc=False):
    volume_handle: str | None = None


class SnapshotContentSpec(View, frozen=True, gc=False):
    driver: str = ""
    source: SnapshotSource = SnapshotSource()


class SnapshotContentStatus(View, frozen=True, gc=False):
    snapshot_handle: str | None = None
    restore_size: int | None = None


class SnapshotContent(ApiObject, frozen=True, gc=False):
    spec: SnapshotContentSpec = SnapshotContentSpec()
    status: SnapshotContentStatus = SnapshotContentStatus()


#: Not in the table of served kinds: Mooring's API server does not serve it.
SNAPSHOT_CONTENT: Final = Kind(
    "snapshot.storage.k8s.io", "VolumeSnapshotContent", "volumesnapshotcontents", False, SnapshotContent
)


def _handles(volume: Volume) -> tuple[str, ...]:
    source = volume.spec.csi
    return () if source is None else (_handle(source.driver, source.volume_handle),)


def _handle(driver: str, handle: str) -> str:
    return f"{driver} {handle}"


#: Volumes by driver and handle.
VOLUME_BY_HANDLE: Final[Index[Volume]] = Index("handle", _handles)


def was_resized(before: Volume | None, after: Volume | None) -> bool:
    """Whether the same volume has another size now."""
    return before is not None and after is not None and before.uid == after.uid and before.size != after.size


def was_taken_or_deleted(before: SnapshotContent | None, after: SnapshotContent | None) -> bool:
    """Whether a snapshot was taken, grew, or was deleted from the storage."""

    def stored(content: SnapshotContent | None) -> tuple[str | None, int | None] | None:
        taken = content is not None and content.status.snapshot_handle
        return (content.status.snapshot_handle, content.status.restore_size) if content is not None and taken else None

    return stored(before) != stored(after)


class VolumeChanges(NamedTuple):
    """Watches; calls `changed` with the volume, or with None if it is not known which one."""

    context: Context
    driver: str
    changed: Callable[[Volume | None], None]

    async def follow_resizes(self) -> None:
        await self.context.informers.of(VOLUME).subscribe(self._on_volume)

    async def follow_snapshots(self) -> None:
        """Runs until cancelled. Where the kind is not served, it is awaited."""
        context = self.context
        context.informers.of(VOLUME).add_index(*VOLUME_BY_HANDLE)
        contents = Informer(
            context.client, SNAPSHOT_CONTENT, clock=context.clock, rng=context.rng, report=context.internal_error
        )
        # Those that exist are delivered too: the segments are queued for the first poll anyway.
        contents.on_change(self._on_snapshot)
        await contents.run()

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        if was_resized(before, after) and after is not None and is_ours(after, self.driver):
            log.info("volume resized: capacity is polled", volume=after.name)
            self.changed(after)

    def _on_snapshot(self, before: SnapshotContent | None, after: SnapshotContent | None) -> None:
        content = before if after is None else after
        if content is None or content.spec.driver != self.driver or not was_taken_or_deleted(before, after):
            return
        handle = _handle(self.driver, content.spec.source.volume_handle or "")
        found = self.context.informers.of(VOLUME).by_index(VOLUME_BY_HANDLE.name, handle)
        log.info("snapshot taken or deleted: capacity is polled", snapshot_content=content.name)
        self.changed(next(iter(found), None))
