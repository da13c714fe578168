"""`mooring docs`: the pages that messages name are there, also where only a wheel is."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.commands.docs import examples, pages
from mooring.cli.main import main

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "src" / "mooring").rglob("*.py"))


def texts(path: Path) -> list[str]:
    """All that a module may print: its strings, but for its own docstring. Help texts are docstrings of functions."""
    tree = ast.parse(path.read_text())
    own = ast.get_docstring(tree, clean=False)
    found = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in found if text != own]


@cache
def printable() -> frozenset[str]:
    """What `mooring docs` prints, by the names that messages use."""
    return frozenset(pages()) | {name.removesuffix(".yaml") for name in examples()}


def test_pages_are_listed_and_printed() -> None:
    listed = CliRunner().invoke(main, ["docs"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines()] == [*pages(), *examples()]
    printed = CliRunner().invoke(main, ["docs", "security"])
    assert printed.output == (ROOT / "docs" / "security.md").read_text()


def test_a_page_that_is_not_there_is_one_sentence() -> None:
    done = CliRunner().invoke(main, ["docs", "../pyproject"])
    assert done.exit_code == 4
    assert "not found" in done.output


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_messages_name_pages_by_what_prints_them(path: Path) -> None:
    """A wheel has no docs/ folder: what messages name is a page of `mooring docs`, and that page exists."""
    for text in texts(path):
        assert not re.search(r"\bdocs/[\w-]+\.md", text), text
        assert set(re.findall(r"mooring docs ([a-z][\w/-]*)", text)) <= printable()


def test_a_wheel_brings_the_pages() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert built["force-include"] == {"docs": "mooring/docs", "examples": "mooring/examples"}
    for folder in ("docs", "examples"):
        assert f"COPY {folder} ./{folder}" in (ROOT / "deploy" / "Containerfile").read_text()
