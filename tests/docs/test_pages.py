"""Pages that list what the code has: kinds, faults, kubeconfig fields, messages, differences, examples; and links."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from tools.generate_troubleshooting.page import page

from mooring.api.kinds import KINDS
from mooring.client.kubeconfig import ClusterEntry, ExecEntry, UserEntry
from mooring.explain.messages import MESSAGES, PAGE
from support.simulation import faults

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TROUBLESHOOTING = DOCS / f"{PAGE}.md"
EXAMPLES = sorted(str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*.yaml"))
EXAMPLE_TESTS = [*ROOT.glob("tests/e2e/**/*.py"), *ROOT.glob("tests/support/scenarios/*.py")]
#: `pytest FILE -k EXPRESSION`, with quotes around several words.
SELECTION = re.compile(r'pytest ([\w/]+\.py) -k ("[^"]+"|\w+)')
#: `file::test[case]`, below tests/.
TEST_ID = re.compile(r"`([\w/]+\.py)::(\w+)(?:\[([^`]+)\])?`")


def test_every_kind_has_a_section() -> None:
    sections = set(re.findall(r"^### (\w+)$", (DOCS / "kinds.md").read_text(), re.MULTILINE))
    assert sections == {kind.kind for kind in KINDS}


def test_links_between_pages_resolve() -> None:
    broken = [
        f"{file.name}: {link}"
        for file in [*ROOT.glob("*.md"), *DOCS.glob("**/*.md")]
        for link in re.findall(r"\]\(([^)#:]+)\)", file.read_text())
        if not (file.parent / link).exists()
    ]
    assert broken == []


def test_every_fault_has_a_row() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "fault-runs.md").read_text(), re.MULTILINE))
    assert rows == {fault.__name__ for fault in get_args(faults.Fault)}


def test_commands_that_reproduce_bugs_select_tests() -> None:
    commands = SELECTION.findall((DOCS / "fault-runs.md").read_text())
    assert len(commands) > 10
    missing = [
        f"{file} -k {expression}"
        for file, expression in commands
        for word in re.split(r" (?:and|or) ", expression.strip('"'))
        if not word.isdigit() and word not in (ROOT / file).read_text()
    ]
    assert missing == []


@pytest.mark.parametrize("entry", [ClusterEntry, UserEntry, ExecEntry], ids=lambda entry: entry.__name__)
def test_every_kubeconfig_field_is_documented(entry: type[msgspec.Struct]) -> None:
    text = (DOCS / "kubeconfig.md").read_text()
    missing = [row.encode_name for row in msgspec.structs.fields(entry) if f"`{row.encode_name}`" not in text]
    assert missing == []


def test_troubleshooting_page_is_up_to_date() -> None:
    assert TROUBLESHOOTING.read_text() == page(), "run python -m tools.generate_troubleshooting"


def test_every_message_has_a_linked_heading() -> None:
    headings = re.findall(r"^### `(.+)`$", TROUBLESHOOTING.read_text(), re.MULTILINE)
    assert headings == [message.text for message in MESSAGES]


def test_every_difference_names_an_existing_test() -> None:
    named = TEST_ID.findall((DOCS / "differences.md").read_text())
    assert len(named) > 25

    missing = []
    for file, test, case in named:
        source = (ROOT / "tests" / file).read_text() if (ROOT / "tests" / file).exists() else ""
        if f"def {test}(" not in source or (case and f'id="{case}"' not in source):
            missing.append(f"{file}::{test}[{case}]")
    assert missing == []


def test_every_example_has_a_section() -> None:
    sections = re.findall(r"^### (\S+)$", (DOCS / "examples.md").read_text(), re.MULTILINE)
    assert sorted(sections) == EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_applied_by_a_test(example: str) -> None:
    assert any(f'"{Path(example).name}"' in test.read_text() for test in EXAMPLE_TESTS)
