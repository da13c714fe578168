"""Shared by all tests: the requirement table, and plain log lines. Other fixtures are beside their tests."""

import os
import sys
from collections.abc import Iterator

import hypothesis
import pytest
import structlog

# Assertions in support code show their values, as those in tests do; must precede its first import.
pytest.register_assert_rewrite("support")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--requirements", action="store_true", help="list every clause of the requirements; fail if one is not proved"
    )
    parser.addoption("--clause", action="append", default=[], help="run only the tests that name this clause")


def pytest_configure(config: pytest.Config) -> None:
    # The time of an example depends on the machine more than on the code.
    # In CI examples are the same in each run; elsewhere they are random.
    hypothesis.settings.register_profile("untimed", deadline=None, derandomize="CI" in os.environ)
    hypothesis.settings.load_profile("untimed")
    from support.requirements.plugin import RequirementTable

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
    """Commands that run inside a test configure logging of the whole test process: restore it afterwards, and let no
    logger cache the test's configuration."""
    before, configure = structlog.get_config(), structlog.configure

    def for_now(**settings: object) -> None:
        configure(**settings | {"cache_logger_on_first_use": False})  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(structlog, "configure", for_now)
    yield
    if structlog.get_config() != before:
        configure(**before)
