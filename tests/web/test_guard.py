"""Who may ask."""

import pytest

from mooring.web.guard import HEADERS, POLICY, Guard, of_another_site


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        pytest.param("127.0.0.1:7444", True, id="loopback"),
        pytest.param("[::1]:7444", True, id="loopback in IPv6"),
        pytest.param("localhost:7444", True, id="localhost"),
        pytest.param("LOCALHOST", True, id="localhost, shouted"),
        pytest.param("192.0.2.7:80", True, id="an address cannot be rebound"),
        pytest.param("page.example.com", True, id="a name that was allowed"),
        pytest.param("evil.example.com:7444", False, id="a name that leads here"),
        pytest.param("localhost.evil.example.com", False, id="a name that looks like ours"),
        pytest.param("127.0.0.1.evil.example.com", False, id="a name that begins like an address"),
        pytest.param("", False, id="none"),
        pytest.param("[", False, id="nonsense"),
    ],
)
def test_the_host_must_be_ours(host: str, ours: bool) -> None:
    assert Guard("t", names=("page.example.com",)).hosts(host) is ours


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
    assert Guard("secret").knows(header) is known


@pytest.mark.parametrize(
    ("site", "foreign"),
    [("", False), ("same-origin", False), ("none", False), ("cross-site", True), ("same-site", True)],
)
def test_other_sites_are_told_apart(site: str, foreign: bool) -> None:
    assert of_another_site(site) is foreign


def test_nothing_inline_may_run_and_nobody_is_let_in_from_elsewhere() -> None:
    assert "unsafe" not in POLICY
    assert not [name for name in HEADERS if name.lower().startswith("access-control")]
