"""A server that does not serve CSIStorageCapacity, as older ones do not."""

from collections.abc import AsyncGenerator
from typing import Any

from mooring.api.errors import no_such_resource
from mooring.api.kinds import STORAGE_CAPACITY
from mooring.client.contract import WatchEvent
from mooring.cluster.local_client import LocalClient


class OlderServer(LocalClient):
    async def watch(self, kind: Any, **how: Any) -> AsyncGenerator[WatchEvent[Any], None]:  # noqa: ANN401 - of any kind
        if kind is STORAGE_CAPACITY:
            raise no_such_resource()
        async for event in super().watch(kind, **how):
            yield event
