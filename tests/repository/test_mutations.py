"""The list of mutations does not rot: each still applies to its file, names tests that exist, and is in the docs."""

import shlex

import pytest
from tools.generate_reference.requirements import named_clauses
from tools.mutations import PAGE, ROOT, Mutation, load, table

from support.requirements.table import CLAUSES

MUTATIONS = load()
RUNS = [(mutation, run) for mutation in MUTATIONS for run in mutation.runs]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_applies_to_its_file_once(mutation: Mutation) -> None:
    text = (ROOT / mutation.path).read_text()
    assert mutation.problem(text) == ""
    if mutation.path.endswith(".py"):
        compile(mutation.applied(text), mutation.path, "exec")


def test_names_are_unique_and_tests_exist() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    files = {word for _, run in RUNS for word in shlex.split(run) if word.startswith("tests/")}
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []


def test_broken_clauses_have_tests_in_the_files_that_are_run() -> None:
    """Otherwise no test is selected, and the run shows nothing."""
    named, lost = named_clauses(ROOT), []
    for mutation, run in RUNS:
        words = shlex.split(run)
        paths = tuple(word for word in words if word.startswith("tests/"))
        for clause in (word.removeprefix("--clause=") for word in words if word.startswith("--clause=")):
            files = [file for of_level in named[clause].values() for file in of_level] if clause in CLAUSES else []
            if not any(file.startswith(paths) for file in files):
                lost.append(f"{mutation.name}: {clause}")
    assert lost == []


def test_table_in_the_docs_is_current() -> None:
    assert table(MUTATIONS) in PAGE.read_text(), "run python -m tools.mutations --table"
