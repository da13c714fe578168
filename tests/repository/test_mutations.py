"""The list of mutations does not rot: each still applies to its file, names tests that exist, and is in the docs."""

import shlex

import pytest
from tools.mutations import PAGE, ROOT, Mutation, load, table

MUTATIONS = load()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_applies_to_its_file_once(mutation: Mutation) -> None:
    text = (ROOT / mutation.path).read_text()
    assert mutation.problem(text) == ""
    compile(mutation.applied(text), mutation.path, "exec")


def test_names_are_unique_and_tests_exist() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    files = {word for mutation in MUTATIONS for word in shlex.split(mutation.tests) if word.startswith("tests/")}
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []


def test_table_in_the_docs_is_current() -> None:
    assert table(MUTATIONS) in PAGE.read_text(), "run python -m tools.mutations --table"
