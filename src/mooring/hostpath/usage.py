"""Rules for attaching, staging and publishing volumes, and inline volumes. Pure.

Each function returns the volume's next record, the same one if nothing changes, or raises DriverError. Inline volumes
are created by NodePublishVolume with the kubelet's id and deleted by NodeUnpublishVolume.
"""

import re
from collections.abc import Container, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

import msgspec

from mooring.csi.contract import AccessMode, Code, DriverError, VolumeCapability, invalid
from mooring.hostpath import records
from mooring.hostpath.placement import EPHEMERAL, DriverPools, place_inline_volume
from mooring.hostpath.records import Attachment, DriverLayout, HostpathSettings, Publication, VolumeRecord

#: Ids from `VolumeRecords.new_id`. Never those of inline volumes, so that a repeated NodeUnpublishVolume of an inline
#: volume can be distinguished from one for an unknown volume.
OWN: Final = re.compile(r"v\d{6,}-[0-9a-f]{16}")
#: The id becomes a file name.
SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_inline_request(context: Mapping[str, str]) -> bool:
    return context.get(EPHEMERAL) == "true"


def is_foreign_id(volume_id: str) -> bool:
    """Whether the id was not assigned by this driver, but by a kubelet."""
    return OWN.fullmatch(volume_id) is None


def new_inline_volume(
    volume_id: str, requested: Publication, context: Mapping[str, str], pools: DriverPools
) -> VolumeRecord:
    if not (is_foreign_id(volume_id) and SAFE.fullmatch(volume_id)):
        raise invalid(f"{volume_id!r} cannot be the id of an inline volume")
    if requested.capability.block:
        raise invalid("an inline volume cannot be a block volume")
    return place_inline_volume(context, pools.layout.nodes.get(requested.node, {}), pools, volume_id=volume_id)


def _failed_precondition(volume: VolumeRecord, reason: str) -> DriverError:
    return DriverError(Code.FAILED_PRECONDITION, f"volume {volume.volume_id} {reason}")


def _already_exists(volume: VolumeRecord, reason: str) -> DriverError:
    return DriverError(Code.ALREADY_EXISTS, f"volume {volume.volume_id} {reason}")


def check_ready(volume: VolumeRecord) -> None:
    if volume.phase is not records.VolumePhase.READY:
        raise DriverError(Code.ABORTED, f"volume {volume.volume_id} is still {volume.phase}")


def check_unused(volume: VolumeRecord) -> None:
    """FAILED_PRECONDITION protects the data of a volume in use from deletion."""
    if nodes := volume.nodes():
        raise _failed_precondition(volume, f"is in use on node {', '.join(sorted(nodes))}")


def unsupported_reason(volume: VolumeRecord, capabilities: Iterable[VolumeCapability]) -> str | None:
    """Why the volume does not support one of the capabilities; None if it supports all."""
    if any(capability.block != volume.block for capability in capabilities):
        return "the volume is a block volume" if volume.block else "the volume is a mount volume"
    return None


def attached(
    volume: VolumeRecord, requested: Attachment, layout: DriverLayout, settings: HostpathSettings, *, already: int
) -> VolumeRecord:
    """`already` is the number of volumes attached to the node, for its limit."""
    _check_reachable(volume, requested.node, layout)
    _check_capability(volume, requested.capability)
    for known in volume.attached:
        if known.node == requested.node:
            if known != requested:
                raise _already_exists(volume, "is already published to that node in another way")
            return volume
    if volume.attached and not _many_nodes(requested.capability):
        raise _failed_precondition(volume, f"is published to node {volume.attached[0].node}")
    _check_volume_limit(already, settings, requested.node)
    return msgspec.structs.replace(volume, attached=(*volume.attached, requested))


def detached(volume: VolumeRecord, node: str) -> VolumeRecord:
    """From every node if `node` is empty."""
    kept = tuple(use for use in volume.attached if node and use.node != node)
    busy = {use.node for use in volume.staged} - {use.node for use in kept}
    if busy and kept != volume.attached:
        raise _failed_precondition(volume, f"is still staged on node {', '.join(sorted(busy))}")
    return msgspec.structs.replace(volume, attached=kept)


