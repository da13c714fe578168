"""Passive data: ConfigMaps, Secrets, ServiceAccounts, and any kind that has no table of its own."""

from typing import Final

from mooring.server.tables.columns import AGE, NAME, Column, Printer
from mooring.server.tables.reading import age, name, part, text

_DATA: Final = Column("Data", description="How many entries there are.")

CONFIG_MAPS: Final = Printer(
    columns=(NAME, _DATA, AGE),
    cells=lambda config, now: (
        name(config),
        len(part(config, "data")) + len(part(config, "binaryData")),
        age(config, now),
    ),
)

SECRETS: Final = Printer(
    columns=(NAME, Column("Type", description="What the secret is for."), _DATA, AGE),
    cells=lambda secret, now: (name(secret), text(secret, "type"), len(part(secret, "data")), age(secret, now)),
)

OTHERS: Final = Printer(columns=(NAME, AGE), cells=lambda value, now: (name(value), age(value, now)))

#: Kinds for which upstream has no columns either: their age is a date.
DATED: Final = Printer(
    columns=(NAME, Column("Created At", type="date", description="When it was created.")),
    cells=lambda value, now: (name(value), text(value, "metadata", "creationTimestamp")),
)
