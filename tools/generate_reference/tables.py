"""Markdown tables, and the line that says where a page comes from."""

from collections.abc import Iterable, Sequence
from typing import Final

GENERATED: Final = "<!-- Written by `make reference`; change the code, not this page. -->\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(heads), _line(["---"] * len(heads)), *(_line(row) for row in rows)]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    return f"`{text}`"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(text) for text in cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
