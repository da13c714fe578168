"""What all tests share: the requirement table, and plain log lines. Fixtures live beside the tests that use them."""

import sys

import pytest
import structlog

from requirement_table.plugin import RequirementTable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", action="store_true", help="list every requirement row and its state")


def pytest_configure(config: pytest.Config) -> None:
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
