"""The tree's rules of language and shape as budgets that only go down: a rule at 0 is final.

`tools/tree_counts.py` counts, `ratchet.json` has the budgets. A count over its budget is a new violation; one well
under it must be recorded with one command. `slack` is the tolerated difference, so that branches which land one after
the other need not all change the same lines.
"""

from pathlib import Path

import pytest
from tools import tree_counts
from tools.language import is_poetic, persons, phrases
from tools.tree_counts import LOWER, Tree, budgets


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


def slack(budget: int) -> int:
    return min(10, budget // 10)


@pytest.mark.parametrize("rule", budgets())
def test_budgets_only_go_down(tree: Tree, rule: str) -> None:
    count, budget = tree.counts.get(rule, 0), budgets()[rule]
    where = f"see them with: python -m tools.tree_counts --list '{rule}'"
    assert count <= budget, f"{count} {rule}, where {budget} were left. Never raise the budget; {where}"
    assert count >= budget - slack(budget), f"only {count} {rule} are left of {budget}. Keep it so with: {LOWER}"


def test_every_rule_has_a_budget(tree: Tree) -> None:
    assert sorted(budgets()) == sorted(tree.counts), f"run: {LOWER}"


def test_every_exemption_is_needed_and_has_a_reason(tree: Tree) -> None:
    assert [each for each in tree.exemptions if each not in tree.used or not each.reason] == []


def test_merge_conflict_keeps_the_lower_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ratchet.json"
    monkeypatch.setattr(tree_counts, "RATCHET", file)
    file.write_text('{\n<<<<<<< one\n "a": 3,\n=======\n "a": 5,\n>>>>>>> other\n "b": 1\n}\n')
    assert budgets() == {"a": 3, "b": 1}
    assert tree_counts.lower({"a": 2, "b": 4}) == ["b: 4, allowed 1"]
    assert budgets() == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("No{}'s volume; no{} else's", 2),
        ("_tell_if_no{}s(pod)", 1),
        ("class PodNo{}:", 1),
        ("NO{0} = 1; NO{0}S = 2", 2),
        ("the {} of a request, {}Builder", 0),
        ("no{}ing is a word of its own", 0),
    ],
)
def test_persons_are_found_in_prose_and_identifiers(text: str, count: int) -> None:
    body = "BODY" if text.startswith("NO{") else "body"
    assert len(list(persons("a.md", text.format(*[body] * 4)))) == count


@pytest.mark.parametrize(
    ("name", "poetic"),
    [
        ("LONGEST_PATIENCE", True),
        ("NodeRoom", True),
        ("second_looks", True),
        ("background", False),
        ("is_responsible_for", False),
        ("roommate", False),
    ],
)
def test_identifiers_are_split_into_words(name: str, poetic: bool) -> None:
    assert is_poetic(name) is poetic


def test_phrases_are_found_where_users_read() -> None:
    text = "x is no mapping; it is no longer there; list it a" + "new"
    assert [found.word for found in phrases("a.md", text)] == ["is no", "a" + "new"]
