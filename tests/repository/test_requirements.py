"""Every clause of the requirements is named by a test at each of its levels, or is a known gap.

That the tests pass is what `make requirements` shows.
"""

from tools.generate_reference.requirements import named_clauses
from tools.mutations import ROOT

from support.requirements.table import CLAUSES, GAPS, problems

NAMED = named_clauses(ROOT)


def test_the_table_is_consistent() -> None:
    assert problems() == []
    assert sorted(set(NAMED) - set(CLAUSES)) == [], "marks that name no clause"


def test_every_clause_has_a_test_at_each_of_its_levels() -> None:
    wanted = {(name, level) for name, clause in CLAUSES.items() for level in clause.levels}
    gaps = {(name, level) for name, gap in GAPS.items() for level in gap.levels}
    found = {(name, level) for name, levels in NAMED.items() for level in levels}
    assert sorted(wanted - found - gaps) == [], "write a test, or list the gap in gaps.toml"
    assert sorted(gaps & found) == [], "these have a test now: remove them from gaps.toml"
