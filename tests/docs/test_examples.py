"""Examples that cannot rot: each has its section on the page, and an end-to-end test that applies it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*.yaml"))
TESTS = [*ROOT.glob("tests/e2e/*.py"), *ROOT.glob("tests/scenarios/*.py")]


def test_the_page_has_a_section_for_each_and_no_other() -> None:
    sections = re.findall(r"^### (\S+)$", (ROOT / "docs" / "examples.md").read_text(), re.MULTILINE)
    assert sorted(sections) == EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_is_applied_by_some_test(example: str) -> None:
    assert any(f'"{Path(example).name}"' in test.read_text() for test in TESTS)
