"""A server that does not serve CSIStorageCapacity, like older releases, until it is upgraded."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from mooring.api.errors import no_such_resource
from mooring.api.kinds import STORAGE_CAPACITY
from mooring.client.contract import WatchEvent
from mooring.cluster.local_client import LocalClient


class OlderServer(LocalClient):
    upgraded = False

    async def watch(self, kind: Any, **how: Any) -> AsyncGenerator[WatchEvent[Any], None]:  # noqa: ANN401 - of any kind
        if kind is STORAGE_CAPACITY and not self.upgraded:
            raise no_such_resource()
        async for event in super().watch(kind, **how):
            yield event


def upgradable() -> tuple[type[OlderServer], Callable[[], None]]:
    """A client of an older server, and a function that upgrades the server."""

    class Upgradable(OlderServer):
        pass

    def upgrade() -> None:
        Upgradable.upgraded = True

    return Upgradable, upgrade
