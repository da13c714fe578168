"""Results of the version matrix: what passed with one release of Kubernetes, merged into a JSON file of all releases.

`tools.generate_reference.compatibility` writes the page from it. A test that carries
`@pytest.mark.version_matrix(server, component, feature)` counts for that row.
"""

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Final

import pytest

MARKER: Final = "version_matrix"


class MatrixResults:
    """A pytest plugin of the process that writes the summary; workers send their reports to it."""

    def __init__(self) -> None:
        #: Row -> test -> whether it passed.
        self._rows: dict[tuple[str, str, str], dict[str, bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, row in report.user_properties:
            if key == MARKER and isinstance(row, list | tuple) and not report.skipped:
                server, component, feature = row
                tests = self._rows.setdefault((server, component, feature), {})
                tests[report.nodeid] = tests.get(report.nodeid, True) and report.passed

    def write(self, file: Path, release: str, version: str, today: date) -> None:
        """Replace the results of this release and keep those of the others."""
        known = json.loads(file.read_text()) if file.exists() else {}
        rows = [
            {"server": server, "component": component, "feature": feature}
            | {"tests": len(tests), "passed": sum(tests.values())}
            for (server, component, feature), tests in sorted(self._rows.items())
        ]
        known[release] = {"version": version, "date": today.isoformat(), "rows": rows}
        file.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def rows_of(markers: Iterable[pytest.Mark]) -> list[tuple[str, list[object]]]:
    """Properties for the report of a test with these markers."""
    return [(MARKER, list(marker.args)) for marker in markers]
