"""No decision depends on a sentence: texts for users may be corrected without changing behaviour.

Comparisons (`==`, `in`, `startswith`, `match`, keys of dicts that are looked up) must not have a human sentence as
operand, literally or as a constant. Codes, names and single words are allowed.
"""

import ast
import enum
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import mooring

SOURCES = Path(mooring.__file__).parent
#: Packages that read decisions, reasons and events.
PACKAGES = ("explain", "scheduler", "volumes", "coordinator", "doctor", "web", "whatif")
METHODS = {"startswith", "endswith", "removeprefix", "removesuffix", "index", "find", "count"}
MODULES = sorted(
    path for package in PACKAGES for path in (SOURCES / package).rglob("*.py") if path.name != "__init__.py"
)
#: Texts of other components, which say it in no other way: `explain.messages` reads them with patterns of its own.
ALLOWED = frozenset({"explain/messages/__init__.py: GROUPS"})


def is_sentence(value: object) -> bool:
    if isinstance(value, enum.Enum):
        return False
    if isinstance(value, str):
        return len(value.split()) > 2
    if isinstance(value, dict | frozenset | set | tuple | list):
        return any(is_sentence(each) for each in value)
    return False


def _value(node: ast.expr, module: ModuleType) -> object:
    """The string value of a literal or of a constant of the module; None otherwise."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, module), node.attr, None)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return tuple(_value(each, module) for each in node.elts)
    return None


def _operands(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                yield node.left
                yield from node.comparators
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in METHODS:
                yield from args
            case ast.MatchValue():
                yield node.value
            case ast.Dict():
                yield from (key for key in node.keys if key is not None)
            case ast.comprehension(iter=items):
                # What is walked through to be compared with something.
                yield items


def comparisons(path: Path) -> Iterator[str]:
    name = ".".join(("mooring", *path.relative_to(SOURCES).with_suffix("").parts))
    module = importlib.import_module(name)
    place = str(path.relative_to(SOURCES))
    for operand in _operands(ast.parse(path.read_text())):
        if is_sentence(_value(operand, module)) and f"{place}: {ast.unparse(operand)}" not in ALLOWED:
            yield f"{place}:{operand.lineno}: {ast.unparse(operand)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_sentence_is_compared(path: Path) -> None:
    assert list(comparisons(path)) == []


def test_sentences_are_distinguished_from_codes() -> None:
    assert is_sentence("node(s) did not have enough free storage")
    assert is_sentence({"Too many pods": 1})
    assert not is_sentence("FailedScheduling")
    assert not is_sentence(("Pod", "Node"))
