"""The pages on simulate, orphans, timeline and doctor show the commands' output; `…` stands for omitted parts."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("simulate.md", "orphans.md", "timeline.md", "doctor.md")


def examples() -> list[tuple[str, str, list[str]]]:
    """(page, command, shown lines) each."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```console\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
            command, *lines = block.splitlines()
            found.append((page, command.removeprefix("$ mooring "), lines))
    return found


def as_pattern(lines: list[str]) -> str:
    shown = [re.escape(line).replace("…", "[^\n]*") for line in lines]
    return "\n".join("(?:.*\n)*?.*" if line == "…" else pattern for line, pattern in zip(lines, shown, strict=True))


@pytest.mark.parametrize(
    ("command", "lines"), [pytest.param(command, lines, id=f"{page}: {command}") for page, command, lines in examples()]
)
def test_page_matches_the_output(monkeypatch: pytest.MonkeyPatch, command: str, lines: list[str]) -> None:
    monkeypatch.chdir(DOCS / "what-if")
    monkeypatch.setattr("mooring.cli.runtime.configure_logging", lambda _: None)
    printed = CliRunner().invoke(main, shlex.split(command)).stdout
    assert re.match(as_pattern(lines), printed) is not None, printed


def test_every_page_has_an_example() -> None:
    assert {page for page, _, _ in examples()} == set(PAGES)
