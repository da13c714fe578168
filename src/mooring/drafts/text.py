"""Repairs of text that is not YAML yet, or not the YAML that was meant.

Works on lines and knows nothing of objects. Two things: documents that follow each other without `---`, which YAML
reads as one with keys given twice, and `...` where a pod's containers should be.
"""

import re
from collections.abc import Iterator
from typing import Final

#: The keys an object may begin with; seen a second time, another object begins.
_BEGINNINGS: Final = ("apiVersion", "kind")
_TOP_KEY: Final = re.compile(r"(?P<key>[A-Za-z]\w*):(\s|$)")
_SEPARATOR: Final = "---"

_ELIDED: Final = re.compile(r"^(?P<indent>[ ]*)containers:[ ]*(?:#[^\n]*)?(?:\n[ ]*)?\.\.\.[ ]*$", re.MULTILINE)
#: A container that only waits, under the name Kubernetes' own does.
_WAITING: Final = "containers:\n{indent}- name: app\n{indent}  image: pause"

SEPARATED: Final = "added the missing --- before line {line}"
FILLED: Final = "put a container that only waits in the place of containers: ..."


def repaired(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with both repairs made, and what was done."""
    filled, count = _ELIDED.subn(lambda found: found["indent"] + _WAITING.format(indent=found["indent"]), text)
    separated, lines = _separated(filled)
    return separated, (*([FILLED] * count), *(SEPARATED.format(line=line) for line in lines))


def _separated(text: str) -> tuple[str, list[int]]:
    missing: list[int] = []
    parts = [_line(line, number, missing) for number, line in enumerate(_marked(text), start=1)]
    return "".join(parts), missing


def _line(marked: tuple[str, bool], number: int, missing: list[int]) -> str:
    line, begins = marked
    if not begins:
        return line
    missing.append(number)
    return f"{_SEPARATOR}\n{line}"


def _marked(text: str) -> Iterator[tuple[str, bool]]:
    """Every line, and whether an object begins there without a separator before it."""
    seen: set[str] = set()
    for line in text.splitlines(keepends=True):
        if line.startswith(_SEPARATOR):
            seen.clear()
        top = _TOP_KEY.match(line)
        again = top is not None and top["key"] in seen and top["key"] in _BEGINNINGS
        if again:
            seen.clear()
        if top is not None:
            seen.add(top["key"])
        yield line, again
