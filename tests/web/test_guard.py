"""Tokens and response headers of the dashboard."""

import pytest

from mooring.web.server import HEADERS, POLICY, Guard


@pytest.mark.parametrize(
    ("header", "known"),
    [
        pytest.param("Bearer secret", True, id="the token"),
        pytest.param("Bearer secre", False, id="a part of it"),
        pytest.param("Bearer secret2", False, id="more than it"),
        pytest.param("Bearer ", False, id="an empty one"),
        pytest.param("Basic secret", False, id="another scheme"),
        pytest.param("secret", False, id="no scheme"),
        pytest.param("", False, id="nothing"),
        pytest.param("Bearer " + "x" * 10_000, False, id="far too long"),
        pytest.param("Bearer \udcff", False, id="no text"),
    ],
)
def test_the_token_must_be_right(header: str, known: bool) -> None:
    assert Guard("secret").has_valid_token(header) is known


def test_an_empty_token_is_no_token() -> None:
    with pytest.raises(ValueError, match="empty"):
        Guard("")


def test_inline_scripts_and_other_origins_are_forbidden() -> None:
    assert "unsafe" not in POLICY
    assert not [name for name in HEADERS if name.lower().startswith("access-control")]