def staged(
    volume: VolumeRecord, requested: records.Staging, layout: DriverLayout, settings: HostpathSettings, *, already: int
) -> VolumeRecord:
    """`already` is the number of volumes staged on the node, for its limit if volumes are not attached."""
    _check_reachable(volume, requested.node, layout)
    _check_capability(volume, requested.capability)
    _check_absolute("staging_target_path", requested.path)
    if settings.attach and all(use.node != requested.node for use in volume.attached):
        raise _failed_precondition(volume, f"is not published to node {requested.node}")
    for known in volume.staged:
        if known.node == requested.node:
            if known.path != requested.path:
                raise _failed_precondition(volume, f"is staged at {known.path}")
            if known != requested:
                raise _already_exists(volume, "is staged there in another way")
            return volume
    if not settings.attach:
        _check_volume_limit(already, settings, requested.node)
    return msgspec.structs.replace(volume, staged=(*volume.staged, requested))


def unstaged(volume: VolumeRecord, node: str, path: str) -> VolumeRecord:
    kept = tuple(use for use in volume.staged if (use.node, use.path) != (node, path))
    if kept != volume.staged and any(use.node == node for use in volume.published):
        raise _failed_precondition(volume, f"is still published on node {node}")
    return msgspec.structs.replace(volume, staged=kept)


def published(volume: VolumeRecord, requested: Publication, *, staging: str, layout: DriverLayout) -> VolumeRecord:
    _check_reachable(volume, requested.node, layout)
    _check_capability(volume, requested.capability)
    _check_absolute("target_path", requested.target)
    if not volume.inline and all((use.node, use.path) != (requested.node, staging) for use in volume.staged):
        raise _failed_precondition(volume, f"is not staged at {staging or 'any path'}")
    for known in volume.published:
        if (known.node, known.target) == (requested.node, requested.target):
            if known != requested:
                raise _already_exists(volume, "is published there in another way")
            return volume
    alone = requested.capability.mode is AccessMode.SINGLE_NODE_SINGLE_WRITER
    if volume.published and (alone or volume.single_writer):
        raise _failed_precondition(volume, f"has a single writer and is published at {volume.published[0].target}")
    return msgspec.structs.replace(volume, published=(*volume.published, requested))


def unpublished(volume: VolumeRecord, node: str, target: str) -> VolumeRecord:
    kept = tuple(use for use in volume.published if (use.node, use.target) != (node, target))
    return msgspec.structs.replace(volume, published=kept)


def release_lost_nodes(volume: VolumeRecord, nodes: Container[str]) -> VolumeRecord:
    """The record without uses on other nodes than `nodes`: deleted nodes cannot end their uses."""
    return msgspec.structs.replace(
        volume,
        attached=tuple(use for use in volume.attached if use.node in nodes),
        staged=tuple(use for use in volume.staged if use.node in nodes),
        published=tuple(use for use in volume.published if use.node in nodes),
    )


def _check_reachable(volume: VolumeRecord, node: str, layout: DriverLayout) -> None:
    segments = layout.nodes.get(node)
    if segments is None:
        raise DriverError(Code.NOT_FOUND, f"node {node} is not known to this driver")
    if not records.Site(volume.segments, ()).reachable_from(segments):
        raise _failed_precondition(volume, f"cannot be reached from node {node}")


def _check_capability(volume: VolumeRecord, capability: VolumeCapability) -> None:
    if (why := unsupported_reason(volume, (capability,))) is not None:
        raise _failed_precondition(volume, f"does not support the capability: {why}")


def _check_volume_limit(count: int, settings: HostpathSettings, node: str) -> None:
    if 0 < settings.max_volumes_per_node <= count:
        raise DriverError(Code.RESOURCE_EXHAUSTED, f"node {node} already has {count} volumes")


def _many_nodes(capability: VolumeCapability) -> bool:
    return capability.mode in {
        AccessMode.MULTI_NODE_READER_ONLY,
        AccessMode.MULTI_NODE_SINGLE_WRITER,
        AccessMode.MULTI_NODE_MULTI_WRITER,
    }


def _check_absolute(field: str, path: str) -> None:
    if not PurePosixPath(path).is_absolute():
        raise invalid(f"{field} {path!r} is not an absolute path")
