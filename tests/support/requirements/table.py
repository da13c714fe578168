"""The requirements: rows, their clauses, and the gaps that are known.

A row is a promise of the design documents (topology.toml, capacity.toml, rollback.toml, groups.toml); a clause is one
statement of it that a test can break, with the levels at which a test has to pass:

    u unit or property test of the pure core           s seeded run in the simulated cluster
    e end to end on the embedded cluster               k on real Kubernetes components
    m model checking                                   b a bound on the calls of a decision

A test names its clauses: `@pytest.mark.req("T16.claimref-cleared")`. gaps.toml lists the levels of clauses that no test
proves yet, with the reason; `tests/repository/ratchet.json` counts them, and the count only goes down.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).parent
GAPS_FILE: Final = FOLDER / "gaps.toml"
_FILES: Final = ("topology", "capacity", "rollback", "groups")
_LEVELS: Final = frozenset("usekmb")


class Clause(msgspec.Struct, frozen=True):
    #: Of the row and of the clause: `T16.timeout`.
    id: str
    levels: str
    statement: str


class Row(msgspec.Struct, frozen=True):
    id: str
    title: str
    clauses: tuple[Clause, ...]


class Gap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Levels of a clause without a test, and why."""

    levels: str
    why: str


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    clauses: dict[str, tuple[str, str]]


def _rows() -> Iterator[Row]:
    for name in _FILES:
        text = (FOLDER / f"{name}.toml").read_text()
        for row, table in msgspec.convert(tomllib.loads(text), dict[str, _Table]).items():
            clauses = (Clause(f"{row}.{own}", levels, said) for own, (levels, said) in table.clauses.items())
            yield Row(row, table.title, tuple(clauses))


ROWS: Final = tuple(_rows())
CLAUSES: Final = {clause.id: clause for row in ROWS for clause in row.clauses}
GAPS: Final = msgspec.convert(tomllib.loads(GAPS_FILE.read_text()), dict[str, Gap])


def problems() -> list[str]:
    """What is wrong with the table itself."""
    levels = [each.id for each in CLAUSES.values() if not each.levels or not set(each.levels) <= _LEVELS]
    stray = [
        name for name, gap in GAPS.items() if name not in CLAUSES or not set(gap.levels) <= set(CLAUSES[name].levels)
    ]
    return [*(f"{name}: unknown levels" for name in levels), *(f"{name}: a gap of no clause" for name in stray)]
