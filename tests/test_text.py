"""Repair of text that is not valid YAML."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.drafts import FILLED, repaired_text
from support import draft_examples

TWO = "apiVersion: v1\nkind: A\n\napiVersion: v1\nkind: B\n"


@pytest.mark.parametrize(
    ("text", "kinds", "done"),
    [
        pytest.param(TWO, ["A", "B"], ["added the missing --- before line 4"], id="no separator"),
        pytest.param("kind: A\nx: 1\nkind: B\n", ["A", "B"], ["added the missing --- before line 3"], id="kind first"),
        pytest.param("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n", ["A", "B"], [], id="separated"),
        pytest.param("--- # one\nkind: A\n--- # two\nkind: B\n", ["A", "B"], [], id="separated with comments"),
        pytest.param("kind: A\nspec:\n  kind: inner\n", ["A"], [], id="the same key further in"),
        pytest.param("kind: A\ndata: |\n  apiVersion: v1\n  kind: B\n", ["A"], [], id="a manifest in a text"),
        pytest.param("", [], [], id="nothing"),
    ],
)
@pytest.mark.req("T2.separator")
def test_separators(text: str, kinds: list[str], done: list[str]) -> None:
    fixed, said = repaired_text(text)
    assert [document["kind"] for document in yaml.safe_load_all(fixed) if document] == kinds
    assert list(said) == done


@pytest.mark.parametrize(
    "elided",
    [
        pytest.param("  containers:\n  ...\n", id="on the next line"),
        pytest.param("  containers:\n    ...\n", id="on the next line, further in"),
        pytest.param("  containers: ...\n", id="on the same line"),
    ],
)
@pytest.mark.req("T2.containers")
def test_containers_left_to_the_reader(elided: str) -> None:
    fixed, said = repaired_text(f"kind: Pod\nspec:\n{elided}  volumes: []\n")
    spec = yaml.safe_load(fixed)["spec"]
    assert spec == {"containers": [{"name": "app", "image": "pause"}], "volumes": []}
    assert said == (FILLED,)


def test_other_dots_are_left_alone() -> None:
    for text in ("spec:\n  containers:\n  - name: a\n", "kind: A\n...\n", "args:\n- ...\n"):
        assert repaired_text(text) == (text, ())


@given(st.sampled_from((*draft_examples.ALL, TWO, draft_examples.POOL)))
def test_what_was_repaired_needs_no_repair(text: str) -> None:
    fixed, _ = repaired_text(text)
    assert repaired_text(fixed) == (fixed, ())


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    fixed, said = repaired_text(text)
    assert said or fixed == text
