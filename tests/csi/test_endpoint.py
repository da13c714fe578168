"""The ways to write a Unix socket."""

from pathlib import Path

import pytest

from mooring.csi.endpoint import BadEndpoint, socket_path


@pytest.mark.parametrize("text", ["unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock"])
def test_the_usual_spellings_mean_the_same(text: str) -> None:
    assert socket_path(text) == Path("/run/csi.sock")


def test_relative_paths_begin_here() -> None:
    assert socket_path("unix://csi.sock") == Path.cwd() / "csi.sock"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tcp://127.0.0.1:10000", "not a Unix socket"),
        ("", "names no socket"),
        ("unix://", "names no socket"),
        ("/" + "x" * 107, "longer than the 107 bytes"),
    ],
)
def test_what_cannot_be_listened_at_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadEndpoint, match=complaint):
        socket_path(text)
