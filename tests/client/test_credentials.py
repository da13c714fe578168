import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.client.access import TOKEN_AGE, Access, Credentials, TokenFile
from mooring.client.exec_plugin import Credential, ExecPlugin, PluginCommand
from mooring.whatif.virtual_time import VirtualClock, VirtualLoop

HERE = "https://here"


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


@pytest.fixture
def clock(loop: VirtualLoop) -> VirtualClock:
    return VirtualClock(loop)


# --- token files ---


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path, clock: VirtualClock) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    token = TokenFile(file, clock)
    assert token.current() == "first"
    file.write_text("the second\n")
    assert token.current() == "the second"


def test_a_token_behind_a_link_is_read_again_when_the_link_is_swapped(tmp_path: Path, clock: VirtualClock) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    current = tmp_path / "current"
    current.symlink_to("one")
    token = TokenFile(current / "token", clock)
    assert token.current() == "one"
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(current)
    assert token.current() == "two"


def test_a_change_that_does_not_show_is_noticed_after_a_minute(
    tmp_path: Path, loop: VirtualLoop, clock: VirtualClock
) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    before = file.stat()
    token = TokenFile(file, clock)
    assert token.current() == "first"
    file.write_text("other")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert token.current() == "first"
    loop.advance(TOKEN_AGE)
    assert token.current() == "other"


def test_the_last_token_is_used_while_the_file_is_gone(tmp_path: Path, clock: VirtualClock) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file, clock)
    assert token.current() == "first"
    file.unlink()
    assert token.current() == "first"


# --- which of several, and what instead ---


class FakePlugin(ExecPlugin):
    """Gives one credential after the other."""

    def __init__(self, clock: VirtualClock, *credentials: Credential) -> None:
        super().__init__(PluginCommand("fake"), clock)
        self.credentials = list(credentials)

    async def credential(self) -> Credential:
        return self.credentials[0]

    async def refresh_after_unauthorized(self, refused: Credential) -> Credential:
        assert refused is self.credentials.pop(0)
        return self.credentials[0]


PLUGIN = PluginCommand("fake")


@pytest.mark.parametrize(
    ("access", "authorization"),
    [
        pytest.param(Access(HERE), "", id="nothing"),
        pytest.param(Access(HERE, token="t", plugin=PLUGIN), "Bearer t", id="a token before a plugin"),
        pytest.param(Access(HERE, username="u", plugin=PLUGIN), "Basic dTo=", id="a password before a plugin"),
        pytest.param(Access(HERE, certificate="c", plugin=PLUGIN), "", id="a certificate before a plugin"),
        pytest.param(Access(HERE, plugin=PLUGIN), "Bearer from the plugin", id="a plugin alone"),
        pytest.param(Access("http://here", plugin=PLUGIN), "", id="no plugin over plain HTTP"),
    ],
)
async def test_what_is_shown(clock: VirtualClock, access: Access, authorization: str) -> None:
    plugin = FakePlugin(clock, Credential("from the plugin"))
    assert (await Credentials(access, clock, plugin).current()).authorization == authorization


async def test_a_fixed_token_that_is_refused_has_no_successor(clock: VirtualClock) -> None:
    credentials = Credentials(Access(HERE, token="t"), clock)
    assert await credentials.refresh_after_unauthorized(await credentials.current()) is None


async def test_a_refused_token_file_is_read_again(tmp_path: Path, clock: VirtualClock) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    credentials = Credentials(Access(HERE, token="unused", token_file=file), clock)
    first = await credentials.current()
    assert first.authorization == "Bearer first"
    assert await credentials.refresh_after_unauthorized(first) is None
    file.write_text("second")
    second = await credentials.refresh_after_unauthorized(first)
    assert second is not None
    assert second.authorization == "Bearer second"


async def test_a_refused_plugin_is_asked_again(clock: VirtualClock) -> None:
    same, other = Credential("old", expires=99.0), Credential("", "certificate", "key")
    credentials = Credentials(Access(HERE, plugin=PLUGIN), clock, FakePlugin(clock, Credential("old"), same, other))
    first = await credentials.current()
    assert await credentials.refresh_after_unauthorized(first) is None, "the same token again proves nothing new"
    second = await credentials.refresh_after_unauthorized(await credentials.current())
    assert second is not None
    assert second.fingerprint == ("", "certificate")
