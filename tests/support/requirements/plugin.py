"""Pytest plugin: collects which clauses of the requirement table passing tests prove, and at which level.

The level of a test is its folder's (tests/simulation and tests/whatif are s, tests/e2e is e, tests/conformance is k,
tests/model is m, all others u) unless `@pytest.mark.level` overrides it. A clause is proved once a test passes at each
of its levels and none fails there. With `--requirements` the run fails if a clause is neither proved nor a known gap,
and if a known gap has a test now. Level k counts only where the binaries are: a test that is skipped for another reason
proves nothing, there as elsewhere. `--clause` selects tests. With `--collect-only` the marks of the collected tests are
checked, as if all of them passed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.requirements.table import CLAUSES, GAPS, ROWS, Clause

#: Property of a test report with the clauses that its test names.
PROPERTY: Final = "requirement"

LEVEL_OF_FOLDER: Final = {"simulation": "s", "whatif": "s", "e2e": "e", "conformance": "k", "model": "m"}
#: Needs the binaries of Kubernetes.
REAL: Final = "k"
#: How the reason for a skipped test begins where they are missing.
WITHOUT_BINARIES: Final = "no binaries of Kubernetes: "


class RequirementTable:
    def __init__(self, root: Path) -> None:
        self._root = root
        #: Clause -> levels, at which a test passed, was skipped for want of binaries, or failed.
        self._passed: dict[str, set[str]] = defaultdict(set)
        self._skipped: dict[str, set[str]] = defaultdict(set)
        self._failed: dict[str, set[str]] = defaultdict(set)
        self._verdict = "proved"

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            for name in _named(item):
                if name not in CLAUSES:
                    own = ", ".join(each for each in CLAUSES if each.startswith(f"{name.partition('.')[0]}."))
                    raise pytest.UsageError(f"{item.nodeid}: there is no clause {name!r}; of this row: {own or 'none'}")
        if wanted := set(config.option.clause):
            config.hook.pytest_deselected(items=[item for item in items if wanted.isdisjoint(_named(item))])
            items[:] = [item for item in items if not wanted.isdisjoint(_named(item))]
        if config.option.collectonly:
            self._verdict = "have their tests, which were not run"
            for item in items:
                for name in _named(item):
                    self._passed[name].add(self._level(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> object:
        report = yield
        # On the report, since tests may run in other processes than the summary.
        report.user_properties.extend((PROPERTY, (name, self._level(item))) for name in _named(item))
        return report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when != "call":
            return
        if report.skipped and WITHOUT_BINARIES not in str(report.longrepr):
            return
        seen = self._passed if report.passed else self._skipped if report.skipped else self._failed
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, list | tuple):
                clause, level = value
                seen[clause].add(level)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config = session.config
        if config.option.requirements and not hasattr(config, "workerinput") and any(self._complaints()):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        write = terminalreporter.write_line
        if config.option.requirements:
            terminalreporter.section("requirements")
            for row in ROWS:
                write(f"{row.id} {row.title}")
                for clause in row.clauses:
                    write(f"    {clause.id:<28} {','.join(clause.levels):<8} {self._state(clause)}")
            terminalreporter.section("known gaps")
            for name, gap in GAPS.items():
                write(f"{name} ({','.join(gap.levels)}): {gap.why}")
            for complaint in self._complaints():
                write(f"requirements: {complaint}", red=True)
        write(self._summary())

    def _summary(self) -> str:
        proved = sum(1 for clause in CLAUSES.values() if self._state(clause) == "proved")
        at = Counter(
            level for clause in CLAUSES.values() for level in clause.levels if level in self._proved_at(clause)
        )
        levels = ", ".join(f"{level} {at[level]}" for level in "usekmb")
        real = sum(1 for clause in CLAUSES.values() if clause.levels == REAL)
        gaps = sum(len(gap.levels) for gap in GAPS.values())
        return (
            f"requirements: {proved} of {len(CLAUSES)} clauses of {len(ROWS)} rows {self._verdict} ({levels}); "
            f"{real} only on real Kubernetes, {gaps} known gaps (make requirements)"
        )

    def _proved_at(self, clause: Clause) -> set[str]:
        return self._passed.get(clause.id, set()) - self._failed.get(clause.id, set())

    def _missing(self, clause: Clause) -> str:
        """Levels without a passing test. Real Kubernetes is not missing where its binaries are missing."""
        skipped = self._skipped.get(clause.id, set()) & {REAL}
        return "".join(level for level in clause.levels if level not in self._proved_at(clause) | skipped)

    def _state(self, clause: Clause) -> str:
        missing = self._missing(clause)
        gap = GAPS[clause.id].levels if clause.id in GAPS else ""
        if missing:
            known = "known gap" if set(missing) <= set(gap) else "MISSING"
            return f"{known}: {','.join(missing)}"
        return "proved" if set(clause.levels) <= self._proved_at(clause) else f"not run: {REAL}"

    def _complaints(self) -> Iterator[str]:
        for clause in CLAUSES.values():
            gap = set(GAPS[clause.id].levels) if clause.id in GAPS else set()
            if missing := [level for level in self._missing(clause) if level not in gap]:
                yield f"{clause.id} has no passing test at level {', '.join(missing)}: {clause.statement}"
            if closed := sorted(gap & self._proved_at(clause)):
                yield f"{clause.id} has a test at level {', '.join(closed)}: remove it from gaps.toml"

    def _level(self, item: pytest.Item) -> str:
        mark = item.get_closest_marker("level")
        if mark is not None:
            return str(mark.args[0])
        folder = item.path.relative_to(self._root / "tests").parts[0]
        return LEVEL_OF_FOLDER.get(folder, "u")


def _named(item: pytest.Item) -> list[str]:
    return [str(name) for mark in item.iter_markers("req") for name in mark.args]
