"""Attach, stage, publish and back, decided: the volume's next record, or a refusal. Pure.

Each function is idempotent: the same record comes back when nothing changes. What a node does with its file system is
in `backing`; here is only who may use what, where, and how many at once.
"""

from collections.abc import Container, Iterable
from pathlib import PurePosixPath

import msgspec

from mooring.csi.contract import AccessMode, Code, DriverError, VolumeCapability
from mooring.hostpath.layout import Layout, Settings, Site
from mooring.hostpath.records import Attachment, Phase, Publication, Staging, Volume


def refuse_unready(volume: Volume) -> None:
    if volume.phase is not Phase.READY:
        raise DriverError(Code.ABORTED, f"volume {volume.volume_id} is still {volume.phase}")


def refuse_used(volume: Volume) -> None:
    """The last line of defence of somebody's data."""
    if nodes := volume.nodes():
        raise DriverError(
            Code.FAILED_PRECONDITION, f"volume {volume.volume_id} is in use on node {', '.join(sorted(nodes))}"
        )


def objection(volume: Volume, capabilities: Iterable[VolumeCapability]) -> str | None:
    """Why the volume cannot be used in one of these ways."""
    if any(capability.block != volume.block for capability in capabilities):
        return "the volume is a block volume" if volume.block else "the volume is a mount volume"
    return None


def attached(
    volume: Volume,
    wanted: Attachment,
    layout: Layout,
    settings: Settings,
    *,
    already: int,
) -> Volume:
    """`already` is how many volumes the node has, which count towards its limit."""
    _reach(volume, wanted.node, layout)
    _suit(volume, wanted.capability)
    for known in volume.attached:
        if known.node == wanted.node:
            if known != wanted:
                raise DriverError(
                    Code.ALREADY_EXISTS, f"volume {volume.volume_id} is already published to that node in another way"
                )
            return volume
    if volume.attached and not _many_nodes(wanted.capability):
        raise DriverError(
            Code.FAILED_PRECONDITION, f"volume {volume.volume_id} is published to node {volume.attached[0].node}"
        )
    _leave_room(already, settings, wanted.node)
    return msgspec.structs.replace(volume, attached=(*volume.attached, wanted))


def detached(volume: Volume, node: str) -> Volume:
    """From every node when none is named."""
    kept = tuple(use for use in volume.attached if node and use.node != node)
    busy = {use.node for use in volume.staged} - {use.node for use in kept}
    if busy and kept != volume.attached:
        raise DriverError(
            Code.FAILED_PRECONDITION, f"volume {volume.volume_id} is still staged on node {', '.join(sorted(busy))}"
        )
    return msgspec.structs.replace(volume, attached=kept)


def staged(
    volume: Volume,
    wanted: Staging,
    layout: Layout,
    settings: Settings,
    *,
    already: int,
) -> Volume:
    """`already` is how many volumes are staged there, which count where nothing is attached."""
    _reach(volume, wanted.node, layout)
    _suit(volume, wanted.capability)
    _absolute("staging_target_path", wanted.path)
    if settings.attach and all(use.node != wanted.node for use in volume.attached):
        raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume.volume_id} is not published to node {wanted.node}")
    for known in volume.staged:
        if known.node == wanted.node:
            if known.path != wanted.path:
                raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume.volume_id} is staged at {known.path}")
            if known != wanted:
                raise DriverError(Code.ALREADY_EXISTS, f"volume {volume.volume_id} is staged there in another way")
            return volume
    if not settings.attach:
        _leave_room(already, settings, wanted.node)
    return msgspec.structs.replace(volume, staged=(*volume.staged, wanted))


def unstaged(volume: Volume, node: str, path: str) -> Volume:
    kept = tuple(use for use in volume.staged if (use.node, use.path) != (node, path))
    if kept != volume.staged and any(use.node == node for use in volume.published):
        raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume.volume_id} is still published on node {node}")
    return msgspec.structs.replace(volume, staged=kept)


def published(volume: Volume, wanted: Publication, *, staging: str, layout: Layout) -> Volume:
    _reach(volume, wanted.node, layout)
    _suit(volume, wanted.capability)
    _absolute("target_path", wanted.target)
    if not volume.inline and all((use.node, use.path) != (wanted.node, staging) for use in volume.staged):
        raise DriverError(
            Code.FAILED_PRECONDITION, f"volume {volume.volume_id} is not staged at {staging or 'any path'}"
        )
    for known in volume.published:
        if (known.node, known.target) == (wanted.node, wanted.target):
            if known != wanted:
                raise DriverError(Code.ALREADY_EXISTS, f"volume {volume.volume_id} is published there in another way")
            return volume
    alone = wanted.capability.mode is AccessMode.SINGLE_NODE_SINGLE_WRITER
    if volume.published and (alone or volume.single_writer):
        raise DriverError(
            Code.FAILED_PRECONDITION,
            f"volume {volume.volume_id} has a single writer and is published at {volume.published[0].target}",
        )
    return msgspec.structs.replace(volume, published=(*volume.published, wanted))


def unpublished(volume: Volume, node: str, target: str) -> Volume:
    kept = tuple(use for use in volume.published if (use.node, use.target) != (node, target))
    return msgspec.structs.replace(volume, published=kept)


def let_go(volume: Volume, nodes: Container[str]) -> Volume:
    """Without the uses of nodes that are no longer there: nobody else could ever end them."""
    return msgspec.structs.replace(
        volume,
        attached=tuple(use for use in volume.attached if use.node in nodes),
        staged=tuple(use for use in volume.staged if use.node in nodes),
        published=tuple(use for use in volume.published if use.node in nodes),
    )


def _reach(volume: Volume, node: str, layout: Layout) -> None:
    segments = layout.nodes.get(node)
    if segments is None:
        raise DriverError(Code.NOT_FOUND, f"node {node} is not known to this driver")
    if not Site(volume.segments, ()).reachable_from(segments):
        raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume.volume_id} cannot be reached from node {node}")


def _suit(volume: Volume, capability: VolumeCapability) -> None:
    if (why := objection(volume, (capability,))) is not None:
        raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume.volume_id} cannot be used so: {why}")


def _leave_room(count: int, settings: Settings, node: str) -> None:
    if 0 < settings.max_volumes_per_node <= count:
        raise DriverError(Code.RESOURCE_EXHAUSTED, f"node {node} already has {count} volumes")


def _many_nodes(capability: VolumeCapability) -> bool:
    return capability.mode in {
        AccessMode.MULTI_NODE_READER_ONLY,
        AccessMode.MULTI_NODE_SINGLE_WRITER,
        AccessMode.MULTI_NODE_MULTI_WRITER,
    }


def _absolute(field: str, path: str) -> None:
    if not PurePosixPath(path).is_absolute():
        raise DriverError(Code.INVALID_ARGUMENT, f"{field} {path!r} is not an absolute path")
