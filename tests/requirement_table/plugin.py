"""Pytest plugin: collects which requirement rows passing tests prove, and at which level.

The level of a test is its folder's (tests/sim is s, tests/e2e is e, tests/conformance is k, tests/model is m,
everything else u) unless `@pytest.mark.level` says otherwise. A row counts as proved once every level it asks for
has a passing test that names the row itself; tests that name clauses (`T16.timeout`) prove it in part.
"""

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from requirement_table.rows import BY_ID, ROWS, Row

#: What a report calls the rows its test names.
PROPERTY: Final = "requirement"

LEVEL_OF_FOLDER: Final = {"sim": "s", "e2e": "e", "conformance": "k", "model": "m"}


class RequirementTable:
    def __init__(self, root: Path) -> None:
        self._root = root
        #: Row or clause id -> levels at which a test passed.
        self._proved: dict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for claim in _claims(item):
                if claim.partition(".")[0] not in BY_ID:
                    raise pytest.UsageError(f"{item.nodeid}: there is no requirement row {claim!r}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> object:
        report = yield
        # On the report, since tests may run in other processes than the one that sums up.
        report.user_properties.extend((PROPERTY, (claim, self._level(item))) for claim in _claims(item))
        return report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name == PROPERTY and isinstance(value, list | tuple):
                    claim, level = value
                    self._proved[claim].add(level)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if config.option.requirements:
            terminalreporter.section("requirements")
            for row in ROWS:
                terminalreporter.write_line(self._line(row))
        done = [row for row in ROWS if self._missing(row) == ""]
        part = [row for row in ROWS if row not in done and self._touched(row)]
        terminalreporter.write_line(
            f"requirements: {len(done)} of {len(ROWS)} rows proved, {len(part)} in part (make requirements)"
        )

    def _level(self, item: pytest.Item) -> str:
        mark = item.get_closest_marker("level")
        if mark is not None:
            return str(mark.args[0])
        folder = item.path.relative_to(self._root / "tests").parts[0]
        return LEVEL_OF_FOLDER.get(folder, "u")

    def _missing(self, row: Row) -> str:
        return "".join(level for level in row.levels if level not in self._proved.get(row.id, ()))

    def _touched(self, row: Row) -> bool:
        return row.id in self._proved or any(c.startswith(f"{row.id}.") for c in self._proved)

    def _line(self, row: Row) -> str:
        missing = self._missing(row)
        clauses = sorted(c.partition(".")[2] for c in self._proved if c.startswith(f"{row.id}."))
        if not missing:
            state = "proved"
        elif row.id in self._proved:
            state = f"below level, missing {','.join(missing)}"
        elif clauses:
            state = "clauses only"
        else:
            state = "missing"
        tail = f"  [{', '.join(clauses)}]" if clauses else ""
        return f"{row.id:<4} {','.join(row.levels):<6} {row.title:<46} {state}{tail}"


def _claims(item: pytest.Item) -> list[str]:
    return [str(claim) for mark in item.iter_markers("req") for claim in mark.args]
