"""Mount records: durable once awaited, and many in one commit."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mooring.cluster.storage import MOUNTS_FOLDER, open_mount_records
from mooring.nodeagent.mounts import Mount
from mooring.store.sqlite import SqliteFile


def a_mount(folder: Path, number: int = 1) -> Mount:
    here = folder / "node-1"
    return Mount("node-1", f"uid-{number}", "data", "csi", f"disk-{number}", f"{here}/pods/{number}/mount", f"{here}/s")


async def loaded(folder: Path) -> list[Mount]:
    async with open_mount_records(folder) as mounts:
        return mounts.load()


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records of each transaction, all of which sync the file once."""
    sizes: list[int] = []
    commit = SqliteFile.commit

    def counted(file: SqliteFile, results: dict[str, object], revision: int) -> None:
        sizes.append(len(results))
        commit(file, results, revision)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteFile, "commit", counted)
    return sizes


async def test_a_restart_finds_what_was_recorded_and_not_removed(tmp_path: Path) -> None:
    async with open_mount_records(tmp_path) as mounts:
        await mounts.record(a_mount(tmp_path))
        assert (tmp_path / "node-1/pods/1").is_dir()
        assert (tmp_path / "node-1/s").is_dir()
    async with open_mount_records(tmp_path) as mounts:
        assert mounts.load() == [a_mount(tmp_path)]
        await mounts.remove(a_mount(tmp_path))
        await mounts.remove(a_mount(tmp_path))
    assert await loaded(tmp_path) == []


async def test_a_record_may_be_replaced(tmp_path: Path) -> None:
    other = msgspec.structs.replace(a_mount(tmp_path), handle="disk-2")
    async with open_mount_records(tmp_path) as mounts:
        await mounts.record(a_mount(tmp_path))
        await mounts.record(other)
    assert await loaded(tmp_path) == [other]


async def test_a_hundred_mounts_at_once_are_a_few_commits(tmp_path: Path, commits: list[int]) -> None:
    async with open_mount_records(tmp_path) as mounts:
        await asyncio.gather(*(mounts.record(a_mount(tmp_path, number)) for number in range(100)))
        assert sum(commits) == 100
        assert len(commits) <= 2
        await asyncio.gather(*(mounts.remove(a_mount(tmp_path, number)) for number in range(100)))
        assert len(commits) <= 4


async def test_files_of_an_earlier_version_are_imported(tmp_path: Path) -> None:
    (tmp_path / MOUNTS_FOLDER).mkdir()
    file = tmp_path / MOUNTS_FOLDER / "uid-1.data.json"
    file.write_bytes(msgspec.json.encode(a_mount(tmp_path)))
    assert await loaded(tmp_path) == [a_mount(tmp_path)]
    assert not file.exists()
    assert await loaded(tmp_path) == [a_mount(tmp_path)]


#: Prints the number of each mount once it is acknowledged; removes every third.
WRITER = """
import asyncio, sys
from pathlib import Path
from mooring.cluster.storage import open_mount_records
from mooring.nodeagent.mounts import Mount

async def one(mounts, folder, number):
    mount = Mount("node-1", f"uid-{number}", "data", "csi", "disk", f"{folder}/pods/{number}/mount")
    await mounts.record(mount)
    print(f"+{number}", flush=True)
    if not number % 3:
        await mounts.remove(mount)
        print(f"-{number}", flush=True)

async def main(folder):
    async with open_mount_records(Path(folder)) as mounts:
        for start in range(0, 1_000_000, 20):
            await asyncio.gather(*(one(mounts, folder, start + number) for number in range(20)))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("after", [1, 37, 150])
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, after: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(after)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    told = [line for line in (*lines, *rest.splitlines(keepends=True)) if line.endswith("\n")]
    recorded = {int(line[1:]) for line in told if line[0] == "+"}
    removed = {int(line[1:]) for line in told if line[0] == "-"}
    found = {int(mount.pod.removeprefix("uid-")) for mount in asyncio.run(loaded(tmp_path))}
    # A removal may be durable and not acknowledged.
    assert {number for number in recorded if number % 3} <= found
    assert not removed & found
