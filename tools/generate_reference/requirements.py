"""Every requirement with the tests that name it, found in the test files' marks."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.generate_reference.tables import GENERATED, code, table


def requirements_page(root: Path) -> str:
    sys.path.insert(0, str(root / "tests"))
    from requirement_table.plugin import LEVEL_OF_FOLDER
    from requirement_table.rows import ROWS

    named: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in sorted((root / "tests").rglob("test_*.py")):
        level = LEVEL_OF_FOLDER.get(file.relative_to(root / "tests").parts[0], "u")
        for claim, own_level in marks_in(file):
            named[claim.partition(".")[0]][own_level or level].add(str(file.relative_to(root)))
    rows = [
        (row.id, row.title, ", ".join(row.levels), "<br>".join(_proofs(named[row.id])) or "none yet") for row in ROWS
    ]
    return (
        f"{GENERATED}\n# What the designs promise, and what proves it\n\n"
        "Every promise of the design documents Mooring is built from is a row. Levels: u unit or property test, s "
        "seeded run in the simulated world, e end to end on the embedded cluster, k on real Kubernetes components, "
        "m model checking, b a figure under `bench/` ([performance.md](performance.md)). `make requirements` runs the "
        "tests and says which rows they prove; this page says where to look.\n\n"
        + table(["row", "promise", "levels asked", "tests that name it"], rows)
    )


def marks_in(file: Path) -> Iterator[tuple[str, str]]:
    """The rows and clauses a test file names, each with the level its test says for itself, if any."""
    yield from _marks(ast.parse(file.read_text()).body)


def _marks(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement in statements:
        marked: Sequence[ast.AST] = [statement]
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marked = statement.decorator_list
        inside = [node for each in marked for node in ast.walk(each)]
        level = "".join(each for node in inside for each in _arguments(node, "level"))
        yield from ((claim, level) for node in inside for claim in _arguments(node, "req"))
        if isinstance(statement, ast.ClassDef):
            yield from _marks(statement.body)


def _arguments(node: ast.AST, mark: str) -> list[str]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == mark):
        return []
    return [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _proofs(by_level: dict[str, set[str]]) -> Iterator[str]:
    for level in sorted(by_level):
        files = sorted(by_level[level])
        shown = ", ".join(code(file) for file in files[:3])
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        yield f"{level}: {shown}{more}"
