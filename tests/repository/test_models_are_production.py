"""The models explore the functions that production calls, and every one of them has a mutation that is detected.

Names are compared, not call graphs: a rule that only a model uses, or that no model reaches, is found either way.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tools.mutations import ROOT, load

SOURCES: Final = ROOT / "src" / "mooring"
#: Gates and verdicts: the rules that decide whether storage is committed, deleted or unbound.
RULES: Final = (
    "volumes/holds/transitions.py",
    "volumes/holds/policy.py",
    "volumes/claim_rollback.py",
    "volumes/unused/proof.py",
    "volumes/unused/record.py",
)
#: Modules of production that the models run as a whole.
RUN_BY_MODELS: Final = ("pvcontroller/claim_sync.py", "pvcontroller/volume_sync.py", "pvcontroller/component.py")
#: They decide nothing: the form of records, conditions and references.
NO_RULES: Final = frozenset({"to_data", "from_data", "clean_condition", "dirty_condition", "detached_claim_uid"}) | {
    "record_name",
    "replacement_record",
}
#: A delay: the models have no clock. Simulated runs have.
NOT_IN_A_MODEL: Final = frozenset({"retry_backoff"})


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    """Public functions of a module, by name."""
    body = ast.parse(path.read_text()).body
    return {one.name: one for one in body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")}


def names(node: ast.AST) -> Iterator[str]:
    """Every name, attribute and imported name below a node."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name


@cache
def names_in_file(path: Path) -> frozenset[str]:
    return frozenset(names(ast.parse(path.read_text())))


def names_in(paths: list[Path]) -> frozenset[str]:
    return frozenset().union(*map(names_in_file, paths))


RULE_FUNCTIONS: Final = [
    pytest.param(path, name, id=f"{path.rpartition('/')[2]}: {name}")
    for path in RULES
    for name in functions(SOURCES / path)
    if name not in NO_RULES
]


@pytest.mark.parametrize(("path", "name"), RULE_FUNCTIONS)
def test_rule_is_called_by_production(path: str, name: str) -> None:
    others = [each for each in SOURCES.rglob("*.py") if each != SOURCES / path]
    inside = {n for function in functions(SOURCES / path).values() if function.name != name for n in names(function)}
    assert name in names_in(others) | inside, "only models and tests call it"


@pytest.mark.parametrize(("path", "name"), RULE_FUNCTIONS)
def test_rule_is_explored_by_a_model(path: str, name: str) -> None:
    explored = names_in([*(ROOT / "tests" / "support" / "model").glob("*.py")])
    explored |= names_in([SOURCES / each for each in RUN_BY_MODELS])
    # And what those rules call.
    for _ in RULES:
        called = [one for each in RULES for one in ast.walk(ast.parse((SOURCES / each).read_text()))]
        for one in called:
            if isinstance(one, ast.FunctionDef) and one.name in explored:
                explored |= set(names(one))
    assert (name in explored) is (name not in NOT_IN_A_MODEL)


@pytest.mark.parametrize(("path", "name"), RULE_FUNCTIONS)
def test_rule_has_a_mutation(path: str, name: str) -> None:
    text = (SOURCES / path).read_text()
    function = functions(SOURCES / path)[name]
    found = [
        mutation.name
        for mutation in load()
        if mutation.path == f"src/mooring/{path}"
        and function.lineno <= text[: text.find(mutation.old)].count("\n") + 1 <= (function.end_lineno or 0)
    ]
    assert found, f"no row of tests/mutations changes {name}"
