"""Every difference that is documented is shown by a test that exists."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "differences.md"

SHOWN_BY = re.compile(r"`([\w/]+\.py)::(\w+)(?:\[([^`]+)\])?`")


def test_the_tests_named_exist() -> None:
    named = SHOWN_BY.findall(PAGE.read_text())
    assert len(named) > 25

    missing = []
    for file, test, case in named:
        source = (TESTS / file).read_text() if (TESTS / file).exists() else ""
        if f"def {test}(" not in source or (case and f'id="{case}"' not in source):
            missing.append(f"{file}::{test}[{case}]")
    assert missing == []
