"""Keeps CSIStorageCapacity objects true while played drivers make and delete volumes, as their own publishers would.

The objects are the ones that were listed: nobody else publishes here, and what is left is read off them in the end.
"""

import asyncio
from typing import Any, Final

from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import STORAGE_CAPACITY
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_micro_time
from mooring.control.component import Component, Context
from mooring.provisioner.volume_object import size
from mooring.sim.whatif.pools import Pool, Pools, Taken

#: Seconds between a volume and the figure that has seen it: publishers ask their driver after a moment, and a figure
#: counts as later than a volume only if its moment is.
DELAY: Final = 1.0


class Figures:
    name = "capacity-figures"

    def __init__(self, context: Context, pools: Pools) -> None:
        self._client = context.client
        self._clock = context.clock
        self._pools = pools
        self._due: set[str] = set()
        self._news = asyncio.Event()
        self.ready = False

    def changed(self, taken: Taken) -> None:
        if taken.pools:
            self._due.update(taken.pools)
            self._news.set()

    async def run(self) -> None:
        self.ready = True
        while True:
            await self._news.wait()
            await self._clock.sleep(DELAY)
            due, self._due = sorted(self._due), set()
            self._news.clear()
            for key in due:
                await self._publish(self._pools[key])

    async def _publish(self, pool: Pool) -> None:
        namespace, _, name = pool.key.partition("/")
        notes = {keys.CAPACITY_POLLED_AT: to_micro_time(self._clock.now())}
        body = {"metadata": {"annotations": notes}, **figures(pool)}
        try:
            await self._client.patch(STORAGE_CAPACITY, name, MergePatch(body), namespace=namespace)
        except NotFound:
            # SEEN: taken away with its nodes; nobody looks at it any more.
            return


def figures(pool: Pool) -> dict[str, Any]:
    """What its object says of a pool."""
    capacity = {"capacity": size(pool.free)}
    return capacity | ({"maximumVolumeSize": size(pool.largest)} if pool.tells_largest else {})


def _contract(figures: Figures) -> Component:
    return figures
