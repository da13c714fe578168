"""Bindings: which role they hand out, and to whom."""

from typing import Final

from mooring.server.tables.columns import AGE, NAME, WIDE, Column, Printer
from mooring.server.tables.reading import Json, age, name, parts, text

_SUBJECTS: Final = {"Users": "User", "Groups": "Group", "ServiceAccounts": "ServiceAccount"}


def _subjects(binding: Json, kind: str) -> str:
    named = [subject for subject in parts(binding, "subjects") if text(subject, "kind") == kind]
    return ", ".join(
        f"{text(subject, 'namespace')}/{text(subject, 'name')}" if kind == "ServiceAccount" else text(subject, "name")
        for subject in named
    )


BINDINGS: Final = Printer(
    columns=(
        NAME,
        Column("Role", description="Kind and name of the role."),
        AGE,
        *(Column(title, description=f"{title} it is given to.", priority=WIDE) for title in _SUBJECTS),
    ),
    cells=lambda binding, now: (
        name(binding),
        f"{text(binding, 'roleRef', 'kind')}/{text(binding, 'roleRef', 'name')}",
        age(binding, now),
        *(_subjects(binding, kind) for kind in _SUBJECTS.values()),
    ),
)
