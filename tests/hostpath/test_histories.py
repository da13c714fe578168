"""Random histories of a driver, restarts included, against a model that fits on a screen."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.csi.contract import Code, DriverError, Topology
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.records import HostpathSettings, central
from mooring.hostpath.state_file import MemoryState
from support.builders.hostpath import MOUNT, SHARED, a_pool, a_request, a_volume_store

T = TypeVar("T")

POOL_BYTES = 10
LIMIT = 2
NODES = {"n1": {"zone": "a"}, "n2": {"zone": "a"}, "n3": {"zone": "b"}}
ZONES = ("a", "b")


class Made(NamedTuple):
    volume_id: str
    size: int
    copies: int
    zone: str


@dataclass
class Model:
    """What an attentive observer knows."""

    made: dict[str, Made] = field(default_factory=dict)
    staged: set[tuple[str, str]] = field(default_factory=set)
    ever: set[str] = field(default_factory=set)

    def free_bytes(self, zone: str) -> int:
        return POOL_BYTES - sum(made.size * made.copies for made in self.made.values() if made.zone == zone)

    def may_stage(self, name: str, node: str) -> bool:
        made = self.made[name]
        if (made.volume_id, node) in self.staged:
            return True
        return made.zone == NODES[node]["zone"] and sum(where == node for _, where in self.staged) < LIMIT


NAMES = st.sampled_from(["pvc-1", "pvc-2", "pvc-3", "pvc-4"])
CREATE = st.tuples(st.just("create"), NAMES, st.integers(1, 6), st.sampled_from(ZONES), st.sampled_from([1, 2]))
DELETE = st.tuples(st.just("delete"), NAMES)
STAGE = st.tuples(st.just("stage"), NAMES, st.sampled_from(sorted(NODES)))
UNSTAGE = st.tuples(st.just("unstage"), NAMES, st.sampled_from(sorted(NODES)))
RESTART = st.tuples(st.just("restart"))
HISTORIES = st.lists(st.one_of(CREATE, DELETE, STAGE, UNSTAGE, RESTART), max_size=40)


class Observed:
    def __init__(self) -> None:
        self.model = Model()
        self._store = MemoryState()

    async def start(self) -> None:
        layout = central(NODES, pools=(a_pool(size=POOL_BYTES),))
        self._volume_store = await a_volume_store(
            layout, settings=HostpathSettings(max_volumes_per_node=LIMIT), store=self._store
        )
        self._driver = Hostpath(self._volume_store, "n1")

    async def create(self, name: str, size: int, zone: str, copies: int) -> None:
        parameters = {"kind": "mirrored" if copies == 2 else "striped"}
        request = a_request(name, size, preferred=({"zone": zone},), parameters=parameters)
        known = self.model.made.get(name)
        code, volume = await _outcome(self._driver.create_volume(request, secrets={}))
        if known is not None:
            if (zone, copies) == (known.zone, known.copies) and size <= known.size:
                assert volume is not None
                assert volume.volume_id == known.volume_id
            else:
                assert code is Code.ALREADY_EXISTS
        elif size * copies <= self.model.free_bytes(zone):
            assert volume is not None
            assert volume.volume_id not in self.model.ever, "an id is never given twice"
            self.model.ever.add(volume.volume_id)
            self.model.made[name] = Made(volume.volume_id, size, copies, zone)
        else:
            assert code is Code.RESOURCE_EXHAUSTED

    async def delete(self, name: str) -> None:
        known = self.model.made.get(name)
        volume_id = "v999999-0000000000000000" if known is None else known.volume_id
        code, _ = await _outcome(self._driver.delete_volume(volume_id, secrets={}))
        if any(used == volume_id for used, _ in self.model.staged):
            assert code is Code.FAILED_PRECONDITION, "what is in use stays"
        else:
            assert code is None
            self.model.made.pop(name, None)

    async def stage(self, name: str, node: str) -> None:
        known = self.model.made.get(name)
        if known is None:
            return
        there = Hostpath(self._volume_store, node)
        code, _ = await _outcome(there.stage(known.volume_id, staging_target=f"/{name}", capability=SHARED))
        assert (code is None) is self.model.may_stage(name, node)
        if code is None:
            self.model.staged.add((known.volume_id, node))

    async def unstage(self, name: str, node: str) -> None:
        known = self.model.made.get(name)
        if known is not None:
            await Hostpath(self._volume_store, node).unstage(known.volume_id, staging_target=f"/{name}")
            self.model.staged.discard((known.volume_id, node))

    async def restart(self) -> None:
        await self.start()

    async def compare(self) -> None:
        listed = {volume.volume_id for volume in await self._driver.list_volumes()}
        assert listed == {made.volume_id for made in self.model.made.values()}
        for zone in ZONES:
            to_csi = await self._driver.get_capacity(
                capabilities=(MOUNT,), parameters={}, accessible_from=Topology({"zone": zone})
            )
            assert to_csi.available_bytes == self.model.free_bytes(zone) >= 0


async def _outcome(call: Awaitable[T]) -> tuple[Code | None, T | None]:
    try:
        return None, await call
    except DriverError as error:
        return error.code, None


@settings(max_examples=150)
@given(history=HISTORIES)
def test_whatever_happens_the_books_are_right(history: list[tuple[str, ...]]) -> None:
    async def live() -> None:
        observed = Observed()
        await observed.start()
        for step, *arguments in history:
            await getattr(observed, step)(*arguments)
            await observed.compare()

    asyncio.run(live())
