"""A Chromium for the whole run, and a browser of its own for every test that asks."""

from collections.abc import AsyncIterator, Iterator

import pytest

from web.chromium import Browser, Chromium, connected, installed


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    program = installed()
    if program is None:
        pytest.skip("no Chromium: install it (make chromium, as root) or name one with MOORING_CHROMIUM")
    process = Chromium(program)
    yield process
    process.close()


@pytest.fixture
async def browser(chromium: Chromium) -> AsyncIterator[Browser]:
    """Whatever a test does, no tab may complain; what a test expects, it takes off `Tab.errors`."""
    async with connected(chromium) as browser:
        yield browser
        assert browser.complaints == []
