"""Files only their owner may read."""

import os
import stat
from pathlib import Path

import pytest

from mooring.server.auth.server_files import write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_and_folders_are_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "key"
    write_private(file, b"secret")
    assert (file.read_bytes(), mode(file), mode(file.parent)) == (b"secret", 0o600, 0o700)


def test_a_file_that_was_open_to_others_no_longer_is(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"old")
    file.chmod(0o644)
    write_private(file, b"new")
    assert (file.read_bytes(), mode(file)) == (b"new", 0o600)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    write_private(file, b"old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_private(file, b"new")
    assert {found.name: found.read_bytes() for found in tmp_path.iterdir()} == {"key": b"old"}
