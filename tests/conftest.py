"""What all tests share: the requirement table. Fixtures live beside the tests that use them."""

import pytest

from requirement_table.plugin import RequirementTable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", action="store_true", help="list every requirement row and its state")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RequirementTable(config.rootpath))
