"""The last step of a volume's way out: its object, and the finalizer that kept the object until now."""

import contextlib

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.volume import Volume
from mooring.client.contract import Client

log: FilteringBoundLogger = structlog.get_logger(__name__)


async def remove_object(client: Client, volume: Volume) -> None:
    """For a volume whose storage is gone. Raises ApiError and Unreachable."""
    with contextlib.suppress(NotFound):
        await client.delete(VOLUME, volume.name, uid=volume.uid)
        terminating = await client.get(VOLUME, volume.name)
        if terminating.uid == volume.uid:
            await drop_finalizer(client, terminating)
    log.info("volume deleted", volume=volume.name)


async def drop_finalizer(client: Client, volume: Volume) -> None:
    if keys.EXTERNAL_PROVISIONER in volume.metadata.finalizers:
        rest = tuple(each for each in volume.metadata.finalizers if each != keys.EXTERNAL_PROVISIONER)
        await write_finalizers(client, volume, rest)


async def write_finalizers(client: Client, volume: Volume, finalizers: tuple[str, ...]) -> None:
    version = volume.metadata.resource_version
    body = {"metadata": {"resourceVersion": version, "finalizers": list(finalizers) or None}}
    with contextlib.suppress(NotFound):
        await client.patch(VOLUME, volume.name, MergePatch(body))
