"""The driver's records in a database: durable, bounded cost per change, one driver at a time."""

import asyncio
import errno
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mooring.hostpath.records import (
    Attachment,
    PersistedState,
    PoolKind,
    Publication,
    Staging,
    VolumePhase,
    VolumeRecord,
)
from mooring.hostpath.state_file import RecordChange, StateFile, StateStore, StateUnusable
from support.builders.hostpath import ALONE, GIB, MOUNT


def a_volume(volume_id: str, *, size: int = 1, pool: str = "p") -> VolumeRecord:
    return VolumeRecord(volume_id, volume_id, size, block=False, pool=pool, kind=PoolKind.STRIPED, segments={})


FULL = PersistedState(
    7,
    (
        VolumeRecord("csi-1", "", 1, block=False, pool="p", kind=PoolKind.STRIPED, segments={}, inline=True),
        VolumeRecord(
            "v000007-00000000000000ff",
            "pvc-1",
            GIB,
            block=True,
            pool="fast",
            kind=PoolKind.MIRRORED,
            segments={"zone": "a"},
            requested_pool="fast",
            phase=VolumePhase.CREATING,
            attached=(Attachment("n1", MOUNT, True),),
            staged=(Staging("n1", "/staging", ALONE),),
            published=(Publication("n1", "/pod", MOUNT, False),),
        ),
    ),
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def opened(folder: Path) -> Iterator[StateFile]:
    state = StateFile(folder)
    state.open()
    try:
        yield state
    finally:
        state.close()


async def persist(state: StateStore, kept: PersistedState) -> None:
    for volume in kept.volumes:
        await state.write(RecordChange(volume.volume_id, volume, kept.serial))


async def test_records_come_back(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        assert await state.load() == PersistedState()
        await persist(state, FULL)
    with opened(tmp_path) as state:
        assert await state.load() == FULL
        await state.write(RecordChange("csi-1", None, 9))
    with opened(tmp_path) as state:
        assert await state.load() == PersistedState(9, FULL.volumes[1:])
    assert mode(tmp_path / "state.db") == 0o600


async def test_the_serial_never_goes_back(tmp_path: Path) -> None:
    """Changes of different volumes may be flushed in another order than their ids were given."""
    with opened(tmp_path) as state:
        await state.write(RecordChange("b", None, 2))
        await state.write(RecordChange("a", None, 1))
        assert (await state.load()).serial == 2


async def test_writes_that_wait_together_share_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    commit = StateFile._commit

    def counted(self: StateFile, changes: Sequence[RecordChange]) -> None:
        commits.append(len(changes))
        commit(self, changes)

    monkeypatch.setattr(StateFile, "_commit", counted)
    volumes = [a_volume(f"v{number:06d}") for number in range(100)]
    with opened(tmp_path) as state:
        await asyncio.gather(*(state.write(RecordChange(one.volume_id, one, 1)) for one in volumes))
        assert (await state.load()).volumes == tuple(volumes)
    assert sum(commits) == 100
    assert len(commits) <= 2, "one for the first, one for all that came meanwhile"


async def test_a_change_costs_the_same_however_many_volumes_there_are(tmp_path: Path) -> None:
    """Counted in SQLite's own steps."""

    async def steps(count: int) -> int:
        with opened(tmp_path / str(count)) as state:
            volumes = [a_volume(f"v{number:06d}") for number in range(count)]
            await asyncio.gather(*(state.write(RecordChange(one.volume_id, one, 1)) for one in volumes))
            ticks = 0

            def tick() -> None:
                nonlocal ticks
                ticks += 1

            state._database.set_progress_handler(tick, 1)
            await state.write(RecordChange("v000003", a_volume("v000003", size=2), 1))
            return ticks

    assert await steps(5_000) <= 1.5 * await steps(10)


async def test_a_disk_that_is_full_says_so_and_the_change_is_not_there(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        await persist(state, FULL)
        (pages,) = state._database.execute("PRAGMA page_count").fetchone()
        state._database.execute(f"PRAGMA max_page_count = {pages}")
        huge = a_volume("v9", pool="p" * 1_000_000)
        with pytest.raises(OSError, match="full") as caught:
            await state.write(RecordChange("v9", huge, 8))
        assert caught.value.errno == errno.ENOSPC
        assert await state.load() == FULL
        await state.write(RecordChange("csi-1", None, 9))


async def test_the_json_document_of_earlier_versions_is_imported_once(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(FULL))
    with opened(tmp_path) as state:
        assert await state.load() == FULL
        await state.write(RecordChange("csi-1", None, 9))
    with opened(tmp_path) as state:
        assert (await state.load()).serial == 9, "not imported again"
    assert not (tmp_path / "state.json").exists()
    assert (tmp_path / "state.json.imported").exists()


async def test_interrupted_import_is_not_repeated(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        await state.write(RecordChange("v9", a_volume("v9"), 9))
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(FULL))
    with opened(tmp_path) as state:
        assert [volume.volume_id for volume in (await state.load()).volumes] == ["v9"]


@pytest.mark.parametrize("name", ["state.db", "state.json"])
def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"serial": 9, "volu' * 100)
    with pytest.raises(StateUnusable, match=rf"{name} is damaged: .* move it away"), opened(tmp_path):
        pass


async def test_closing_waits_for_the_thread_of_a_caller_that_has_left(tmp_path: Path) -> None:
    """SQLite ends the process where a database is closed that another thread uses."""
    volumes = tuple(a_volume(f"v{number:06d}", pool="p" * 1000) for number in range(2000))
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(PersistedState(1, volumes)))
    for pause in (0, 0.0005, 0.002):
        state = StateFile(tmp_path)
        state.open()
        loading = asyncio.create_task(state.load())
        await asyncio.sleep(pause)
        loading.cancel()
        state.close()
        with pytest.raises(asyncio.CancelledError):
            await loading


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        state._database.execute("PRAGMA user_version = 99")
    with pytest.raises(StateUnusable, match="has format 99"), opened(tmp_path):
        pass


def test_a_folder_has_one_driver(tmp_path: Path) -> None:
    first, second = StateFile(tmp_path / "new"), StateFile(tmp_path / "new")
    first.open()
    with pytest.raises(StateUnusable, match="another driver uses"):
        second.open()
    first.close()
    with opened(tmp_path / "new"):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnusable, match=f"cannot use {tmp_path}/file/state"):
        StateFile(tmp_path / "file" / "state").open()
