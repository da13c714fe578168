"""An object's table row as a mapping from column to cell."""

from typing import Any

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.kinds.columns import Cell
from mooring.server.kinds.registry import rules_of

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
FIVE_MINUTES_AGO = "2025-12-31T23:55:00Z"


def row(kind: Kind[ApiObject], value: dict[str, Any]) -> dict[str, Cell]:
    """By column name. An object without a creation time is five minutes old."""
    metadata = {"creationTimestamp": FIVE_MINUTES_AGO} | value.get("metadata", {})
    printer = rules_of(kind).printer
    cells = printer.cells(value | {"metadata": metadata}, NOW)
    return dict(zip((column.name for column in printer.columns), cells, strict=True))
