"""The key of the service accounts, on disk."""

import stat
from pathlib import Path

import pytest

from mooring.server.authentication.signing_key_file import BadSigningKey, ensure_signing_key


def test_it_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    first = ensure_signing_key(folder)
    assert ensure_signing_key(folder).id == first.id
    assert stat.S_IMODE((folder / "sa.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_broken_one_is_not_replaced_in_silence(tmp_path: Path) -> None:
    (tmp_path / "sa.key").write_text("nonsense")
    with pytest.raises(BadSigningKey, match=r"sa\.key does not hold a key .* remove it to get a new one"):
        ensure_signing_key(tmp_path)
    assert (tmp_path / "sa.key").read_text() == "nonsense"
