"""A store that fails as the weather has it: the API server's disk in the simulated world.

Stands around any store. Only components' writes are struck, as with the network: the user of a scenario is never told
that something failed, so that scenarios say what they mean. Reads do not fail; what the API server answers from is in
its memory.
"""

from typing import Final

from mooring.api.kinds import EVENT
from mooring.clock import Clock
from mooring.sim.faults import BadWrite, StoreTrouble
from mooring.sim.history import OUTSIDERS, History, actor
from mooring.sim.weather import Weather
from mooring.store.contract import Change, Listing, Record, Revision, Store, StoreError, Watch

_EVENTS: Final = EVENT.store_prefix()


class FaultyStore:
    def __init__(self, store: Store, weather: Weather, history: History, clock: Clock) -> None:
        self._store = store
        self._weather = weather
        self._history = history
        self._clock = clock

    @property
    def revision(self) -> Revision:
        return self._store.revision

    def count(self, prefix: str) -> int:
        return self._store.count(prefix)

    async def catch_up(self) -> None:
        await self._store.catch_up()

    async def get(self, key: str) -> Record | None:
        return await self._store.get(key)

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        return await self._store.list(prefix, at=at, start=start, limit=limit)

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        trouble = self._next(key)
        if trouble is None:
            return await self._store.write(key, value, expect=expect, given=given)
        self._history.note("store", f"{actor().who}, {key}: {trouble.trouble.value}")
        if trouble.trouble is StoreTrouble.FAILED:
            raise StoreError(trouble.trouble.value)
        await self._clock.sleep(trouble.seconds)
        change = await self._store.write(key, value, expect=expect, given=given)
        if trouble.trouble is StoreTrouble.FAILED_AFTERWARDS:
            raise StoreError(trouble.trouble.value)
        return change

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        return await self._store.watch(prefix, after=after)

    async def close(self) -> None:
        await self._store.close()

    def _next(self, key: str) -> BadWrite | None:
        if key.startswith(_EVENTS) or actor().who in OUTSIDERS:
            return None
        return self._weather.next_store_write()


_contract: type[Store] = FaultyStore
