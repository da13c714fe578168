"""The ledger in a file: whole at any time, one driver at a time."""

import stat
from pathlib import Path

import pytest

from builders.hostpath import ALONE, GIB, MOUNT
from mooring.hostpath.layout import Kind
from mooring.hostpath.ledger import Kept
from mooring.hostpath.records import Attachment, Phase, Publication, Staging, Volume
from mooring.hostpath.state_file import StateFile, StateUnusable

FULL = Kept(
    7,
    (
        Volume(
            "v000007-00000000000000ff",
            "pvc-1",
            GIB,
            block=True,
            pool="fast",
            kind=Kind.MIRRORED,
            segments={"zone": "a"},
            wanted_pool="fast",
            phase=Phase.CREATING,
            attached=(Attachment("n1", MOUNT, True),),
            staged=(Staging("n1", "/staging", ALONE),),
            published=(Publication("n1", "/pod", MOUNT, False),),
        ),
        Volume("csi-1", "", 1, block=False, pool="p", kind=Kind.STRIPED, segments={}, inline=True),
    ),
)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    assert await StateFile(tmp_path).load() == Kept()
    await StateFile(tmp_path).save(FULL)
    assert await StateFile(tmp_path).load() == FULL
    await StateFile(tmp_path).save(Kept(8))
    assert await StateFile(tmp_path).load() == Kept(8)
    assert names(tmp_path) == ["state.json"]
    assert mode(tmp_path / "state.json") == 0o600


async def test_a_write_that_was_cut_short_does_not_count(tmp_path: Path) -> None:
    await StateFile(tmp_path).save(FULL)
    (tmp_path / "state.partial").write_text('{"serial": 9, "volu')
    assert await StateFile(tmp_path).load() == FULL


async def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"serial": 9, "volu')
    with pytest.raises(StateUnusable, match=r"state\.json is damaged: .* repair it, or move it away"):
        await StateFile(tmp_path).load()


def test_a_folder_has_one_driver(tmp_path: Path) -> None:
    first, second = StateFile(tmp_path / "new"), StateFile(tmp_path / "new")
    first.open()
    with pytest.raises(StateUnusable, match="another driver uses"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnusable, match=f"cannot use {tmp_path}/file/state"):
        StateFile(tmp_path / "file" / "state").open()
