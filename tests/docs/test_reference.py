"""The reference pages match the code."""

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tools.generate_reference.api import PUBLIC, definitions
from tools.generate_reference.pages import PAGES

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "mooring"
TYPES = ("Normal", "Warning", "NORMAL", "WARNING")


@pytest.mark.parametrize("path", [pytest.param(path, id=path) for path in PAGES])
def test_page_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text() == PAGES[path](ROOT), "run `make reference`"


def test_only_the_reference_has_tables_of_flags() -> None:
    """Other pages explain how to choose and combine flags; a second table of their meanings would become outdated."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"]
    rows = [
        f"{page.relative_to(ROOT)}: {row}"
        for page in pages
        for row in re.findall(r"^\| *`-.*", page.read_text(), re.MULTILINE)
    ]
    assert rows == []


PUBLIC_NAMES = [each for part in PUBLIC for module in part.modules for each in definitions(module, ROOT)]


#: Described in the introduction of their part.
INTRODUCED = {"mooring.whatif.question.Scaling", "mooring.whatif.results.SimulationResult"}


def test_every_public_name_is_described() -> None:
    """Functions and classes; what they lack is missing on the page."""
    undescribed = [
        f"{each.module}.{each.name}"
        for each in PUBLIC_NAMES
        if isinstance(each.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not ast.get_docstring(each.node)
    ]
    assert len(PUBLIC_NAMES) > 60
    assert set(undescribed) <= INTRODUCED


@pytest.mark.parametrize("module", [each.name for part in PUBLIC for each in part.modules])
def test_public_names_can_be_imported(module: str) -> None:
    names = next(each.names for part in PUBLIC for each in part.modules if each.name == module)
    loaded = importlib.import_module(module)
    assert [name for name in names or loaded.__all__ if not hasattr(loaded, name)] == []


def constants() -> dict[tuple[Path, str], str]:
    """String constants of modules."""
    found: dict[tuple[Path, str], str] = {}
    for file in SOURCES.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[file, target.id] = value.value
    return found


def reasons_given() -> Iterator[str]:
    """Event reasons: literals or constants after Normal or Warning in a call or a tuple, and arguments of `_failed`."""
    known = constants()
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            values = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            for before, value in pairwise(values):
                if _text(before) not in TYPES and not _reports_failure(node):
                    continue
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value
                elif isinstance(value, ast.Name) and (file, value.id) in known:
                    yield known[file, value.id]


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else node.id if isinstance(node, ast.Name) else ""


def _reports_failure(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ("_failed", "_tell_failure", "_done", "_lost")


def test_every_event_has_a_line() -> None:
    page = (ROOT / "docs/reference/events.md").read_text()
    listed = {word for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for word in re.findall(r"`(\w+)", row)}
    given = {reason for reason in reasons_given() if re.fullmatch(r"[A-Z][a-z]+\w+", reason)}.difference(TYPES)
    assert len(given) > 30
    assert sorted(given - listed) == []
