"""How large the tree is and how far from its rules: `python -m tools.tree_counts`.

The rules' figures are budgets in `tests/repository/ratchet.json` that only go down: `--lower` writes those that went
down, `--list RULE` names the places, `--all` counts the tests too, for the proof that none was weakened.
"""

import argparse
import ast
import gc
import json
import re
import statistics
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from tools import mutations
from tools.language import (
    Exemption,
    Finding,
    dangling_help,
    exemptions,
    persons,
    phrases,
    poetic_identifiers,
    visible_texts,
)

ROOT: Final = Path(__file__).parents[1]
RATCHET: Final = ROOT / "tests" / "repository" / "ratchet.json"
#: Rows of the requirements and their clauses.
REQUIREMENTS: Final = ROOT / "tests" / "support" / "requirements"
#: Levels of clauses without a test.
GAPS: Final = REQUIREMENTS / "gaps.toml"
LOWER: Final = "python -m tools.tree_counts --lower"
SHORT, LONG, SEPARATE = 80, 600, 150
_LEAVES: Final = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)

#: Scope -> folders and files below the root.
SCOPES: Final = {
    "src": ("src/mooring",),
    "tests": ("tests", "conformance"),
    "docs": ("docs",),
    "pages": ("*.md", "Makefile", ".ci", ".github"),
    "bench": ("bench",),
    "tools": ("tools",),
    "examples": ("examples",),
    "deploy": ("deploy",),
}
_TEXT: Final = frozenset(
    {"", ".css", ".go", ".html", ".js", ".md", ".proto", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
)


class Source:
    """A file, read once and parsed when a rule needs it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path.relative_to(ROOT))
        self.text = path.read_text()
        self.lines = self.text.count("\n")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The module first, then all that is in it but operators and the like."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            for value in node.__dict__.values():
                if isinstance(value, list):
                    found += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
                    found.append(value)
        return found

    @property
    def name(self) -> str:
        return ".".join(Path(self.path).with_suffix("").parts[1:]).removesuffix(".__init__")

    @property
    def folder(self) -> str:
        return str(Path(self.path).parent)

    @cached_property
    def awaits(self) -> bool:
        return any(isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) for node in self.nodes)


class Tree:
    """The repository's files by scope, and where they break a rule."""

    def __init__(self) -> None:
        gc.disable()  # Syntax trees are many small objects without a cycle.
        try:
            self.exemptions = exemptions()
            self.used: set[Exemption] = set()
            self.files = {scope: list(_sources(patterns)) for scope, patterns in SCOPES.items()}
            self.modules = [each for each in self.files["src"] if each.path.endswith(".py")]
            self.importers = _importers(self.modules)
            self.findings = {rule: self._kept(found) for rule, found in self._rules()}
        finally:
            gc.enable()

    @cached_property
    def counts(self) -> dict[str, int]:
        """What the ratchet compares."""
        counted = {rule: len(found) for rule, found in self.findings.items()}
        return dict(sorted((counted | {"modules in the largest folder of src": self.largest_folder[1]}).items()))

    @property
    def largest_folder(self) -> tuple[str, int]:
        return Counter(each.folder for each in self.modules if not _is_frame(each)).most_common(1)[0]

    def _rules(self) -> Iterator[tuple[str, Iterable[Finding]]]:
        for scope, sources in self.files.items():
            yield f"indefinite persons in {scope}", (one for each in sources for one in persons(each.path, each.text))
        for scope in ("src", "tests"):
            parsed = [each for each in self.files[scope] if each.path.endswith(".py")]
            poetic = (one for each in parsed for one in poetic_identifiers(each.path, each.tree))
            yield f"poetic identifiers in {scope}", poetic
            too_long = (Finding(each.path, LONG, "long") for each in parsed if each.lines > LONG)
            yield f"files over {LONG} lines in {scope}", too_long
        pages = [*self.files["docs"], *self.files["pages"]]
        yield "phrases in docs and pages", (one for each in pages for one in phrases(each.path, each.text))
        yield "phrases in messages of src", self._message_phrases()
        yield (
            "help that ends in a pronoun",
            (one for each in self.modules for one in dangling_help(each.path, each.nodes)),
        )
        yield "second definitions of a class name in src", self._duplicates()
        yield f"modules under {SHORT} lines without a reason", self._short()
        yield "modules with one importer, in their own folder", self._single_importer()
        yield "known gaps of the requirements", _gaps()
        yield "clauses without a mutation", _unbroken_clauses()

    def _kept(self, found: Iterable[Finding]) -> list[Finding]:
        kept = []
        for finding in found:
            covering = [each for each in self.exemptions if each.covers(finding)]
            self.used.update(covering)
            if not covering:
                kept.append(finding)
        return kept

    def _message_phrases(self) -> Iterator[Finding]:
        for module in self.modules:
            for line, text in visible_texts(module.nodes):
                yield from (found._replace(line=line) for found in phrases(module.path, text))

    def _duplicates(self) -> Iterator[Finding]:
        """Every public class after the first of its name."""
        seen: set[str] = set()
        for module in self.modules:
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    if node.name in seen:
                        yield Finding(module.path, node.lineno, node.name)
                    seen.add(node.name)

    def _short(self) -> Iterator[Finding]:
        """Reasons are: a contract, importers in two packages, a generated file, a package's or program's frame."""
        for module in self.modules:
            packages = {each.folder for each in self.importers[module.name]}
            if module.lines < SHORT and len(packages) < 2 and not (_is_frame(module) or _is_contract(module)):
                yield Finding(module.path, module.lines, "short")

    def _single_importer(self) -> Iterator[Finding]:
        """But for long ones, and for pure code that is kept out of a shell."""
        for module in self.modules:
            importers = self.importers[module.name]
            if len(importers) == 1 and module.lines <= SEPARATE and not _is_frame(module):
                (importer,) = importers
                if importer.folder == module.folder and (module.awaits or not importer.awaits):
                    yield Finding(module.path, 1, "single-importer")


def _gaps() -> Iterator[Finding]:
    for clause, gap in tomllib.loads(GAPS.read_text()).items():
        yield from (Finding(str(GAPS.relative_to(ROOT)), 1, f"{clause} {level}") for level in gap["levels"])


def _unbroken_clauses() -> Iterator[Finding]:
    """Clauses that no mutation of the product breaks: that their tests can fail is not shown."""
    broken = frozenset(clause for mutation in mutations.load() for clause in mutation.clauses)
    for file in sorted(REQUIREMENTS.glob("*.toml")):
        for row, table in tomllib.loads(file.read_text()).items() if file != GAPS else ():
            names = (f"{row}.{name}" for name in table["clauses"])
            yield from (Finding(str(file.relative_to(ROOT)), 1, name) for name in names if name not in broken)


def _sources(patterns: Iterable[str]) -> Iterator[Source]:
    for pattern in patterns:
        for top in sorted(ROOT.glob(pattern)):
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                if path.suffix in _TEXT and path.is_file() and "__pycache__" not in path.parts:
                    yield Source(path)


def _is_frame(module: Source) -> bool:
    """A package's or program's own file, or one that a generator writes."""
    return Path(module.path).stem in ("__init__", "__main__") or module.path.endswith("_pb2.py")


def _is_contract(module: Source) -> bool:
    classes = [each for each in module.tree.body if isinstance(each, ast.ClassDef)]
    return any("Protocol" in ast.unparse(base) for each in classes for base in each.bases)


def _importers(modules: Iterable[Source]) -> Mapping[str, set[Source]]:
    """Module name -> the modules that import it, or name it in a string to import it late."""
    by_name = {module.name: module for module in modules}
    found: dict[str, set[Source]] = defaultdict(set)
    for module in by_name.values():
        for node in module.nodes:
            match node:
                case ast.Import():
                    names = [alias.name for alias in node.names]
                case ast.ImportFrom(module=str() as start, level=0):
                    below = [f"{start}.{alias.name}" for alias in node.names]
                    names = [name if name in by_name else start for name in below]
                case ast.Constant(value=str() as text) if text.startswith("mooring."):
                    names = [text]
                case _:
                    continue
            for name in names:
                if name in by_name and by_name[name] is not module:
                    found[name].add(module)
    return found


# The budgets


def budgets() -> dict[str, int]:
    """As recorded. Where a merge left two versions of a line, the lower one counts."""
    found: dict[str, int] = {}
    for rule, figure in re.findall(r'^ *"(.*)": (\d+),?$', RATCHET.read_text(), re.MULTILINE):
        found[rule] = min(int(figure), found.get(rule, int(figure)))
    return found


def lower(counts: Mapping[str, int]) -> list[str]:
    """Write the budgets that went down; what is over its budget, which stays as it was."""
    before = budgets()
    after = {rule: min(count, before.get(rule, count)) for rule, count in counts.items()}
    RATCHET.write_text(json.dumps(after, indent=1, sort_keys=True) + "\n")
    return [f"{rule}: {count}, allowed {after[rule]}" for rule, count in counts.items() if count > after[rule]]


# The counts


def figures(tree: Tree) -> Iterator[tuple[str, object]]:
    modules = [each for each in tree.modules if not _is_frame(each)]
    lines = sorted(each.lines for each in modules)
    own = [each for each in modules if len(tree.importers[each.name]) == 1]
    yield "modules in src (without __init__, __main__, generated)", len(modules)
    yield "lines in src", sum(each.lines for each in tree.modules)
    yield "folders in src", len({each.folder for each in tree.modules})
    yield "largest folder of src", "{} ({} modules)".format(*tree.largest_folder)
    yield "lines of a module, median", statistics.median(lines)
    yield "lines of a module, 95th percentile", lines[len(lines) * 95 // 100]
    yield f"modules under {SHORT} lines", sum(1 for each in lines if each < SHORT)
    yield f"modules over {LONG} lines", sum(1 for each in lines if each > LONG)
    yield "modules with one importer", len(own)
    yield (
        "of these in the importer's folder",
        sum(1 for each in own for importer in tree.importers[each.name] if importer.folder == each.folder),
    )


def test_figures(tree: Tree) -> Iterator[tuple[str, object]]:
    """Before and after a move these stay, or go up."""
    sources = [each for each in tree.files["tests"] if each.path.endswith(".py")]
    nodes = [node for each in sources for node in each.nodes]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    calls = Counter(
        node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    yield "files of tests", len(sources)
    yield "lines of tests", sum(each.lines for each in sources)
    yield "test functions", sum(1 for node in functions if node.name.startswith("test_"))
    yield "assert statements in tests", sum(1 for node in nodes if isinstance(node, ast.Assert))
    yield "pytest.raises and pytest.fail in tests", calls["raises"] + calls["fail"]
    yield "pytest.param in tests", calls["param"]
    yield "skips and expected failures in tests", calls["skip"] + calls["skipif"] + calls["xfail"]


def main() -> None:
    parser = argparse.ArgumentParser(description="How large the tree is and how far from its rules.")
    parser.add_argument("--all", action="store_true", help="Count tests and assertions too.")
    parser.add_argument("--lower", action="store_true", help="Lower the budgets to what is left.")
    parser.add_argument(
        "--list", metavar="RULE", help="Name the places that break a rule, given by a part of its name."
    )
    given = parser.parse_args()
    tree = Tree()
    if given.list is not None:
        for rule, found in tree.findings.items():
            if given.list in rule:
                print(f"{rule}:", *(f"  {finding}" for finding in found), sep="\n")
        return
    for name, figure in [*figures(tree), *(test_figures(tree) if given.all else ()), *tree.counts.items()]:
        print(f"{name:60}{figure}")
    if given.lower and (over := lower(tree.counts)):
        parser.exit(1, "\n".join(["over budget:", *over]) + "\n")


if __name__ == "__main__":
    main()
