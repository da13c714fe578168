"""Every benchmark can be imported, and reads only the options that it defines. None is run: they take minutes."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Names that programs give to parsed options.
NAMESPACES = {"given", "options"}
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "bench").rglob("*.py")
    if path.stem != "__init__"
)


@pytest.fixture
def _bench_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bench` is the folder beside the package; this folder of tests has the same name."""
    monkeypatch.syspath_prepend(ROOT)


@pytest.mark.usefixtures("_bench_first")
@pytest.mark.parametrize("name", MODULES)
def test_module_can_be_imported(name: str) -> None:
    assert importlib.import_module(name).__doc__


def _options_defined(tree: ast.AST) -> set[str]:
    flags = [
        [flag.value for flag in call.args if isinstance(flag, ast.Constant)]
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument"
    ]
    return {re.sub("^-*", "", str(names[0])).replace("-", "_") for names in flags}


def _options_read(tree: ast.AST) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in NAMESPACES
    }


@pytest.mark.parametrize("name", [name for name in MODULES if name.count(".") == 1 or name.endswith("__main__")])
def test_program_reads_only_options_it_defines(name: str) -> None:
    tree = ast.parse((ROOT / name.replace(".", "/")).with_suffix(".py").read_text())
    assert _options_read(tree) <= _options_defined(tree)
