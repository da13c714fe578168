"""Every clause of the requirements with the tests that name it, found in the test files' marks."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.generate_reference.tables import GENERATED, code, table


def requirements_page(root: Path) -> str:
    sys.path.insert(0, str(root / "tests"))
    from support.requirements.table import GAPS, ROWS

    named = named_clauses(root)
    rows = []
    for row in ROWS:
        rows.append((row.id, f"**{row.title}**", "", ""))
        for clause in row.clauses:
            gap = [f"not yet ({', '.join(GAPS[clause.id].levels)}): {GAPS[clause.id].why}"] if clause.id in GAPS else []
            proofs = "<br>".join([*_proofs(named[clause.id]), *gap])
            rows.append((code(clause.id), clause.statement, ", ".join(clause.levels), proofs))
    return (
        f"{GENERATED}\n# Requirements and their tests\n\n"
        "Every requirement of Mooring's design documents is a row, and each statement of it that a test can break is a "
        "clause. Levels: u unit or property test, s seeded run in the simulated environment, e end to end on the "
        "embedded cluster, k on real Kubernetes components, m model checking, b a bound on the calls of a decision. "
        "`make requirements` runs the tests and fails if a clause has no passing test at one of its levels; this page "
        "lists the test files.\n\n" + table(["clause", "statement", "levels", "tests that name it"], rows)
    )


def named_clauses(root: Path) -> dict[str, dict[str, set[str]]]:
    """Clause -> level -> files with tests that name it."""
    from support.requirements.plugin import LEVEL_OF_FOLDER

    named: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in sorted((root / "tests").rglob("test_*.py")):
        folder = LEVEL_OF_FOLDER.get(file.relative_to(root / "tests").parts[0], "u")
        for clause, level in marks_in(file):
            named[clause][level or folder].add(str(file.relative_to(root)))
    return named


def marks_in(file: Path) -> Iterator[tuple[str, str]]:
    """The clauses a test file names, each with the level that its test or its module says, if any."""
    body = ast.parse(file.read_text()).body
    of_module = [
        level
        for statement in body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
        for node in ast.walk(statement)
        for level in _arguments(node, "level")
    ]
    yield from ((clause, level or "".join(of_module)) for clause, level in _marks(body))


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
        shown = ", ".join(code(file) for file in files[:2])
        more = f" and {len(files) - 2} more" if len(files) > 2 else ""
        yield f"{level}: {shown}{more}"
