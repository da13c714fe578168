"""What provisioning tells whoever publishes the room that is left: that something was made, removed, or did not fit."""

from typing import Protocol

from mooring.api.views.volume import Volume
from mooring.provisioner.planning import Plan


class Room(Protocol):
    def made(self, volume: Volume) -> None: ...

    def removed(self, volume: Volume) -> None: ...

    def failed(self, storage_class: str) -> None: ...

    async def refresh(self, plan: Plan) -> None:
        """Publish what is left where the plan wanted its volume; gives up after a moment."""
        ...


class Unpublished:
    """Nobody publishes."""

    def made(self, volume: Volume) -> None: ...

    def removed(self, volume: Volume) -> None: ...

    def failed(self, storage_class: str) -> None: ...

    async def refresh(self, plan: Plan) -> None: ...


_contract: Room = Unpublished()
