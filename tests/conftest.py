"""Shared by all tests: the requirement table, and plain log lines. Other fixtures are beside their tests."""

import os
import signal
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

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
    # A shell starts background jobs with SIGINT ignored; processes that tests start and interrupt would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
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


#: Folders whose files have few tests that wait long for processes and browsers.
WAITING_FOLDERS: Final = ("e2e", "web", "conformance")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In parallel runs, files that wait and files that compute take turns: one uses the processor while another waits,
    and the long ones are not left for the end."""
    if not hasattr(config, "workerinput"):
        return
    files: dict[bool, dict[Path, list[pytest.Item]]] = {True: {}, False: {}}
    for item in items:
        waits = item.path.relative_to(config.rootpath / "tests").parts[0] in WAITING_FOLDERS
        files[waits].setdefault(item.path, []).append(item)
    turns = zip_longest(files[True].values(), files[False].values(), fillvalue=())
    items[:] = [item for turn in turns for tests in turn for item in tests]


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
