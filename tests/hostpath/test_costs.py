"""Calls of the driver cost the same with ten volumes and with many; a list costs the same for each of its entries."""

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from mooring.hostpath.driver import Hostpath
from mooring.hostpath.files import MEASURED_AT_ONCE, Files, Links
from mooring.hostpath.records import PersistedState, VolumeRecord, central, one_node
from mooring.hostpath.state_file import MemoryState, RecordChange, StateFile
from support.builders.hostpath import GIB, MOUNT, a_pool, a_request, a_volume_store

FEW, MANY = 10, 100_000
NODES = {f"n{number}": {"zone": f"z{number}"} for number in range(10)}
HERE = {"zone": "z1"}


def at_rest(count: int) -> list[VolumeRecord]:
    return [
        VolumeRecord(
            volume_id=f"v{number:06d}-{number:016x}",
            name=f"pvc-{number}",
            size=1,
            block=False,
            segments={"zone": f"z{number % 10}"},
            pool="default",
            kind=a_pool().kind,
        )
        for number in range(1, count + 1)
    ]


class Loaded(MemoryState):
    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    async def load(self) -> PersistedState:
        return PersistedState(self._count, tuple(at_rest(self._count)))


async def lines(call: Callable[[], Awaitable[object]]) -> int:
    """Lines of Mooring that a call runs, comprehensions included."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401  # as typeshed declares it
        nonlocal count
        # Elsewhere, the garbage collector may run finalizers at any time.
        if "/mooring/" not in frame.f_code.co_filename:
            return None
        count += event in ("line", "call")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        await call()
    finally:
        sys.settrace(before)
    return count


async def costs(count: int) -> dict[str, int]:
    layout = central(NODES, pools=(a_pool(size=1000 * GIB),))
    driver = Hostpath(await a_volume_store(layout, store=Loaded(count)), "n1")
    made = {}

    async def create() -> None:
        made["volume"] = await driver.create_volume(a_request("new", preferred=(HERE,)), secrets={})

    async def publish(target: str = "/target") -> None:
        volume = made["volume"].volume_id
        await driver.publish(volume, target=target, staging_target="/s", capability=MOUNT, read_only=False)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "create": create,
        "create again": create,
        "capacity": lambda: driver.get_capacity(capabilities=(), parameters={}, accessible_from=None),
        "get": lambda: driver.get_volume(made["volume"].volume_id),
        "stage": lambda: driver.stage(made["volume"].volume_id, staging_target="/s", capability=MOUNT),
        "publish": publish,
        "unpublish": lambda: driver.unpublish(made["volume"].volume_id, target="/target"),
        "unstage": lambda: driver.unstage(made["volume"].volume_id, staging_target="/s"),
        "delete": lambda: driver.delete_volume(made["volume"].volume_id, secrets={}),
    }
    return {name: await lines(call) for name, call in calls.items()}


async def test_calls_cost_the_same_with_many_volumes() -> None:
    assert await costs(FEW) == await costs(MANY)


async def test_list_costs_the_same_for_each_volume() -> None:
    found = []
    for count in (100, 200, 400):
        driver = Hostpath(await a_volume_store(central(NODES), store=Loaded(count)), "n1")
        found.append(await lines(driver.list_volumes))
    assert found[2] - found[1] == 2 * (found[1] - found[0])


async def test_commit_costs_the_same_with_many_records(tmp_path: Path) -> None:
    """Counted in instructions of SQLite's virtual machine."""
    steps = []
    for count in (FEW, MANY):
        state = StateFile(tmp_path / str(count))
        state.open()
        database = state._database  # no other way to count
        records = at_rest(count + 1)
        state._commit([RecordChange(each.volume_id, each, 0) for each in records[:-1]])
        taken = 0

        def step() -> int:
            nonlocal taken
            taken += 1
            return 0

        database.set_progress_handler(step, 1)
        await state.write(RecordChange(records[-1].volume_id, records[-1], count))
        await state.write(RecordChange(records[-1].volume_id, None, count))
        database.set_progress_handler(None, 1)
        state.close()
        steps.append(taken)
    assert steps[0] == steps[1] > 0


@pytest.fixture
def _constant_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes use the real one meanwhile."""
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=100 * GIB, f_frsize=1))


@pytest.mark.usefixtures("_constant_disk")
@pytest.mark.parametrize("count", [MEASURED_AT_ONCE, 4 * MEASURED_AT_ONCE])
async def test_free_bytes_of_a_file_system_measure_few_volumes(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Path] = []

    def occupied(path: Path) -> int:
        measured.append(path)
        return 0

    monkeypatch.setattr("mooring.hostpath.files._occupied", occupied)
    files = Files(tmp_path, Links())
    for volume in at_rest(count):
        files.reserve(volume)
    free = await files.free()
    assert len(measured) == MEASURED_AT_ONCE
    for _ in range(3):
        assert await files.free() == free
    assert len(set(measured)) == count, "each has its turn"


@pytest.mark.usefixtures("_constant_disk")
async def test_what_volumes_wrote_is_noticed_when_they_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.hostpath.files._occupied", lambda _path: GIB)
    files = Files(tmp_path, Links())
    volumes = at_rest(2 * MEASURED_AT_ONCE)
    before = await files.free()
    for volume in volumes:
        files.reserve(volume)
    assert before - await files.free() < len(volumes), "only promises that are not written yet count"
    for volume in volumes:
        files.release(volume.volume_id)
    assert await files.free() == before


def test_default_layout_measures_the_file_system() -> None:
    assert not one_node("n").sized
