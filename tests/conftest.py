"""What all tests share: the requirement table, and plain log lines. Fixtures live beside the tests that use them."""

import os
import sys
from collections.abc import Iterator

import hypothesis
import pytest
import structlog

from requirement_table.plugin import RequirementTable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", action="store_true", help="list every requirement row and its state")


def pytest_configure(config: pytest.Config) -> None:
    # How long an example takes says more about the machine than about the code.
    # In CI examples are the same ones each time, so that what lands does not hang on chance; everybody else explores.
    hypothesis.settings.register_profile("untimed", deadline=None, derandomize="CI" in os.environ)
    hypothesis.settings.load_profile("untimed")
    config.pluginmanager.register(RequirementTable(config.rootpath))
    # The default renderer draws tracebacks in colour, which costs more than the tests that cause them.
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(),
        ],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands that are run inside a test configure logs for their process, which here is everybody's: afterwards it is
    as it was, and no logger has kept what it was told meanwhile."""
    before, configure = structlog.get_config(), structlog.configure

    def for_now(**settings: object) -> None:
        configure(**settings | {"cache_logger_on_first_use": False})  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(structlog, "configure", for_now)
    yield
    if structlog.get_config() != before:
        configure(**before)
