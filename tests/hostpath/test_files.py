"""Volumes as they lie on disk, and on their way to a pod."""

import os
import stat
from pathlib import Path

import pytest

from mooring.hostpath.files import BindMounts, Files, Links, Publisher, can_mount, mounted, withdraw
from mooring.hostpath.records import PoolKind, Publication, VolumeRecord
from support.builders.hostpath import GIB, MOUNT


def a_volume(name: str = "v1", *, block: bool = False, size: int = GIB) -> VolumeRecord:
    return VolumeRecord(name, name, size, block=block, pool="default", kind=PoolKind.STRIPED, segments={})


def needs_mounts() -> None:
    if not can_mount():
        pytest.skip("bind mounts are not allowed here")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "volumes", Links())


async def test_mount_volume_is_a_world_writable_directory(files: Files, tmp_path: Path) -> None:
    for _ in range(2):
        await files.create(a_volume())
    folder = tmp_path / "volumes" / "v1"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o711, "found only by those who know its id"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "data").write_text("x")
    for _ in range(2):
        await files.remove(a_volume())
    assert list((tmp_path / "volumes").iterdir()) == []


async def test_a_block_volume_is_a_sparse_file_of_its_size(files: Files, tmp_path: Path) -> None:
    await files.create(a_volume(block=True))
    file = tmp_path / "volumes" / "v1"
    with file.open("r+b") as opened:
        opened.write(b"data")
    await files.create(a_volume(block=True))
    facts = file.stat()
    assert facts.st_size == GIB
    assert facts.st_blocks * 512 < GIB // 100
    with file.open("rb") as opened:
        assert opened.read(4) == b"data"
    for _ in range(2):
        await files.remove(a_volume(block=True))
    assert not file.exists()


async def test_promises_count_in_full_and_data_once(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk of 1,000 MiB, most of it promised; what is written lessens what the system has left, and no promise."""
    mebibyte, free_bytes = 1 << 20, 1000

    def disk(_path: object) -> os.statvfs_result:
        return os.statvfs_result((512, mebibyte, free_bytes, free_bytes, free_bytes, 0, 0, 0, 0, 255))

    monkeypatch.setattr("mooring.hostpath.files.os.statvfs", disk)
    assert await files.free() == 1000 * mebibyte
    folder, block = a_volume("v1", size=300 * mebibyte), a_volume("v2", block=True, size=200 * mebibyte)
    await files.create(folder)
    await files.create(block)
    files.reserve(folder)
    files.reserve(block)
    promised = await files.free()
    assert promised == pytest.approx(500 * mebibyte, abs=mebibyte), "an empty folder takes a block or two"
    (tmp_path / "volumes" / "v1" / "deep").mkdir()
    (tmp_path / "volumes" / "v1" / "deep" / "data").write_bytes(bytes(5 * mebibyte))
    free_bytes -= 5
    assert await files.free() == pytest.approx(promised, abs=mebibyte)
    free_bytes = 400
    assert await files.free() < 0, "other files filled the disk: nothing is free"


@pytest.mark.parametrize("block", [False, True], ids=["folder", "file"])
@pytest.mark.parametrize("way", [Links, BindMounts])
async def test_a_volume_is_seen_at_its_target_and_gone_again(tmp_path: Path, way: type[Publisher], block: bool) -> None:
    if way is BindMounts:
        needs_mounts()
    files = Files(tmp_path / "volumes", way())
    volume = a_volume(block=block, size=4096)
    await files.create(volume)
    target = tmp_path / "a pod\\with odd" / "target"
    target.parent.mkdir()
    shown = Publication("n", str(target), MOUNT, read_only=False)
    for _ in range(2):
        await files.publish(volume, shown)
    assert target.stat().st_ino == (tmp_path / "volumes" / "v1").stat().st_ino
    for _ in range(2):
        await files.withdraw(shown)
    assert list(target.parent.iterdir()) == []
    assert (tmp_path / "volumes" / "v1").exists()


def test_a_path_is_never_an_option_of_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source or target that begins with a dash stands after `--`."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr("mooring.hostpath.files._run", lambda *command: commands.append(command))
    monkeypatch.setattr("mooring.hostpath.files.mounted", lambda _: bool(commands))
    monkeypatch.chdir(tmp_path)
    source, target = Path("-osource"), Path("-otarget")
    source.mkdir()
    BindMounts().publish(source, target, read_only=True)
    withdraw(target)
    assert [command[0] for command in commands] == ["mount", "mount", "umount"]
    for command in commands:
        assert {part for part in command if part in ("-osource", "-otarget")} <= set(command[command.index("--") :])


def test_a_read_only_mount_cannot_be_written_to(tmp_path: Path) -> None:
    needs_mounts()
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    BindMounts().publish(source, target, read_only=True)
    try:
        assert mounted(target)
        with pytest.raises(OSError, match="Read-only file system"):
            (target / "data").touch()
    finally:
        withdraw(target)
    assert not mounted(target)


def test_a_folder_made_beforehand_is_replaced_by_the_link(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    Links().publish(source, target, read_only=False)
    assert target.readlink() == source


@pytest.mark.parametrize("way", [Links, BindMounts])
def test_foreign_files_at_the_target_stay(tmp_path: Path, way: type[Publisher]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.touch()
    target.mkdir()
    (target / "precious").touch()
    with pytest.raises(OSError, match=r"not empty|directory"):
        way().publish(source, target, read_only=False)
    assert (target / "precious").exists()


def test_a_mount_that_fails_leaves_no_target(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"special device|must be superuser|permission denied|No such file"):
        BindMounts().publish(tmp_path / "gone", tmp_path / "target", read_only=False)
    assert not (tmp_path / "target").exists()
