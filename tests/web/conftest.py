"""A Chromium for the whole run, and a browser of its own for every test that asks."""

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from support.browser import Browser, Chromium, connected, installed

HERE: Final = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skipped tests count as skipped by this folder: one line of the summary for all, not one for each."""
    report = yield
    if isinstance(report.longrepr, tuple):
        report.longrepr = (str(HERE), 0, report.longrepr[2])
    return report


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    program = installed()
    if program is None:
        pytest.skip("no Chromium: install it (as root, make chromium) or name one with MOORING_CHROMIUM")
    process = Chromium(program)
    yield process
    process.close()


@pytest.fixture
async def browser(chromium: Chromium) -> AsyncIterator[Browser]:
    """Whatever a test does, no tab may complain; what a test expects, it takes off `Tab.errors`."""
    async with connected(chromium) as browser:
        yield browser
        assert browser.complaints == []
