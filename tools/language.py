"""Words that the project does not use, and where: one table for the test and for the counts.

Indefinite persons are banned everywhere, poetic words in identifiers, some phrases in text for users. Lines of
`tests/repository/language_exemptions.txt` (`path: word: reason`, the path a glob because files move) allow one.
"""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

EXEMPTIONS: Final = Path(__file__).parents[1] / "tests" / "repository" / "language_exemptions.txt"

_PERSONS: Final = (
    *(f"{which}body" for which in ("some", "any", "every", "no")),
    *(f"{which}one" for which in ("some", "any", "every")),
    *(f"no{between}one" for between in " _"),
    *(f"who{between}ever" for between in ("", "m", "so")),
)
_PLURAL: Final = re.compile(r"[sS](?![A-Za-z])")
_POETIC_WORDS: Final = """
    patience patiently said told tell heard hear heeds heeded outlook clearing room rooms kin kinship makeable
    unserved whereabouts forsake forsaken forgotten insist entangled torn mould hearsay remains annex twin weather
    luck calm rough foul storm stormy court lifeline sever custody ground script doorkeeper door readership taker
    takers standing standings sleeper sleepers asleep doomed picky thank callers greet surroundings undoing making
    sweeping stray strays immortal nonsense paper pocket tiny rival rivals lives played plays wish wishes wanted
    who whom whose
"""
_POETIC: Final = frozenset(_POETIC_WORDS.split())
_POETIC_PAIRS: Final = frozenset({("second", "look"), ("second", "looks")})
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PHRASES: Final = re.compile(
    r"\b(?:anew|by halves|goes round|let near|puts up with|on its way out|the one who|of no use"
    r"|is no (?!longer\b|more\b|different\b)(?=[a-z])|none of them|a while|so many|for ever|had its way|says no"
    r"|makes no sense|cannot be understood)\b",
    re.IGNORECASE,
)
_DANGLING: Final = re.compile(r"\b(?:them|that one|it|too)\W*$")
_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_SHOWN: Final = frozenset({"record", "echo", "secho", "fail", "ClickException", "UsageError", "BadParameter"})


class Finding(NamedTuple):
    path: str
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word}"


class Exemption(NamedTuple):
    path: str
    word: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        return self.word.lower() == finding.word.lower() and fnmatch(finding.path, self.path)


def exemptions() -> list[Exemption]:
    lines = [line.strip() for line in EXEMPTIONS.read_text().splitlines()]
    parts = [[part.strip() for part in line.split(":", 2)] for line in lines if line and not line.startswith("#")]
    return [Exemption(*part) for part in parts]


def persons(path: str, text: str) -> Iterator[Finding]:
    """In prose and in identifiers of every style: underscores and changes of case end a word."""
    lowered = text.lower()
    for word in _PERSONS:
        at = lowered.find(word)
        while at >= 0:
            end = at + len(word)
            found, before, after = text[at:end], text[max(at - 1, 0) : at], text[end : end + 2]
            inside = before.isupper() if found.istitle() else before.isalpha()
            longer = after[:1].isalpha() and (found.isupper() or after[0].islower())
            if not inside and (not longer or _PLURAL.match(after)):
                yield Finding(path, text.count("\n", 0, at) + 1, word)
            at = lowered.find(word, end)


def phrases(path: str, text: str) -> Iterator[Finding]:
    for found in _PHRASES.finditer(text):
        yield Finding(path, text.count("\n", 0, found.start()) + 1, found[0].strip().lower())


def is_poetic(identifier: str, *, of_class: bool = False, in_support: bool = False) -> bool:
    words = [word.lower() for word in _WORDS.findall(identifier)]
    return (
        not _POETIC.isdisjoint(words)
        or (of_class and "moved" in words)
        or (in_support and not {"trial", "trials"}.isdisjoint(words))
        or any(pair in _POETIC_PAIRS for pair in pairwise(words))
    )


def poetic_identifiers(path: str, module: ast.Module) -> Iterator[Finding]:
    """Names that a file defines, each once: functions, classes, attributes, arguments, constants, its own name."""
    in_support = path.startswith("tests/support/")
    defined = {name: (line, of_class) for name, line, of_class in _defined(module)}
    defined.setdefault(Path(path).stem, (1, False))
    for name, (line, of_class) in defined.items():
        if is_poetic(name, of_class=of_class, in_support=in_support):
            yield Finding(path, line, name)


def _defined(module: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Statements only, for speed: other expressions define no names that readers look up."""
    todo: list[tuple[ast.AST, bool]] = [(module, False)]
    while todo:
        block, in_function = todo.pop()
        for statement in _statements(block):
            match statement:
                case ast.ClassDef():
                    yield statement.name, statement.lineno, True
                    todo.append((statement, False))
                    continue
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    yield statement.name, statement.lineno, False
                    given = statement.args
                    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
                        if each is not None:
                            yield each.arg, each.lineno, False
                    todo.append((statement, True))
                    continue
                case ast.Assign():
                    targets = statement.targets
                case ast.AnnAssign() | ast.AugAssign():
                    targets = [statement.target]
                case _:
                    todo.append((statement, in_function))
                    continue
            for target in targets:
                for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(each, ast.Attribute):
                        yield each.attr, each.lineno, False
                    elif isinstance(each, ast.Name) and not in_function:
                        yield each.id, each.lineno, False


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        found = getattr(block, part, None)
        if isinstance(found, list):
            yield from found


def visible_texts(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Strings for users: help, log lines, events, errors, docstrings of commands."""
    for node in nodes:
        match node:
            case ast.keyword(arg="help" | "short_help" | "epilog"):
                yield from _strings(node.value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level)) if level in _LEVELS:
                yield from (text for each in node.args for text in _strings(each))
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _SHOWN:
                yield from (text for each in node.args for text in _strings(each))
            case ast.Raise(exc=ast.expr()):
                yield from _strings(node.exc)
            case ast.FunctionDef() if any(".command(" in ast.unparse(each) for each in node.decorator_list):
                yield node.lineno, ast.get_docstring(node) or ""


def dangling_help(path: str, nodes: list[ast.AST]) -> Iterator[Finding]:
    """Help that ends in a pronoun, and thus depends on the help of another flag."""
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "help":
            for line, text in _strings(node.value):
                without_default = re.sub(r"\s*\[default: .*?\]", "", text)
                if found := _DANGLING.search(without_default):
                    yield Finding(path, line, found[0])


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value
